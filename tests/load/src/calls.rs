//! Plain `tools/call` of a tool that adds two numbers, compared with the same hyper server without wasm and
//! servers of the official SDKs. All take turns, so that other load on the machine affects each.

use crate::Effort;
use crate::load::{CALLS, Client, Figure, Measured, drive, row};
use crate::peers::{self, Mode, Sdk};
use crate::report::Section;
use crate::server::{Server, folder};
use crate::stats::median;
use crate::wire::{Template, Wire, contains, text};
use serde_json::{Value, json};
use std::path::Path;
use std::time::{Duration, Instant};
use toolyard_tests::guests;
use toolyard_tests::session::{HEADERS, LATEST, Session};
use toolyard_tests::stateless::{Client as StatelessClient, enveloped, tasks};

const CONNECTIONS: [usize; 4] = [1, 2, 64, 512];
/// The number of connections for most aims.
const MANY: usize = 64;
const FEW: usize = 2;
/// The smallest ratio to the rate of rmcp, with many connections and with few; and to that of the TypeScript
/// SDK.
const OF_RUST: (f64, f64) = (1.3, 0.95);
const OF_TYPESCRIPT: f64 = 10.0;
/// The most processor time of a call, and its part beyond bare hyper (microseconds).
const CPU_US: f64 = 38.0;
const SHARE_US: f64 = 15.0;

/// The targets, which are measured in turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Target {
    Hyper,
    Tool,
    /// The same tool called without a session.
    Stateless,
    Ping,
    Peer(Sdk, Mode),
}

const RUST: [Target; 2] = [Target::Peer(Sdk::Rust, Mode::Stateless), Target::Peer(Sdk::Rust, Mode::Session)];
const TYPESCRIPT: [Target; 2] =
    [Target::Peer(Sdk::TypeScript, Mode::Stateless), Target::Peer(Sdk::TypeScript, Mode::Session)];
const OURS: [Target; 2] = [Target::Tool, Target::Stateless];
const ALL: [Target; 8] = {
    use Target::*;
    [Hyper, Tool, Stateless, Ping, RUST[0], RUST[1], TYPESCRIPT[0], TYPESCRIPT[1]]
};

impl Target {
    const fn name(self) -> &'static str {
        match self {
            Self::Hyper => "bare hyper, serde_json",
            Self::Tool => "toolyard, wasm `add`, a session",
            Self::Stateless => "toolyard, wasm `add`, no session",
            Self::Ping => "toolyard, `ping`",
            Self::Peer(Sdk::Rust, Mode::Stateless) => "rmcp, native `add`, no session",
            Self::Peer(Sdk::Rust, Mode::Session) => "rmcp, native `add`, a session",
            Self::Peer(Sdk::TypeScript, Mode::Stateless) => "TypeScript SDK, `add`, no session",
            Self::Peer(Sdk::TypeScript, Mode::Session) => "TypeScript SDK, `add`, a session",
        }
    }
}

/// A client that repeats one request.
pub struct Caller {
    wire: Wire,
    template: Template,
    expected: &'static [u8],
}

impl Caller {
    /// A caller with its own connection. Every answer must contain `expected`.
    pub async fn new(port: u16, template: Template, expected: &'static [u8]) -> anyhow::Result<Self> {
        Ok(Self { wire: Wire::open(port).await?, template, expected })
    }

    /// Several callers, each with its own ids.
    pub async fn some(
        port: u16,
        template: &Template,
        expected: &'static [u8],
        count: usize,
    ) -> anyhow::Result<Vec<Self>> {
        let mut callers = Vec::new();
        for number in 0..count {
            callers.push(Self::new(port, template.for_connection(number), expected).await?);
        }
        Ok(callers)
    }
}

impl Client for Caller {
    async fn once(&mut self) -> anyhow::Result<Duration> {
        let began = Instant::now();
        let body = self.wire.ask(&mut self.template).await?;
        anyhow::ensure!(contains(body, self.expected), "not what was expected: {}", text(body));
        Ok(began.elapsed())
    }
}

/// The running servers.
struct Servers {
    hyper: Server,
    toolyard: Server,
    peers: Vec<(Sdk, Mode, Server)>,
}

impl Servers {
    async fn start(work: &Path) -> anyhow::Result<Self> {
        let toolyard = Server::toolyard(&folder(work, "calls", &[guests::fixture("add")])?).await?;
        let hyper = Server::baseline(&work.join("baseline")).await?;
        let mut running = Vec::new();
        for target in [RUST, TYPESCRIPT].concat() {
            let Target::Peer(sdk, mode) = target else { continue };
            let folder = work.join(format!("peer-{sdk:?}-{mode:?}"));
            running.extend(peers::start(sdk, mode, &folder).await?.map(|server| (sdk, mode, server)));
        }
        Ok(Self { hyper, toolyard, peers: running })
    }

    fn of(&self, target: Target) -> Option<&Server> {
        match target {
            Target::Hyper => Some(&self.hyper),
            Target::Tool | Target::Stateless | Target::Ping => Some(&self.toolyard),
            Target::Peer(sdk, mode) => {
                let these = self.peers.iter().find(|(of, how, _)| *of == sdk && *how == mode);
                these.map(|(_, _, server)| server)
            }
        }
    }

