use super::*;
use proptest::prelude::*;
use std::time::Duration;
use toolyard_task::Durability;
use toolyard_task::task::JournalRetention;
use toolyard_task::wire::RawJson;

fn parse(text: &str) -> Result<Manifest, ManifestError> {
    Manifest::parse("p.toml", text, &Limits::default())
}

/// Asserts that a manifest is refused at this line with these words. The error in full.
pub(super) fn refused(text: &str, line: usize, says: &[&str]) -> String {
    let error = parse(text).expect_err(text);
    let shown = error.to_string();
    assert_eq!(error.line, Some(line), "{shown}");
    for word in ["p.toml"].iter().chain(says) {
        assert!(shown.contains(word), "{shown}");
    }
    shown
}

/// Operators keep their manifests: a key is never dropped or given another meaning without a new name.
#[test]
fn a_manifest_with_every_key_of_0_3_is_read() {
    let text = include_str!("../../../../tests/formats/plugin.toml");
    parse(text).expect("valid");
    for row in Limits::ROWS {
        assert!(text.contains(&format!("\n{} = ", row.key)), "{}", row.key);
    }
}

#[test]
fn all_that_is_supported() {
    let text = r#"
enabled = false
prefix = "web"
[limits]
memory = "128MiB"
wall = "10min"
concurrency = 3
queue = 5
[env]
LANG = "C"
[fs]
"/data" = { path = "./data", mode = "read" }
[wasi]
clock = "exact"
random = "fixed"
[resources]
uris = ["book:/*", "Note:1"]
[task]
poll-interval = "1s500ms"
[tools.fetch]
limits = { cpu = "2s", questions = 0 }
annotations = { readOnlyHint = true, n = [1, 0x10, 2.5, "x", { y = 1979-05-27 }] }
[tools."odd name"]
"#;
    let manifest = parse(text).expect("valid");
    assert_eq!((manifest.enabled, manifest.prefix.as_deref()), (false, Some("web")));
    let limits = Limits { memory: 128 << 20, wall: Duration::from_secs(600), ..Limits::default() };
    assert_eq!(*manifest.limits, limits);
    assert_eq!((manifest.concurrency, manifest.queue), (Some(3), Some(5)));
    assert_eq!(manifest.env, [("LANG".to_owned(), "C".to_owned())]);
    let [data] = &manifest.folders[..] else { panic!("{manifest:?}") };
    assert_eq!((data.guest.as_str(), data.path.as_str(), data.mode), ("/data", "./data", FolderMode::Read));
    assert_eq!((data.by, data.line), (GrantedBy::Operator, Some(12)));
    assert_eq!((manifest.clock, manifest.random), (ClockGrant::Exact, RandomGrant::Fixed));
    let uris = manifest.uris.expect("ranges");
    assert!(uris[0].holds("book:/1") && uris[1].holds("note:1") && !uris[1].holds("note:12"));
    assert_eq!(manifest.poll_interval, Some(Duration::from_millis(1500)));
    let fetch = &manifest.tools["fetch"];
    assert_eq!(
        fetch.annotations.as_ref().map(RawJson::as_str),
        Some(r#"{"n":[1,16,2.5,"x",{"y":"1979-05-27"}],"readOnlyHint":true}"#)
    );
    let own = Limits { cpu: Duration::from_secs(2), questions: 0, ..limits };
    assert_eq!(fetch.limits.as_deref(), Some(&own), "its other limits are those of its plugin");
    assert!(manifest.tools["odd name"].limits.is_none());
    assert_eq!(parse("").expect("empty"), Manifest::absent(&Limits::default()));
}

#[test]
fn unknown_keys_name_the_nearest_and_the_line() {
    refused("enabled = true\nprefx = \"x\"", 2, &["`prefx`", "`prefix`"]);
    refused("[limits]\nmemry = \"1MiB\"", 2, &["`limits.memry`", "`memory`"]);
    refused("[resources]\nuris = [\n\"a:*\",\n\"none\"]", 4, &["`resources.uris[1]`", "such as \"book:/1\""]);
    refused("[task]\n\npoll_interval = \"1s\"", 3, &["`poll-interval`"]);
    refused("[tools.x]\ntasksupport = \"x\"", 2, &["`tools.x.tasksupport`", "`task-support`"]);
}

#[test]
fn resuming_is_refused_beside_grants_that_cannot_be_replayed() {
    for (section, key) in [("task", "task.durability"), ("tools.x", "tools.x.durability")] {
        let (text, key) = (format!("[{section}]\ndurability = \"resume\""), format!("`{key}`"));
        assert!(parse(&text).expect("valid").resumes());
        refused(&text.replace("resume", "always"), 2, &[&key, "\"none\", \"rerun\" or \"resume\""]);
        for (grant, says) in [
            ("[sockets]\ntcp = [\"a.example:1\"]", "`[sockets]`: what comes over a socket"),
            ("[wasi]\nclock = \"exact\"", "steps of a millisecond"),
            ("[fs]\n\"/d\" = { path = \"/tmp\", mode = \"read\" }", "`[fs]`"),
        ] {
            refused(&format!("{text}\n{grant}"), 2, &[&key, "\"resume\" does not go with", says]);
        }
    }
}

/// A5: the operator decides, with the more specific setting first. The guest cannot.
#[test]
fn whether_a_tool_may_be_run_again_is_the_operators_word() {
    use Durability::{None as Never, Rerun};
    let idempotent = "annotations = { idempotentHint = true }";
    let cases = [
        ("", "", Never),
        ("", idempotent, Rerun),
        ("", "annotations = { readOnlyHint = true }", Rerun),
        ("", "annotations = { idempotentHint = false, readOnlyHint = \"yes\" }", Never),
        ("", "annotations = { destructiveHint = true }", Never),
        ("durability = \"rerun\"", "", Rerun),
        ("durability = \"none\"", idempotent, Never),
        ("durability = \"none\"", "durability = \"rerun\"", Rerun),
        ("durability = \"rerun\"", "durability = \"none\"", Never),
        ("", &format!("durability = \"none\"\n{idempotent}"), Never),
    ];
    for (task, tool, expected) in cases {
        let manifest = parse(&format!("[task]\n{task}\n[tools.x]\n{tool}")).expect("valid");
        assert_eq!(manifest.tools["x"].durability(manifest.durability), expected, "{task} {tool}");
    }
}

#[test]
fn what_stays_of_a_journal_is_the_word_of_the_tool_then_of_the_plugin() {
    let text = "[task]\njournal = \"failed\"\n[tools.x]\njournal = \"drop\"\n[limits]\njournal = \"1MiB\"";
    let manifest = parse(text).expect("valid");
    assert_eq!(manifest.journal, Some(JournalRetention::Failed));
    assert_eq!(manifest.tools["x"].journal, Some(JournalRetention::Drop));
    assert_eq!(manifest.limits.journal, 1 << 20);
    refused("[task]\njournal = \"never\"", 2, &["`task.journal`", "keep", "failed", "drop"]);
    refused("[limits]\njournal = \"1KiB\"", 2, &["`limits.journal`: 1.0 KiB is less than 64.0 KiB"]);
}

#[test]
fn wrong_values_are_named_with_what_was_expected() {
    refused("enabled = 1", 1, &["`enabled`", "true or false", "integer"]);
    refused("[limits]\nmemory = 64", 2, &["`limits.memory`", "64MiB"]);
    refused("[limits]\nmemory = \"5TiB\"", 2, &["`limits.memory`: 5.0 TiB is more than 4.0 GiB"]);
    refused("[limits]\ntable = \"9\"", 2, &["`limits.table`", "whole number from 1 to 100000, found string"]);
    refused("[limits]\ncpu = \"soon\"", 2, &["30s"]);
    refused("[limits]\nconcurrency = 0", 2, &["from 1"]);
    refused("prefix = \"a b\"", 1, &["A-Z"]);
    refused("[env]\n\"A=B\" = \"x\"", 2, &["environment"]);
    refused("[fs]\ndata = { path = \".\", mode = \"read\" }", 2, &["`fs.data`", "absolute path"]);
    refused("[fs]\n\"/d\" = { path = \".\" }", 2, &["`fs./d`", "no `mode`"]);
    refused("[fs]\n\"/d\" = { mode = \"read\" }", 2, &["`fs./d`", "no `path`"]);
    refused("[fs]\n\"/d\" = { path = \"\", mode = \"read\" }", 2, &["`fs./d.path`", "./data"]);
    refused("[fs]\n\"/d\" = { path = \".\", mode = \"rw\" }", 2, &["\"read\" or \"write\", found \"rw\""]);
    refused(
        "[fs]\n\"/d\" = \"./data\"",
        2,
        &["`fs./d`: expected a table such as { path = \"./data\", mode = \"read\" }, found string"],
    );
    for grant in ["\"never\"", "true"] {
        let text = format!("[fs]\n\"/d\" = {{ path = \".\", mode = \"read\", grant = {grant} }}");
        refused(&text, 2, &["`fs./d.grant`", "\"always\" or \"ask\""]);
    }
    refused("[tools.x.limits]\nconcurrency = 1", 2, &["`tools.x.limits.concurrency`", "`[limits]`"]);
    refused("[wasi]\nclock = \"fast\"", 2, &["`wasi.clock`", "coarse"]);
    refused("[[http.allow]]\nhost = \"a\"\n[[http.allow]]\nhos = 1", 4, &["`http.allow[1].hos`", "`host`"]);
    refused("[task]\npoll-interval = \"0s\"", 2, &["`task.poll-interval`", "at least 1ms"]);
    for section in ["task", "tools.x"] {
        let time = "expected a time such as \"2s\", or \"0s\"";
        for (value, found) in [("\"-1s\"", "string"), ("\"soon\"", "string"), ("20", "integer")] {
            let says = format!("`{section}.bridge-after`: {time}, found {found}");
            refused(&format!("[{section}]\nbridge-after = {value}"), 2, &[&says]);
        }
        for (value, found) in
            [("\"ask\"", "\"ask\""), ("\"Keep\"", "\"Keep\""), ("\"sk-1\"", "string"), ("true", "boolean")]
        {
            let says = format!("`{section}.on-client-timeout`: expected \"keep\" or \"stop\", found {found}");
            refused(&format!("[{section}]\non-client-timeout = {value}"), 2, &[&says]);
        }
    }
    refused("[tools]\nx = 1", 2, &["`tools.x`", "table"]);
    refused("[tools.x]\ntask-support = \"maybe\"", 2, &["forbidden"]);
    refused("limits = \"x\"\n=", 2, &["TOML"]);
}

/// The fuzz target searches for others; these inputs once took quadratic time.
#[test]
fn keys_and_lines_without_number_cost_no_more_than_their_bytes() {
    let long = "x".repeat(100_000);
    let lines: String = (0..14_000).map(|index| format!("K{index} = {{ env = \"A\" }}\n")).collect();
    let keys: String = (0..15_000).map(|index| format!("k{index} = 1\n")).collect();
    refused(&format!("[secrets]\n{lines}"), 10_056, &["one secret too many"]);
    refused(&format!("[tools.{long}]\n{keys}"), 2, &["is not a key of a manifest"]);
    refused(&format!("{long} = 1"), 1, &["is not a key of a manifest"]);
}

/// A text that is often a manifest with one or more faults.
fn manifest_like() -> impl Strategy<Value = String> {
    let headers = "[limits] [env] [fs] [http] [http.inject.a] [[http.allow]] [sockets] [secrets] [wasi] \
                   [task] [tools.x] [tools.x.limits] [tools.x.annotations] [resources] [x] "
        .split(' ');
    let keys = "enabled prefix memory queue \"/d\" allow host port tcp K clock title durability uris \
                grant path mode env limits.cpu a.b.c \"\" tools"
        .split(' ');
    let values = "true | 1 | -1 | 99999999999999999999 | 0xFF | inf | 1979-05-27 | \"ask\" | \"64MiB\" \
                  | \"30s\" | \"a:1\" | \"{K}\" | \"read\" | [] | [1] | [\"a\"] | {} \
                  | { host = \"a\", port = 1 } | { to = \"a:1\" } | { env = \"A\" } \
                  | { path = \".\", mode = \"read\" } | [{ x = [{}] }] | \u{1}"
        .split(" | ");
    let text = prop_oneof![
        prop::sample::select(headers.collect::<Vec<_>>()).prop_map(str::to_owned),
        (prop::sample::select(keys.collect::<Vec<_>>()), prop::sample::select(values.collect::<Vec<_>>()))
            .prop_map(|(key, value)| format!("{key} = {value}")),
        "\\PC{0,20}",
    ];
    prop::collection::vec(text, 0..8).prop_map(|lines| lines.join("\n"))
}

proptest! {
    /// Each error names a line of the text, and either names a key or says that the text is not
    /// TOML.
    #[test]
    fn an_error_names_a_line_and_a_key(text in manifest_like()) {
        if let Err(error) = parse(&text) {
            let lines = 1..=text.split('\n').count();
            prop_assert!(error.line.is_some_and(|line| lines.contains(&line)), "{error}");
            prop_assert!(error.what.starts_with('`') || error.what.starts_with("is not TOML"), "{error}");
        }
    }
}
