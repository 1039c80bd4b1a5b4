//! Compares tools in Python, TypeScript and Go with the same tools on servers of the official SDKs: `echo`, and the
//! work of the examples, which is the same source on both sides.

use crate::Effort;
use crate::calls::{self, Caller};
use crate::load::{Measured, drive};
use crate::peers::{self, Mode};
use crate::report::{Aim, Section};
use crate::server::{Server, folder};
use crate::stats::{median, shown};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;
use toolyard_tests::guests;

const CONNECTIONS: [usize; 3] = [1, 2, 16];
/// Short turns, so that other load on the machine affects both servers. A round of [`Effort`] has several.
const TURN: Effort = Effort::BRIEF;
const TURNS_PER_ROUND: usize = 3;
/// The smallest ratio of the rate with more connections to the rate with fewer, which allows for noise.
const STEADY: f64 = 0.95;

/// A language, or one of its engines.
struct Language {
    name: &'static str,
    /// The component in `target/echo`.
    echo: &'static str,
    /// The component in `target/examples`, and the call of its tool.
    example: Option<(&'static str, Call)>,
    /// The server of the SDK.
    sdk: fn() -> Option<Command>,
}

/// A call, and the part of its answer that proves that the tool ran.
struct Call {
    tool: &'static str,
    arguments: Value,
    expected: &'static [u8],
}

impl Call {
    fn echo() -> Self {
        let text = "A text that comes back.";
        Self { tool: "echo", arguments: json!({ "text": text }), expected: text.as_bytes() }
    }
}

fn languages() -> [Language; 4] {
    [
        Language {
            name: "Python",
            echo: "python",
            example: Some(("python", calculate())),
            sdk: peers::python_tools,
        },
        Language {
            name: "TypeScript, QuickJS",
            echo: "quickjs",
            example: Some(("typescript", check_rows())),
            sdk: peers::typescript_tools,
        },
        Language {
            name: "TypeScript, StarlingMonkey",
            echo: "starlingmonkey",
            example: None,
            sdk: peers::typescript_tools,
        },
        Language { name: "Go", echo: "go", example: Some(("go", render_template())), sdk: || None },
    ]
}

/// An invoice, and some integers.
fn calculate() -> Call {
    let lines = [
        "rate = 19/100",
        "net = 3 * 1200 + 499.95",
        "gross = net * (1 + rate)",
        "monthly = round(gross / 12, 2)",
        "rest = gross - 12 * monthly",
        "growth = (1 + rate / 12) ** 24",
        "sqrt(gross)",
        "gcd(factorial(20), 2 ** 40)",
        "smallest_factor(1000003)",
        "binomial(40, 20)",
    ];
    Call { tool: "calculate", arguments: json!({ "lines": lines }), expected: b"137846528820" }
}

/// A hundred rows of four columns without a mistake.
fn check_rows() -> Call {
    let columns = json!([
        {"name": "id", "type": "integer", "required": true, "unique": true},
        {"name": "born", "type": "date"},
        {"name": "code", "type": "text", "pattern": "[A-Z]{3}"},
        {"name": "share", "type": "number", "min": 0, "max": 1},
    ]);
    let row = |id| json!({"id": id, "born": "1969-07-20", "code": "ABC", "share": "0.5"});
    let rows: Vec<Value> = (0..100).map(row).collect();
    let arguments = json!({ "columns": columns, "rows": rows });
    Call { tool: "check_rows", arguments, expected: b"All 100 rows are fine." }
}

/// A letter with a list of a hundred items.
fn render_template() -> Call {
    let item = |number| json!({"name": format!("item {number}"), "price": number});
    let items: Vec<Value> = (1..=100).map(item).collect();
    let template = "Dear {{.name}},\n{{range $i, $item := .items}}{{$i}}: {{$item.name | upper}}, {{$item.price}}\n{{end}}";
    let arguments = json!({ "template": template, "data": {"name": "Ada", "items": items} });
    Call { tool: "render_template", arguments, expected: b"99: ITEM 100, 100" }
}

/// The figures of one server, call and number of connections: medians of the turns.
#[derive(Clone, Copy)]
struct Figures {
    per_second: f64,
    cpu_ms: f64,
}

impl Figures {
    /// `None` without turns.
    fn of(turns: &[Measured]) -> Option<Self> {
        let of = |figure: fn(&Measured) -> f64| median(turns.iter().map(figure));
        let figures = Self { per_second: of(|turn| turn.per_second), cpu_ms: of(Measured::cpu_us) / 1e3 };
        (!turns.is_empty()).then_some(figures)
    }

