//! Plain `tools/call` of a tool that adds two numbers, compared with the same hyper server without wasm and
//! servers of the official SDKs. All take turns, so that other load on the machine affects each.

use crate::Effort;
use crate::clock;
use crate::load::{Client, GRID, Measured, drive, drive_open};
use crate::peers::{self, Headers, Mode, Sdk};
use crate::report::{Aim, Section};
use crate::server::{Server, folder};
use crate::stats::{Latencies, median, shown};
use crate::wire::{Template, Wire, contains, text};
use serde_json::{Value, json};
use std::path::Path;
use std::time::{Duration, Instant};
use toolyard_tests::guests;
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
/// The part of a server's rate at which its latencies are measured.
const HALF: f64 = 0.5;
/// The largest ratio of the 99th percentile to the median there.
const P99_OF_P50: f64 = 3.0;
/// The quantiles of latencies in the report.
const QUANTILES: [f64; 4] = [0.5, 0.9, 0.99, 0.999];

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
const ALL: [Target; 8] = [
    Target::Hyper,
    Target::Tool,
    Target::Stateless,
    Target::Ping,
    RUST[0],
    RUST[1],
    TYPESCRIPT[0],
    TYPESCRIPT[1],
];

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
    async fn callers(
        &self,
        target: Target,
        connections: usize,
    ) -> anyhow::Result<Option<(&Server, Vec<Caller>)>> {
        let Some(server) = self.of(target) else { return Ok(None) };
        // Bare hyper gets the same requests as the host.
        let (port, mode) = match target {
            Target::Hyper => (self.toolyard.port(), Mode::Session),
            Target::Peer(_, mode) => (server.port(), mode),
            Target::Tool | Target::Stateless | Target::Ping => (server.port(), Mode::Session),
        };
        let headers = peers::headers(port, mode).await?;
        let arguments = json!({"name": "add", "arguments": {"a": 19, "b": 23}});
        let (template, expected): (_, &'static [u8]) = match target {
            Target::Ping => (template(&headers, "ping", &json!({})), b"\"result\":{}"),
            Target::Stateless => (stateless(arguments), b"\"text\":\"42\""),
            Target::Hyper | Target::Tool | Target::Peer(..) => {
                (template(&headers, "tools/call", &arguments), b"\"text\":\"42\"")
            }
        };
        Ok(Some((server, Caller::some(server.port(), &template, expected, connections).await?)))
    }
}

/// A request template with these headers.
pub fn template(headers: &Headers, method: &str, params: &Value) -> Template {
    let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (*name, &**value)).collect();
    Template::new(&headers, method, &params.to_string())
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

/// The measurement of one target in one round.
struct Row {
    target: Target,
    connections: usize,
    measured: Measured,
}

/// The rows of all rounds.
struct Rows(Vec<Row>);

impl Rows {
    fn of(&self, target: Target, connections: usize) -> impl Iterator<Item = &Measured> {
        let these = self.0.iter().filter(move |row| row.target == target && row.connections == connections);
        these.map(|row| &row.measured)
    }

    /// The median of a figure over the rounds; `None` for targets that did not run.
    fn figure(&self, target: Target, connections: usize, of: impl Fn(&Measured) -> f64) -> Option<f64> {
        let figure = median(self.of(target, connections).map(of));
        figure.is_finite().then_some(figure)
    }

    fn rate(&self, target: Target, connections: usize) -> Option<f64> {
        self.figure(target, connections, |measured| measured.per_second)
    }
}

/// Runs the measurement.
pub async fn measure(effort: Effort, work: &Path) -> anyhow::Result<Vec<Section>> {
    let servers = Servers::start(work).await?;
    let mut closed = Rows(Vec::new());
    for _ in 0..effort.rounds {
        for connections in CONNECTIONS {
            for target in ALL {
                if let Some((server, callers)) = servers.callers(target, connections).await? {
                    let measured = drive(server, callers, effort).await?;
                    closed.0.push(Row { target, connections, measured });
                }
            }
        }
    }
    let (mut open, mut clock) = (Rows(Vec::new()), Vec::new());
    for _ in 0..effort.rounds {
        clock.push(clock::look(effort.measure).await?);
        for target in ALL {
            let Some(rate) = closed.rate(target, MANY) else { continue };
            if let Some((server, callers)) = servers.callers(target, MANY).await? {
                let (measured, _) = drive_open(server, callers, HALF * rate, effort).await?;
                open.0.push(Row { target, connections: MANY, measured });
            }
        }
    }
    servers.toolyard.stop().await?;
    Ok(vec![closed_section(&closed), open_section(&open, &clock)])
}

