//! stdio (S-*), and its differences from HTTP.

use serde_json::{Value, json};
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::path::PathBuf;
use std::process::Stdio as Pipe;
use tokio::io::AsyncWriteExt as _;
use tokio::process::{Child, Command};
use toolyard_tests::host::{command, install_bytes};
use toolyard_tests::session::initialize;
use toolyard_tests::stateless::enveloped;
use toolyard_tests::{LATEST, PATIENCE, Setup, Stdio, guests, nightly, text};

#[tokio::test]
async fn s_1_l_5_requests_before_initialize_are_refused_and_ping_is_answered() {
    let mut stdio = Stdio::start(Setup::probe());
    let early = stdio.request("tools/list", json!({})).await;
    assert_eq!(early["error"]["code"], -32600);
    assert_eq!(stdio.request("ping", json!({})).await["result"], json!({}), "L-7");
    let result = stdio.initialize("2024-11-05").await;
    assert_eq!(result["protocolVersion"], "2024-11-05", "stdio goes further back than HTTP");
    assert!(result["capabilities"]["tasks"].is_null());
    assert_eq!(text(&stdio.call("echo", json!({"text": "x"})).await), "x");
    assert_eq!(stdio.request("tasks/list", json!({})).await["error"]["code"], -32601);
}

/// Clients give up a server that takes about 10 seconds; a component with an interpreter may take longer to compile.
/// Many list once. In the nightly run, six processes keep both processors busy.
#[tokio::test]
async fn a_client_that_lists_once_while_components_compile_can_call_each_tool() {
    let busy = |_| {
        Command::new("sh").args(["-c", "while :; do :; done"]).kill_on_drop(true).spawn().expect("starts")
    };
    let _busy: Vec<Child> = (0..if nightly::seed().is_some() { 6 } else { 0 }).map(busy).collect();
    let setup = Setup::probe();
    let script = guests::root().join("target/examples/desk-typescript.wasm");
    let script = std::fs::read(script).expect("make examples");
    install_bytes(setup.plugins(), "script.wasm", &never_compiled(script));
    let mut stdio = Stdio::start(setup);
    let discovered = stdio.result("server/discover", enveloped(json!({}), &json!({}))).await;
    assert!(discovered["capabilities"]["tools"].is_object(), "{discovered}");
    let names = names_once(&mut stdio).await;
    assert!(names.contains(&"echo".to_owned()), "{names:?}");
    let called = stdio.call("weather", json!({})).await;
    assert_eq!(called["isError"], true, "it is compiled, and checks its arguments: {called}");
    stdio.close().await;

    // After an upgrade, no code of the earlier host can be used. The definitions are known.
    let is_code = |path: &PathBuf| path.extension().is_some_and(|end| end == "cwasm");
    let files = std::fs::read_dir(stdio.data().join("compiled")).expect("is there").flatten();
    for code in files.map(|file| file.path()).filter(is_code) {
        std::fs::remove_file(code).expect("removes");
    }
    let mut next = stdio.another();
    let names = names_once(&mut next).await;
    assert!(["weather", "echo"].iter().all(|name| names.contains(&(*name).to_owned())), "{names:?}");
    assert_eq!(text(&next.call("echo", json!({"text": "x"})).await), "x");
    assert_eq!(next.notices().len(), 0, "no list has changed");
}

/// Initializes, and lists the tools.
async fn names_once(stdio: &mut Stdio) -> Vec<String> {
    stdio.initialize(LATEST).await;
    let listed = stdio.result("tools/list", json!({})).await;
    let tools = listed["tools"].as_array().expect("tools").iter();
    tools.map(|tool| tool["name"].as_str().expect("a name").to_owned()).collect()
}

/// The component with a custom section that no other has, so that no cache has its code.
fn never_compiled(mut component: Vec<u8>) -> Vec<u8> {
    let unique = RandomState::new().build_hasher().finish();
    // The id of a custom section, its length, the length of its name, and the name.
    component.extend([0, 33, 32]);
    component.extend(format!("{unique:032}").into_bytes());
    component
}

