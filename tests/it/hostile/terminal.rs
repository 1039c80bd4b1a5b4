//! Text of guests and clients that is meant to control the terminal of an operator. Every command that prints
//! such text runs on a terminal here.

use super::stage::Stage;
use serde_json::json;
use tokio::process::Command;
use toolyard_tests::host::{command, install_bytes};
use toolyard_tests::pty::OnTerminal;
use toolyard_tests::session::initialize;
use toolyard_tests::{Host, LATEST, Project, Session, Setup, eventually, guests, until};

/// Moves the cursor and sets the title, by C0, C1 and DEL; reorders the line; hides text.
const STEERS: &str =
    "x\u{1b}[2J\u{1b}]0;owned\u{7}\u{9b}2J\u{7f}\r\nFAKE\u{2028}\u{202e}evil\u{2066}\u{200b}\u{e0041}";

#[tokio::test]
async fn terminal() {
    let stage = Stage::open(Setup::new().with(&[guests::fixture("script")])).await;
    for (name, listing) in [("steers", 0), ("dialect", 1), ("reference", 2)] {
        install_bytes(stage.host.plugins(), &format!("{name}.wasm"), &guests::hostile_lists(listing));
    }
    attacks!(stage;
        steer_by_a_result, steer_by_a_question, steer_by_what_is_listed_or_refused,
        steer_by_a_task, steer_by_the_log, steer_the_developer,
    );
    stage.at_rest().await;
}

/// A command on the folders of this host, on a terminal.
fn on_terminal(host: &Host, args: &[&str]) -> OnTerminal {
    OnTerminal::start(command(args[0], host.folder(), &args[1..]))
}

async fn shown(host: &Host, args: &[&str]) -> String {
    let (_, shown) = on_terminal(host, args).ended().await;
    harmless(&args.join(" "), &shown);
    shown
}

