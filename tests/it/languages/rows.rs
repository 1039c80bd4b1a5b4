//! The calls of each example that show what every language has to do.

use serde_json::{Value, json};

/// A call, and the expected value at one place of its structured content.
pub struct Shown {
    pub tool: &'static str,
    pub arguments: Value,
    pub pointer: &'static str,
    pub expected: Value,
}

/// A tool and the arguments of a call.
type Call = (&'static str, Value);

/// The calls of one example.
pub struct Row {
    pub language: &'static str,
    /// Reports its progress at least twice, with time in between.
    pub progress: Call,
    /// Computes practically without end.
    pub endless: Call,
    /// Needs more memory than `limit`.
    pub memory: Call,
    pub limit: &'static str,
    /// Fits the schema, but makes no sense.
    pub senseless: (Call, &'static str),
    /// Returns a text unchanged.
    pub unicode: fn(&str) -> Shown,
    /// Has an argument of at least this many bytes.
    pub large: fn(usize) -> Shown,
}

fn shown(tool: &'static str, arguments: Value, pointer: &'static str, expected: impl Into<Value>) -> Shown {
    Shown { tool, arguments, pointer, expected: expected.into() }
}

pub fn rows() -> Vec<Row> {
    vec![rust(), c(), javascript(), typescript(), python(), go()]
}

fn rust() -> Row {
    const TOOL: &str = "plan_route";
    fn stop(name: &str, latitude: u32, longitude: u32) -> Value {
        json!({"name": name, "latitude": latitude, "longitude": longitude})
    }
    fn stops(count: u32) -> Value {
        (0..count).map(|n| stop(&format!("stop {n}"), n * 7 % 60, n * 13 % 60)).collect()
    }
    Row {
        language: "rust",
        progress: (TOOL, json!({"stops": stops(20), "method": "exact", "ending": "round-trip"})),
        endless: (TOOL, json!({"stops": stops(60), "ending": "one-way", "rounds": 10_u64.pow(15)})),
        memory: (TOOL, json!({"stops": stops(24), "method": "exact", "ending": "one-way"})),
        limit: "16MiB",
        senseless: ((TOOL, json!({"stops": stops(2), "start": "nowhere"})), "nowhere"),
        unicode: |text| {
            let stops = json!([stop("a", 0, 0), stop(text, 1, 1)]);
            shown(TOOL, json!({"stops": stops, "ending": "one-way"}), "/legs/0/to", text)
        },
        large: |bytes| {
            let count = bytes / stop("", 10, 10).to_string().len() + 1;
            let stops = vec![stop("", 10, 10); count].into_iter().enumerate().map(|(n, mut stop)| {
                stop["name"] = json!(n.to_string());
                stop
            });
            shown("measure_route", json!({"stops": stops.collect::<Value>()}), "/stops", count)
        },
    }
}

fn c() -> Row {
    const TOOL: &str = "diff_lines";
    fn lines(prefix: char, count: usize) -> String {
        (0..count).map(|n| format!("{prefix}{n}\n")).collect()
    }
    Row {
        language: "c",
        progress: (TOOL, json!({"before": lines('a', 4_000), "after": lines('b', 4_000)})),
        endless: (TOOL, json!({"before": lines('a', 200_000), "after": lines('b', 200_000)})),
        memory: (TOOL, json!({"before": lines('a', 200_000), "after": ""})),
        limit: "4MiB",
        senseless: (
            (TOOL, json!({"before": "", "after": "", "mostChanges": 5, "askAbove": 5})),
            "`askAbove` must be below",
        ),
        unicode: |text| {
            shown(TOOL, json!({"before": "", "after": text}), "/hunks/0/lines/0", format!("+{text}"))
        },
        large: |bytes| {
            let text = "line\n".repeat(bytes / 5 + 1);
            shown(TOOL, json!({"after": format!("{text}more\n"), "before": text}), "/added", 1)
        },
    }
}

fn javascript() -> Row {
    const TOOL: &str = "run_javascript";
    Row {
        language: "javascript",
        progress: (
            TOOL,
            json!({"program": "for (let i = 1; i <= 4; i++) { for (let n = 0; n < 1e6; n++); progress(i, 4, 'x'); }"}),
        ),
        endless: (TOOL, json!({"program": "for (;;);"})),
        memory: (TOOL, json!({"program": "let all = []; for (;;) all.push('x'.repeat(1e5) + all.length);"})),
        limit: "8MiB",
        senseless: ((TOOL, json!({"program": " \n"})), "blank"),
        unicode: |text| shown(TOOL, json!({"program": "input", "input": text}), "/result", text),
        large: |bytes| {
            shown(TOOL, json!({"program": "input.length", "input": "x".repeat(bytes)}), "/result", bytes)
        },
    }
}

fn typescript() -> Row {
    const TOOL: &str = "check_rows";
    fn integers(rows: Value) -> Value {
        json!({"columns": [{"name": "n", "type": "integer"}], "rows": rows})
    }
    fn many(count: usize) -> Value {
        (0..count).map(|n| json!({"n": n})).collect()
    }
    Row {
        language: "typescript",
        progress: (TOOL, integers(many(20_000))),
        endless: (
            TOOL,
            json!({"columns": [{"name": "t", "type": "text", "pattern": "(a+)+b"}], "rows": [{"t": "a".repeat(60)}]}),
        ),
        memory: (TOOL, integers(many(300_000))),
        limit: "16MiB",
        senseless: (
            (TOOL, json!({"columns": [{"name": "n", "type": "integer", "min": 2, "max": 1}], "rows": []})),
            "contradict each other",
        ),
        unicode: |text| shown(TOOL, integers(json!([{"n": text}])), "/problems/0/value", text),
        large: |bytes| {
            let columns = json!([{"name": "t", "type": "text"}]);
            shown(TOOL, json!({"columns": columns, "rows": [{"t": "x".repeat(bytes)}]}), "/characters", bytes)
        },
    }
}

fn python() -> Row {
    const TOOL: &str = "calculate";
    fn lines(lines: &[&str]) -> Value {
        json!({"lines": lines})
    }
    Row {
        language: "python",
        progress: (TOOL, lines(&["prime_count(2000000)"; 16])),
        endless: (TOOL, lines(&["smallest_factor(10000000000000000051 ** 2)"])),
        memory: (TOOL, lines(&["prime_count(1000000000)"])),
        limit: "96MiB",
        senseless: ((TOOL, json!({"lines": ["1"], "given": {"1st": "2"}})), "`1st` in `given` is not a name"),
        unicode: |text| shown(TOOL, json!({"lines": ["1"], "title": text}), "/title", text),
        large: |bytes| {
            let count = bytes / 8;
            let values: Value = (0..count).map(|n| json!(1_000_000 + n)).collect();
            shown("describe_numbers", json!({"values": values}), "/count", count)
        },
    }
}

fn go() -> Row {
    const TOOL: &str = "render_template";
    fn of(template: &str, data: impl Into<Value>) -> Value {
        json!({"template": template, "data": data.into()})
    }
    Row {
        language: "go",
        progress: (TOOL, of("{{range $i := 4}}{{range 50000}}{{end}}{{progress $i 4}}{{end}}", json!(null))),
        endless: (TOOL, of("{{range 1000000000000000}}{{end}}", json!(null))),
        memory: (TOOL, of("{{range 1000000000}}0123456789abcdef0123456789abcdef{{end}}", json!(null))),
        limit: "32MiB",
        senseless: ((TOOL, of(" ", json!(null))), "blank"),
        unicode: |text| shown(TOOL, of("{{.}}", text), "/text", text),
        large: |bytes| shown(TOOL, of("{{.}}", "x".repeat(bytes)), "/bytes", bytes),
    }
}
