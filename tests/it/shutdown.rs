//! The requested shutdown: the first signal lets calls end, the second does not, and the exit code tells
//! which of the two happened.

use rustix::process::Signal;
use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use toolyard_tests::host::Setup;
use toolyard_tests::{Session, eventually, guests};

/// The probe, whose `echo` supports tasks here.
fn probe() -> Setup {
    Setup::new()
        .with(&[guests::plugin("probe")])
        .manifest("probe", "[tools.echo]\ntask-support = \"optional\"\n")
}

/// A running plain call; returns the stream with its answer.
async fn under_way(session: &Session, ms: u64) -> toolyard_tests::http::Events {
    let call = json!({"jsonrpc": "2.0", "id": 77, "method": "tools/call",
                      "params": {"name": "wait", "arguments": {"ms": ms}}});
    let answer = session.post(&call).await;
    // The call takes so long that the host answers with a stream, which shows that the call has started.
    assert!(answer.is_events());
    answer.events()
}

#[tokio::test]
async fn calls_that_end_in_time_are_answered_and_the_exit_code_is_0() {
    let (mut host, session) = probe().set("shutdown.drain", "1min").open().await;
    let mut listening = session.listen().await;
    let mut call = under_way(&session, 1_500).await;
    host.signal(Signal::TERM);
    tokio::select! {
        biased;
        answer = call.message() => panic!("a stream of no request ends at once, before {answer:?}"),
        end = listening.message() => assert_eq!(end, None),
    }
    // The host refuses new connections: a load balancer or a client connects to another host.
    eventually("the port to be free", || async {
        TcpStream::connect(("127.0.0.1", host.port())).await.is_err().then_some(())
    })
    .await;
    let answer = call.message().await.expect("an answer");
    assert_eq!((&answer["id"], &answer["result"]["isError"]), (&json!(77), &json!(false)), "{answer}");
    assert_eq!(call.message().await, None, "the stream ends cleanly");
    assert_eq!(host.ended().await.code(), Some(0));
}

#[tokio::test]
async fn calls_that_do_not_are_cut_and_told_so_and_the_exit_code_is_1() {
    let (mut host, session) = probe().set("shutdown.drain", "300ms").open().await;
    let mut call = under_way(&session, 600_000).await;
    session.create("spin", json!({"ms": 600_000})).await;
    host.signal(Signal::TERM);
    let answer = call.message().await.expect("an answer");
    assert_eq!(answer["error"]["code"], -32603, "{answer}");
    assert!(answer["error"]["message"].as_str().expect("text").contains("shutting down"), "{answer}");
    assert_eq!(host.ended().await.code(), Some(1));
    assert!(host.log().contains("2 calls had to be cut"), "{}", host.log());
}

#[tokio::test]
async fn a_second_signal_cuts_and_the_exit_code_names_it() {
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let (mut host, session) = probe().set("shutdown.drain", "10min").open().await;
        session.create("spin", json!({"ms": 600_000})).await;
        host.signal(signal);
        eventually("the drain to begin", || async {
            host.log().contains("event=\"shutdown.draining\"").then_some(())
        })
        .await;
        host.signal(signal);
        assert_eq!(host.ended().await.code(), Some(code));
    }
}

/// A client that waits for a task that the next host will run is asked to retry.
#[tokio::test]
async fn who_waits_for_the_result_of_a_task_that_is_handed_over_is_told_that_the_host_closes() {
    let (mut host, session) =
        probe().set("shutdown.drain", "300ms").set("calls.running-per-principal", "1").open().await;
    session.create("wait", json!({"ms": 600_000})).await;
    let waiting = session.create("echo", json!({"text": "later"})).await;
    let wait = json!({"jsonrpc": "2.0", "id": "r", "method": "tasks/result", "params": {"taskId": waiting}});
    let mut events = session.post(&wait).await.events();
    host.signal(Signal::TERM);
    let last = loop {
        let message = events.message().await.expect("an answer before the end");
        if message["id"] == "r" {
            break message;
        }
    };
    assert!(last["error"]["message"].as_str().expect("text").contains("shutting down"), "{last}");
    assert_eq!(events.message().await, None, "the stream ends cleanly");
    assert_eq!(host.ended().await.code(), Some(1), "the sleeper was cut");
}

/// A `stdio` host with a running call that does not end by itself.
async fn stdio_with_a_call() -> (tempfile::TempDir, tokio::process::Child) {
    let (folder, args) = probe().set("shutdown.drain", "10min").into_parts();
    let mut child = toolyard_tests::host::command("stdio", folder.path(), &args)
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("the host starts");
    let input = child.stdin.as_mut().expect("piped");
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
                      "params": {"name": "count", "arguments": {"steps": 1_000_000, "ms": 10},
                                 "_meta": {"progressToken": "p"}}});
    let hello = toolyard_tests::session::initialize("2025-11-25", json!({}));
    let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    for line in [hello, initialized, call] {
        input.write_all(format!("{line}\n").as_bytes()).await.expect("the host reads");
    }
    let mut output = BufReader::new(child.stdout.take().expect("piped")).lines();
    // Its first progress notification shows that it runs.
    while !output.next_line().await.expect("text").expect("a line").contains("notifications/progress") {}
    // The rest of its output is read until it ends.
    tokio::spawn(async move { while let Ok(Some(_)) = output.next_line().await {} });
    (folder, child)
}

async fn end_of(child: tokio::process::Child) -> (Option<i32>, String) {
    let output = tokio::time::timeout(toolyard_tests::wait::PATIENCE, child.wait_with_output());
    let output = output.await.expect("the host ends").expect("waiting works");
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// A client that closes stdin has left: the host stops its calls, and that is not a failure. A signal comes
/// from another party, and the exit code tells this party that calls were cut off.
#[tokio::test]
async fn stdio_ends_with_0_at_the_end_of_its_input_and_with_1_if_a_signal_cut_something() {
    let (_folder, mut child) = stdio_with_a_call().await;
    drop(child.stdin.take());
    let (code, said) = end_of(child).await;
    assert_eq!(code, Some(0), "{said}");

    let (_folder, child) = stdio_with_a_call().await;
    let id = i32::try_from(child.id().expect("it runs")).expect("an id");
    let id = rustix::process::Pid::from_raw(id).expect("not zero");
    rustix::process::kill_process(id, Signal::TERM).expect("it runs");
    let (code, said) = end_of(child).await;
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("1 call had to be cut"), "{said}");
}