/// The output holds only text and the host's own sequences: styles, and those that redraw a line.
fn harmless(what: &str, shown: &str) {
    let mut plain = String::new();
    let mut rest = shown;
    while let Some((before, after)) = rest.split_once("\u{1b}[") {
        plain.push_str(before);
        let end = after.find(|char: char| char.is_ascii_alphabetic()).unwrap_or_default();
        let (sequence, after) = after.split_at(end + 1);
        let parameters = sequence[..end].bytes().all(|byte| byte.is_ascii_digit() || byte == b';');
        let is_ours = match sequence.as_bytes() {
            [.., b'm'] => parameters,
            b"2K" | b"K" | b"1A" | b"1B" | b"?25l" | b"?25h" => true,
            _ => false,
        };
        assert!(is_ours, "{what}: ESC [ {sequence}: {shown:?}");
        rest = after;
    }
    plain.push_str(rest);
    let bad = |char: char| {
        (char.is_control() && !matches!(char, '\r' | '\n' | '\t'))
            || matches!(char, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
            || matches!(char, '\u{e0000}'..='\u{e0fff}')
    };
    assert!(!plain.chars().any(bad), "{what}: {shown:?}");
}

/// No line begins as if it were the host's own.
fn forges_nothing(what: &str, shown: &str) {
    assert!(!shown.lines().any(|line| line.trim_start().starts_with("FAKE")), "{what}: {shown:?}");
}

async fn steer_by_a_result(stage: &Stage) {
    let text = json!({"text": STEERS}).to_string();
    for (tool, arguments) in [
        ("echo", text.clone()),
        ("fail", json!({"message": STEERS}).to_string()),
        ("protocol_error", json!({"code": -5, "message": STEERS}).to_string()),
        ("echo", json!({"text": "x", STEERS: 1}).to_string()),
    ] {
        let shown = shown(&stage.host, &["call", tool, &arguments]).await;
        assert!(shown.contains("\\u{1b}") || shown.contains("\\u001b"), "{tool}: {shown:?}");
        super::terminal::shown(&stage.host, &["call", "--json", tool, &arguments]).await;
    }
    let progress = json!({"steps": [
        {"progress": {"progress": 1, "total": 2, "message": STEERS}},
        {"log": {"level": "error", "logger": STEERS, "data": STEERS}},
        {"sleep": 300},
    ]});
    shown(&stage.host, &["call", "script", &progress.to_string()]).await;
    shown(&stage.host, &["call", STEERS]).await;
    let expected = shown(&stage.host, &["call", "echo", &text, "--expect", "\"y\""]).await;
    assert!(expected.contains("\\u{1b}[2J"), "{expected:?}");
    // A pipe receives the exact text, which a program may need.
    assert_eq!(stage.host.prints(&["call", "echo", &text]).await, format!("{STEERS}\n"));
    let result = stage.host.lines(&["call", "--json", "echo", &text]).await;
    assert_eq!(result[0]["content"][0]["text"], STEERS);
}

async fn steer_by_a_question(stage: &Stage) {
    let mut asked = on_terminal(&stage.host, &["call", "ask", &json!({"question": STEERS}).to_string()]);
    until("the question", || async { asked.shown().contains("Ctrl-D declines") }).await;
    asked.types("\u{4}");
    let (_, shown) = asked.ended().await;
    harmless("a question", &shown);
    assert!(shown.contains("x\\u{1b}[2J"), "{shown:?}");
}

async fn steer_by_what_is_listed_or_refused(stage: &Stage) {
    for name in ["steers", "dialect", "reference"] {
        let file = stage.host.plugins().join(format!("{name}.wasm")).display().to_string();
        let text = shown(&stage.host, &["check", &file]).await;
        assert!(text.contains(name) && text.contains("\\u{1b}[2J"), "{text:?}");
        forges_nothing("check", &text);
        shown(&stage.host, &["check", "--json", &file]).await;
    }
    let text = shown(&stage.host, &["tools"]).await;
    for file in ["steers.wasm", "dialect.wasm", "reference.wasm"] {
        assert!(text.contains(file), "{text:?}");
    }
    forges_nothing("tools", &text);
    shown(&stage.host, &["tools", "--json"]).await;
    shown(&stage.host, &["tools", "--limits"]).await;
    assert!(!stage.host.log().contains(['\u{1b}', '\u{9b}', '\u{202e}']), "the log shows it harmlessly");
}

async fn steer_by_a_task(stage: &Stage) {
    let speaks = stage.session.create_script(json!([{"status": STEERS}, {"sleep": 600_000}])).await;
    let fails = stage.session.create_script(json!([{"fail": {"code": -5, "message": STEERS}}])).await;
    let says = stage.session.create_script(json!([{"status": STEERS}])).await;
    stage.session.until(&fails, "failed").await;
    stage.session.until(&says, "completed").await;
    let host = &stage.host;
    until("the status", || async {
        let listed = shown(host, &["tasks", "list"]).await;
        forges_nothing("tasks list", &listed);
        listed.matches("\\u{1b}[2J").count() >= 2 || listed.matches("\\u{1b}").count() >= 2
    })
    .await;
    for id in [&speaks, &fails, &says] {
        let text = shown(host, &["tasks", "show", id]).await;
        forges_nothing("tasks show", &text);
        // The arguments are JSON, which has its own escapes.
        assert!(text.contains("\\u001b") && text.contains("\\u{9b}"), "{text:?}");
        shown(host, &["tasks", "show", id, "--json"]).await;
    }
    for id in [&fails, &says] {
        shown(host, &["tasks", "result", id]).await;
    }
    shown(host, &["tasks", "list", "--json"]).await;
    shown(host, &["tasks", "cancel", &speaks]).await;
    shown(host, &["tasks", "show", STEERS]).await;
}

/// A session of a host on a terminal, once it serves.
async fn session_of(serving: &OnTerminal) -> Session {
    let port = eventually("it serves", || async {
        let shown = serving.shown();
        let (_, rest) = shown.split_once("http://127.0.0.1:")?;
        rest.split_once("/mcp")?.0.parse::<u16>().ok()
    })
    .await;
    Session::open(port).await
}

async fn ends_harmlessly(what: &str, serving: OnTerminal) {
    rustix::process::kill_process(serving.pid(), rustix::process::Signal::TERM).expect("it runs");
    let (_, shown) = serving.ended().await;
    harmless(what, &shown);
    forges_nothing(what, &shown);
}

async fn steer_by_the_log(_: &Stage) {
    let setup = Setup::new().with(&[guests::fixture("script")]);
    install_bytes(setup.plugins(), "dialect.wasm", &guests::hostile_lists(1));
    let args = ["--listen", "127.0.0.1:0", "--set", "audit.to=stderr", "--set", "bridge.enabled=true"];
    let serving = OnTerminal::start(command("serve", setup.folder(), &args));
    let session = session_of(&serving).await;
    let mut knock = initialize(LATEST, json!({}));
    knock["params"]["clientInfo"] = json!({"name": STEERS, "version": STEERS, "title": STEERS});
    session.post(&knock).await;
    let steps = json!({"steps": [
        {"status": STEERS},
        {"log": {"level": "emergency", "logger": STEERS, "data": STEERS}},
    ]});
    session.call("script", steps.clone()).await;
    session.create("script", steps).await;
    session.post(&json!({"jsonrpc": "2.0", "id": STEERS, "method": STEERS})).await;
    session.post(&session.message("tools/call", json!({"name": STEERS}))).await;
    until("the log to have it", || async { serving.shown().contains("x\\u{1b}[2J") }).await;
    ends_harmlessly("serve", serving).await;
}

async fn steer_the_developer(_: &Stage) {
    let project = Project::of(&guests::fixture("script"));
    for json in [false, true] {
        let mut command = Command::new(guests::binary());
        command.args(["dev", "--listen", "127.0.0.1:0"]).args(json.then_some("--json"));
        command.current_dir(project.folder()).env("TOOLYARD_DATA", project.at("data"));
        let dev = OnTerminal::start(command);
        let session = session_of(&dev).await;
        let steps = json!({"steps": [
            {"status": STEERS},
            {"progress": {"progress": 1, "message": STEERS}},
            {"log": {"level": "error", "logger": STEERS, "data": STEERS}},
        ]});
        session.call("script", steps).await;
        session.post(&session.message("tools/call", json!({"name": STEERS}))).await;
        until("it is shown", || async { dev.shown().contains("result") }).await;
        ends_harmlessly("dev", dev).await;
    }
}