    /// Callers of a running target.
    async fn callers(&self, target: Target, count: usize) -> anyhow::Result<Option<(&Server, Vec<Caller>)>> {
        let Some(server) = self.of(target) else { return Ok(None) };
        // Bare hyper gets the same requests as the host.
        let (port, mode) = match target {
            Target::Hyper => (self.toolyard.port(), Mode::Session),
            Target::Peer(_, mode) => (server.port(), mode),
            Target::Tool | Target::Stateless | Target::Ping => (server.port(), Mode::Session),
        };
        let arguments = json!({"name": "add", "arguments": {"a": 19, "b": 23}});
        let (template, expected): (_, &'static [u8]) = match target {
            Target::Ping => (template(port, mode, "ping", &json!({})).await, b"\"result\":{}"),
            Target::Stateless => (stateless(arguments), b"\"text\":\"42\""),
            Target::Hyper | Target::Tool | Target::Peer(..) => {
                (template(port, mode, "tools/call", &arguments).await, b"\"text\":\"42\"")
            }
        };
        Ok(Some((server, Caller::some(server.port(), &template, expected, count).await?)))
    }
}

/// A request of 2025-11-25 to any server on this port, in a session of its own or without one.
pub async fn template(port: u16, mode: Mode, method: &str, params: &Value) -> Template {
    let params = params.to_string();
    match mode {
        Mode::Session => Template::new(&Session::open(port).await.headers(), method, &params),
        Mode::Stateless => {
            Template::new(&[HEADERS[0], HEADERS[1], ("mcp-protocol-version", LATEST)], method, &params)
        }
    }
}

/// A `tools/call` of 2026-07-28, whose client declares the tasks extension.
pub fn stateless(params: Value) -> Template {
    let params = enveloped(params, &tasks());
    // The template does not contain the port.
    let request = StatelessClient::with_tasks(0).request("tools/call", params.clone());
    let headers: Vec<_> =
        request.headers().iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    Template::new(&headers, "tools/call", &params.to_string())
}

/// The rows of all rounds: the target, its connections, and the measurement.
struct Rows(Vec<(Target, usize, Measured)>);

impl Rows {
    fn of(&self, target: Target, connections: usize) -> impl Iterator<Item = &Measured> + Clone {
        let these = self.0.iter().filter(move |row| row.0 == target && row.1 == connections);
        these.map(|(_, _, measured)| measured)
    }

    /// The median of a figure over the rounds; `None` for targets that did not run.
    fn figure(&self, target: Target, connections: usize, of: Figure) -> Option<f64> {
        let figure = median(self.of(target, connections).map(of));
        figure.is_finite().then_some(figure)
    }

    fn rate(&self, target: Target, connections: usize) -> Option<f64> {
        self.figure(target, connections, |measured| measured.per_second)
    }
}

/// Runs the measurement.
pub async fn measure(effort: Effort, work: &Path) -> anyhow::Result<Section> {
    let servers = Servers::start(work).await?;
    let mut rows = Rows(Vec::new());
    for _ in 0..effort.rounds {
        for connections in CONNECTIONS {
            for target in ALL {
                if let Some((server, callers)) = servers.callers(target, connections).await? {
                    rows.0.push((target, connections, drive(server, callers, effort).await?));
                }
            }
        }
    }
    servers.toolyard.stop().await?;
    Ok(section(&rows))
}

fn section(rows: &Rows) -> Section {
    let mut section = Section::new(
        "Plain tools/call",
        "Each connection asks again as soon as it has its answer; JSON answers (rmcp's of a session are streams), HTTP/1.1 kept \
         alive. With a session the requests are of 2025-11-25. Ours without one are of 2026-07-28, with the tasks extension \
         declared; the SDKs' without one are those of 2025-11-25 without an id. The load generator has one thread on the same \
         cores. Median of the rounds. CPU is that of the server's process.",
        "server | connections | of bare hyper | per s | p50 ms | p99 ms | CPU µs a call",
    );
    for connections in CONNECTIONS {
        for target in ALL {
            let Some(rate) = rows.rate(target, connections) else { continue };
            let share = rate / rows.rate(Target::Hyper, connections).unwrap_or(f64::NAN);
            let cells = [target.name().to_owned(), connections.to_string(), format!("{:.0} %", 1e2 * share)];
            section.row(row(cells, rows.of(target, connections), &CALLS));
        }
    }
    for ours in OURS {
        add_aims(&mut section, rows, ours);
    }
    section
}

/// The best of these rates, with which the host is compared.
fn best(rows: &Rows, of: [Target; 2], connections: usize) -> Option<f64> {
    of.into_iter().filter_map(|target| rows.rate(target, connections)).reduce(f64::max)
}

fn add_aims(section: &mut Section, rows: &Rows, ours: Target) {
    for (connections, peers, whose, least) in [
        (MANY, RUST, "rmcp", OF_RUST.0),
        (FEW, RUST, "rmcp", OF_RUST.1),
        (MANY, TYPESCRIPT, "the TypeScript SDK", OF_TYPESCRIPT),
    ] {
        if let (Some(rate), Some(peer)) = (rows.rate(ours, connections), best(rows, peers, connections)) {
            let what = format!("{}, {connections} connections, of {whose} at its best", ours.name());
            section.at_least(what, rate / peer, least, "times");
        }
    }
    let cpu = |target| rows.figure(target, MANY, |measured| measured.cpu_us);
    if let (Some(cpu), Some(bare)) = (cpu(ours), cpu(Target::Hyper)) {
        let what = |what: &str| format!("{}, {MANY} connections, {what}", ours.name());
        section.at_most(what("CPU a call"), cpu, CPU_US, "µs");
        section.at_most(what("CPU beyond bare hyper's"), cpu - bare, SHARE_US, "µs");
    }
}