/// C-2: a client must not cancel it; if it tries, nothing happens.
#[tokio::test]
async fn c_2_initialize_is_not_cancelled() {
    let mut stdio = Stdio::start(Setup::probe());
    stdio.line(&initialize("2025-03-26", json!({})).to_string()).await;
    stdio.line(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":0}}"#).await;
    let answer = stdio.read().await;
    assert_eq!((&answer["id"], &answer["result"]["protocolVersion"]), (&json!(0), &json!("2025-03-26")));
    stdio.line(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await;
    // S-4: no `initialize` is necessary.
    assert!(stdio.request("tools/list", json!({})).await["result"]["tools"].is_array());
    stdio.line(r#"[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","method":"x"},7]"#).await;
    assert_eq!(stdio.read().await.as_array().expect("an array").len(), 2);
}

/// So does 2026-07-28 (26S-1).
#[tokio::test]
async fn s_2_logs_go_to_stderr_and_only_messages_to_stdout() {
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "echo", "arguments": {"text": "x"}}});
    let lines = format!("{}\n{call}\n", initialize(LATEST, json!({})));
    for format in ["text", "json"] {
        let (folder, _) = Setup::probe().into_parts();
        let mut command = command("stdio", folder.path(), &[""; 0]);
        command.env("TOOLYARD_LOG", "debug").env("TOOLYARD_LOG_FORMAT", format);
        command.stdin(Pipe::piped()).stdout(Pipe::piped()).stderr(Pipe::piped());
        let mut host = command.spawn().expect("the host starts");
        let mut input = host.stdin.take().expect("piped");
        input.write_all(lines.as_bytes()).await.expect("the host reads");
        drop(input);
        let output = tokio::time::timeout(PATIENCE, host.wait_with_output()).await;
        let output = output.expect("the host ends").expect("output");
        let read = |line: &str| serde_json::from_str::<Value>(line).ok();
        let stdout = String::from_utf8(output.stdout).expect("UTF-8");
        let ids: Vec<_> = stdout.lines().map(|line| read(line).expect("a message")["id"].clone()).collect();
        assert_eq!(ids, [json!(0), json!(1)]);
        let log = String::from_utf8(output.stderr).expect("UTF-8");
        let mut events = log.lines().filter_map(read);
        let has_loaded = events.any(|event| event["event"] == "plugin.loaded" && event["level"] == "INFO");
        assert_eq!(has_loaded, format == "json", "{log}");
        assert_eq!(log.contains(" event=\"plugin.loaded\""), format == "text", "{log}");
    }
}

/// S-5: the TypeScript client accepts at most 10 MiB in one line.
#[tokio::test]
async fn s_5_the_largest_line_is_one_that_clients_can_read() {
    let mut stdio = Stdio::open(Setup::probe()).await;
    assert_eq!(stdio.call("flood", json!({"mib": 7})).await["isError"], false);
    let larger = stdio.call("flood", json!({"mib": 9})).await;
    assert_eq!(larger["isError"], true);
    assert!(larger.to_string().contains("limits.output"), "{larger}");
}

#[tokio::test]
async fn s_3_at_the_end_of_input_the_process_ends_and_only_answers_under_way_are_waited_for() {
    for (tool, ms) in [("wait", 300), ("spin", 600_000)] {
        let mut stdio = Stdio::open(Setup::probe()).await;
        let task = stdio.create("wait", json!({"ms": 600_000})).await;
        assert_eq!(stdio.task(&task).await["status"], "working");
        stdio.send("tools/call", json!({"name": tool, "arguments": {"ms": ms}})).await;
        let (status, rest) = stdio.close().await;
        assert!(status.success());
        assert_eq!(rest.contains("waited 300 ms"), tool == "wait", "{rest}");
    }
}

/// A pipe's tasks belong to the local user: a later process finds them in their true state.
#[tokio::test]
async fn h_25_tasks_belong_to_the_user_and_a_later_process_finds_them() {
    let mut first = Stdio::open(Setup::probe()).await;
    let done = first.create("wait", json!({"ms": 1})).await;
    let result = first.result("tasks/result", json!({"taskId": done})).await;
    let live = first.create("wait", json!({"ms": 600_000})).await;
    first.close().await;
    let mut second = first.another();
    // 26T-25: in the other generation, too.
    let get = enveloped(json!({"taskId": done}), &toolyard_tests::stateless::tasks());
    assert_eq!(second.result("tasks/get", get).await["status"], "completed");
    second.initialize("2025-11-25").await;
    assert_eq!(second.result("tasks/result", json!({"taskId": done})).await, result);
    let ended = second.task(&live).await;
    assert_eq!(ended["status"], "failed");
    assert!(ended["statusMessage"].as_str().expect("a message").contains("host"), "{ended}");
}

/// The rejections name their requests, and the memory is free again when the other requests end.
#[tokio::test]
async fn large_lines_under_way_are_bounded_in_bytes() {
    let setup = Setup::new().with(&[guests::fixture("script")]).set("wire.body-bytes-per-principal", "16MiB");
    let mut stdio = Stdio::open(setup).await;
    let call = |id: u64, milliseconds: u32| {
        let arguments = json!({"steps": [{"sleep": milliseconds}], "unused": "x".repeat(5 << 20)});
        let params = json!({"name": "script", "arguments": arguments});
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}).to_string()
    };
    for id in 100..106 {
        stdio.line(&call(id, 60_000)).await;
    }
    let mut running: Vec<u64> = (100..106).collect();
    while running.len() > 3 {
        let answer = stdio.read().await;
        assert_eq!(answer["error"]["data"]["limit"], "wire.body-bytes-per-principal", "{answer}");
        running.retain(|id| answer["id"] != *id);
    }
    for id in running {
        let cancel =
            json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}});
        stdio.line(&cancel.to_string()).await;
    }
    for again in 106.. {
        stdio.line(&call(again, 0)).await;
        let answer = stdio.read().await;
        assert_eq!(answer["id"], again, "{answer}");
        // A cancelled run may still be stopping.
        if answer["error"].is_null() {
            break;
        }
    }
}