fn closed_section(rows: &Rows) -> Section {
    let mut section = Section::new(
        "Plain tools/call",
        "Each connection asks again as soon as it has its answer; JSON answers (rmcp's of a session are streams), HTTP/1.1 kept \
         alive. With a session the requests are of 2025-11-25. Ours without one are of 2026-07-28, with the tasks extension \
         declared; the SDKs' without one are those of 2025-11-25 without an id. The load generator has one thread on the same \
         cores. Median of the rounds. CPU is that of the server's process.",
        "server | connections | per s | of bare hyper | p50 ms | p99 ms | CPU µs a call | user | kernel",
    );
    let mut data = Vec::new();
    for connections in CONNECTIONS {
        for target in ALL {
            let of = |figure: &dyn Fn(&Measured) -> f64| rows.figure(target, connections, figure);
            let Some(rate) = of(&|measured| measured.per_second) else { continue };
            let share = rate / rows.rate(Target::Hyper, connections).unwrap_or(f64::NAN);
            let figures = [
                of(&|measured| measured.whole.ms(0.5)),
                of(&|measured| measured.whole.ms(0.99)),
                of(&Measured::cpu_us),
                of(&|measured| measured.user_us),
                of(&|measured| measured.system_us),
            ]
            .map(Option::unwrap_or_default);
            let mut row = vec![
                target.name().to_owned(),
                connections.to_string(),
                shown(rate),
                format!("{:.0} %", 100.0 * share),
            ];
            row.extend(figures.map(shown));
            section.row(row);
            data.push(json!({
                "target": target.name(), "connections": connections, "per_second": rate,
                "of_bare_hyper": share, "p50_ms": figures[0], "p99_ms": figures[1], "cpu_us": figures[2],
                "user_us": figures[3], "system_us": figures[4],
                "rounds_per_second": rows.of(target, connections).map(|round| round.per_second).collect::<Vec<_>>(),
            }));
        }
    }
    for ours in OURS {
        section.aims.extend(aims(rows, ours));
    }
    section.data = json!({ "calls": data });
    section
}

/// The best of these rates, with which the host is compared.
fn best(rows: &Rows, of: [Target; 2], connections: usize) -> Option<f64> {
    of.into_iter().filter_map(|target| rows.rate(target, connections)).reduce(f64::max)
}

fn aims(rows: &Rows, ours: Target) -> Vec<Aim> {
    let mut aims = Vec::new();
    for (connections, peers, whose, least) in [
        (MANY, RUST, "rmcp", OF_RUST.0),
        (FEW, RUST, "rmcp", OF_RUST.1),
        (MANY, TYPESCRIPT, "the TypeScript SDK", OF_TYPESCRIPT),
    ] {
        let (Some(rate), Some(peer)) = (rows.rate(ours, connections), best(rows, peers, connections)) else {
            continue;
        };
        aims.push(Aim {
            what: format!("{}, {connections} connections, of {whose} at its best", ours.name()),
            aim: format!("at least {least} times"),
            reached: format!("{:.2}", rate / peer),
            met: rate / peer >= least,
        });
    }
    let cpu = |target| rows.figure(target, MANY, Measured::cpu_us);
    if let (Some(cpu), Some(bare)) = (cpu(ours), cpu(Target::Hyper)) {
        for (what, figure, most) in
            [("CPU a call", cpu, CPU_US), ("CPU beyond bare hyper's", cpu - bare, SHARE_US)]
        {
            aims.push(Aim {
                what: format!("{}, {MANY} connections, {what}", ours.name()),
                aim: format!("at most {most} µs"),
                reached: format!("{} µs", shown(figure)),
                met: figure <= most,
            });
        }
    }
    aims
}

fn open_section(rows: &Rows, clock: &[Latencies]) -> Section {
    let mut section = Section::new(
        "Plain tools/call at half the rate",
        "64 connections, each server asked half as often as it could answer in the closed loop above, at times that were \
         fixed before; latencies count from those times. Beside them what the machine itself takes: something that needs no \
         time is due on each core every 250 µs, and is done at the next look at the clock, while no server is asked. Median of \
         the rounds.",
        "server | asked per s | p50 ms | p90 ms | p99 ms | p99.9 ms | p99 of p50",
    );
    let taken = QUANTILES.map(|of| median(clock.iter().map(|latencies| latencies.ms(of))));
    let per_second = 1.0 / GRID.as_secs_f64();
    let mut row = vec!["a clock, on each core".to_owned(), shown(per_second)];
    row.extend(taken.map(shown));
    row.push("—".to_owned());
    section.row(row);
    let mut data = vec![figures("a clock, on each core", per_second, taken)];
    for target in ALL {
        let quantile = |of: f64| rows.figure(target, MANY, move |measured| measured.whole.ms(of));
        let Some(rate) = rows.rate(target, MANY) else { continue };
        let took = QUANTILES.map(|of| quantile(of).unwrap_or_default());
        let ratio = took[2] / took[0];
        let mut row = vec![target.name().to_owned(), shown(rate)];
        row.extend(took.map(shown));
        row.push(shown(ratio));
        section.row(row);
        data.push(figures(target.name(), rate, took));
        if OURS.contains(&target) {
            section.aims.push(Aim {
                what: format!("{}, p99 at half the rate, of p50", target.name()),
                aim: format!("at most {P99_OF_P50} times"),
                reached: format!("{ratio:.2}"),
                met: ratio <= P99_OF_P50,
            });
        }
    }
    section.data = json!({ "calls_at_half_the_rate": data });
    section
}

/// A row at half the rate, as JSON.
fn figures(target: &str, per_second: f64, [p50, p90, p99, p999]: [f64; 4]) -> Value {
    json!({
        "target": target, "per_second": per_second, "p50_ms": p50, "p90_ms": p90, "p99_ms": p99, "p999_ms": p999,
    })
}
