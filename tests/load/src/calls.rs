//! Plain `tools/call` of a tool that adds two numbers, beside the same hyper
//! server without wasm. The two take turns, so that whatever else the machine
//! does hits both.

use crate::Effort;
use crate::load::{Client, Measured, drive};
use crate::report::{Aim, Section};
use crate::server::{Server, folder};
use crate::stats::{median, shown};
use crate::wire::{Template, Wire, contains, text};
use serde_json::json;
use std::path::Path;
use std::time::{Duration, Instant};
use toolyard_tests::guests;
use toolyard_tests::session::Session;
use toolyard_tests::stateless::{Client as StatelessClient, enveloped, tasks};

const CONNECTIONS: [usize; 2] = [2, 64];
/// Of the rate of bare hyper, at the most connections.
const AIM: f64 = 0.45;

/// What is measured in turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Target {
    Hyper,
    Tool,
    /// The same tool called without a session.
    Stateless,
    Ping,
}

impl Target {
    const ALL: [Self; 4] = [Self::Hyper, Self::Tool, Self::Stateless, Self::Ping];

    const fn name(self) -> &'static str {
        match self {
            Self::Hyper => "bare hyper, serde_json",
            Self::Tool => "toolyard, wasm `add`",
            Self::Stateless => "toolyard, the same without a session",
            Self::Ping => "toolyard, `ping`",
        }
    }
}

struct Caller {
    wire: Wire,
    template: Template,
    expected: &'static [u8],
}

impl Client for Caller {
    async fn once(&mut self) -> anyhow::Result<Duration> {
        let began = Instant::now();
        let body = self.wire.ask(&mut self.template).await?;
        anyhow::ensure!(contains(body, self.expected), "not what was expected: {}", text(body));
        Ok(began.elapsed())
    }
}

/// Measures it.
pub async fn measure(effort: Effort, work: &Path) -> anyhow::Result<Section> {
    let toolyard = Server::toolyard(&folder(work, "calls", &[guests::fixture("add")])?).await?;
    let baseline = Server::baseline(&work.join("baseline")).await?;
    let mut rounds: Vec<(Target, usize, Measured)> = Vec::new();
    for _ in 0..effort.rounds {
        for connections in CONNECTIONS {
            for target in Target::ALL {
                let server = if target == Target::Hyper { &baseline } else { &toolyard };
                // The headers of a session go to both, so that both are sent the
                // same bytes.
                let session = Session::open(toolyard.port()).await;
                let clients = callers(target, server.port(), &session, connections).await?;
                rounds.push((target, connections, drive(server, clients, effort).await?));
            }
        }
    }
    toolyard.stop().await?;
    Ok(section(&rounds))
}

async fn callers(
    target: Target,
    port: u16,
    session: &Session,
    connections: usize,
) -> anyhow::Result<Vec<Caller>> {
    let headers = session.headers();
    let arguments = json!({"name": "add", "arguments": {"a": 19, "b": 23}});
    let (template, expected): (_, &'static [u8]) = match target {
        Target::Ping => (Template::new(&headers, "ping", "{}"), b"\"result\":{}"),
        Target::Hyper | Target::Tool => {
            (Template::new(&headers, "tools/call", &arguments.to_string()), b"\"text\":\"42\"")
        }
        Target::Stateless => {
            let params = enveloped(arguments, &tasks());
            let request = StatelessClient::with_tasks(port).request("tools/call", params.clone());
            let headers: Vec<_> =
                request.headers().iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
            (Template::new(&headers, "tools/call", &params.to_string()), b"\"text\":\"42\"")
        }
    };
    let mut callers = Vec::new();
    for number in 0..connections {
        let wire = Wire::open(port).await?;
        callers.push(Caller { wire, template: template.for_connection(number), expected });
    }
    Ok(callers)
}

fn section(rounds: &[(Target, usize, Measured)]) -> Section {
    let mut section = Section::new(
        "Plain tools/call",
        "JSON answers, HTTP/1.1 kept alive, one session, or none (2026-07-28, with the tasks extension declared); the load generator has one thread on the same cores. \
         Median of the rounds. CPU is that of the server's process.",
        &[
            "server",
            "connections",
            "per s",
            "of bare hyper",
            "p50 ms",
            "p99 ms",
            "CPU µs a call",
            "user",
            "kernel",
        ],
    );
    let over = |target, connections, figure: &dyn Fn(&Measured) -> f64| {
        let these = rounds.iter().filter(|(of, with, _)| *of == target && *with == connections);
        median(these.map(|(_, _, measured)| figure(measured)))
    };
    let mut rows = Vec::new();
    for connections in CONNECTIONS {
        let bare = over(Target::Hyper, connections, &|measured| measured.per_second);
        for target in Target::ALL {
            let of = |figure: &dyn Fn(&Measured) -> f64| over(target, connections, figure);
            let rate = of(&|measured| measured.per_second);
            let (p50, p99) =
                (of(&|measured| measured.whole.ms(0.5)), of(&|measured| measured.whole.ms(0.99)));
            let (cpu, user, system) =
                (of(&Measured::cpu_us), of(&|measured| measured.user_us), of(&|measured| measured.system_us));
            section.row([
                target.name().to_owned(),
                connections.to_string(),
                shown(rate),
                format!("{:.0} %", 100.0 * rate / bare),
                shown(p50),
                shown(p99),
                shown(cpu),
                shown(user),
                shown(system),
            ]);
            let rates = rounds.iter().filter(|(of, with, _)| *of == target && *with == connections);
            rows.push(json!({
                "target": target.name(), "connections": connections, "per_second": rate,
                "of_bare_hyper": rate / bare, "p50_ms": p50, "p99_ms": p99, "cpu_us": cpu,
                "user_us": user, "system_us": system,
                "rounds_per_second": rates.map(|(_, _, measured)| measured.per_second).collect::<Vec<_>>(),
            }));
            if target == Target::Tool && connections == CONNECTIONS[1] {
                section.aims.push(Aim {
                    what: format!("wasm call at {connections} connections, of bare hyper"),
                    aim: format!("at least {:.0} %", 100.0 * AIM),
                    reached: format!("{:.0} %", 100.0 * rate / bare),
                    met: rate / bare >= AIM,
                });
            }
        }
    }
    section.data = json!({ "calls": rows });
    section
}