    fn json(self) -> Value {
        json!({"per_second": self.per_second, "cpu_ms": self.cpu_ms})
    }
}

/// A host and the server of an SDK, with the same tools.
struct Servers {
    ours: Server,
    sdk: Option<Server>,
}

impl Servers {
    /// Returns `None` if the host's components are not built; the scripts that build them have printed the reason.
    async fn start(language: &Language, work: &Path) -> anyhow::Result<Option<Self>> {
        let target = guests::root().join("target");
        let mut components = vec![target.join(format!("echo/echo-{}.wasm", language.echo))];
        components
            .extend(language.example.as_ref().map(|(name, _)| target.join(format!("examples/{name}.wasm"))));
        if components.iter().any(|component| !component.exists()) {
            return Ok(None);
        }
        let folder = folder(work, &format!("beside-{}", language.echo), &components)?;
        // Large components may compile for longer than the host usually allows.
        let settings = ["plugins.start-wait=10min", "plugins.compile-time=10min"];
        let ours = Server::toolyard_with(&folder, &settings).await?;
        let sdk = match (language.sdk)() {
            Some(command) => Some(Server::start(command, &folder.join("sdk")).await?),
            None => None,
        };
        Ok(Some(Self { ours, sdk }))
    }

    /// Takes turns, and returns those of the host and those of the SDK.
    async fn measure(
        &self,
        call: &Call,
        connections: usize,
        turns: usize,
    ) -> anyhow::Result<[Vec<Measured>; 2]> {
        let params = json!({"name": call.tool, "arguments": call.arguments});
        let of_sdk = match &self.sdk {
            Some(sdk) => {
                let headers = peers::headers(sdk.port(), Mode::Stateless).await?;
                Some((sdk, calls::template(&headers, "tools/call", &params)))
            }
            None => None,
        };
        let ours = (&self.ours, calls::stateless(params));
        let mut measured = [Vec::new(), Vec::new()];
        for number in 0..turns {
            let mut order = [(0, Some(&ours)), (1, of_sdk.as_ref())];
            order.rotate_left(number % 2);
            for (whose, server) in order {
                let Some((server, template)) = server else { continue };
                let callers = Caller::some(server.port(), template, call.expected, connections).await?;
                measured[whose].push(drive(server, callers, TURN).await?);
            }
        }
        Ok(measured)
    }
}

/// Measures the languages whose components `make examples` and `tests/load/echo/build.sh` have built.
pub async fn measure(effort: Effort, work: &Path) -> anyhow::Result<Section> {
    let columns = "language | tool | connections | ours per s | SDK per s | ours CPU ms | SDK CPU ms | CPU of SDK's | \
                   of 1 connection";
    let mut section = Section::new(
        "Languages beside their SDKs",
        "The same tools as components in this host, and on a server of the language's official SDK, without a sandbox. Both \
         take turns of a second; medians. CPU is that of the server's process. The last columns are our CPU time as a part \
         of the SDK's, and our rate as a multiple of that with one connection. Ours get requests of 2026-07-28, the SDKs \
         those of 2025-11-25, both without a session. No SDK is beside Go: the official one is a Go module, which the \
         benchmark does not fetch.",
        columns,
    );
    let mut data = Vec::new();
    for language in languages() {
        let Some(servers) = Servers::start(&language, work).await? else { continue };
        for call in std::iter::once(Call::echo()).chain(language.example.map(|(_, call)| call)) {
            let mut rates: Vec<f64> = Vec::new();
            for connections in CONNECTIONS {
                let turns = servers.measure(&call, connections, TURNS_PER_ROUND * effort.rounds).await?;
                let [Some(ours), sdk] = turns.each_ref().map(|turns| Figures::of(turns)) else {
                    anyhow::bail!("no turns of {}", call.tool);
                };
                rates.push(ours.per_second);
                let cpu = sdk.map(|sdk| ours.cpu_ms / sdk.cpu_ms);
                let of_one = ours.per_second / rates[0];
                let known = |figure: Option<f64>| figure.map_or_else(|| "—".to_owned(), shown);
                section.row(vec![
                    language.name.to_owned(),
                    call.tool.to_owned(),
                    connections.to_string(),
                    shown(ours.per_second),
                    known(sdk.map(|sdk| sdk.per_second)),
                    shown(ours.cpu_ms),
                    known(sdk.map(|sdk| sdk.cpu_ms)),
                    known(cpu),
                    format!("{of_one:.2}"),
                ]);
                let rates = turns.map(|turns| turns.iter().map(|turn| turn.per_second).collect::<Vec<_>>());
                data.push(json!({
                    "language": language.name, "tool": call.tool, "connections": connections, "ours": ours.json(),
                    "sdk": sdk.map(Figures::json), "cpu_of_sdk": cpu, "of_one_connection": of_one,
                    "turns_per_second": rates,
                }));
            }
            let least = rates.windows(2).map(|pair| pair[1] / pair[0]).fold(f64::INFINITY, f64::min);
            section.aims.push(Aim {
                what: format!(
                    "{}, `{}`, calls a second with more connections, of fewer",
                    language.name, call.tool
                ),
                aim: format!("at least {STEADY} times"),
                reached: format!("{least:.2}"),
                met: least >= STEADY,
            });
        }
        servers.ours.stop().await?;
    }
    anyhow::ensure!(!data.is_empty(), "no tool is built: run `make examples` and `tests/load/echo/build.sh`");
    section.data = json!({ "beside_sdks": data });
    Ok(section)
}
