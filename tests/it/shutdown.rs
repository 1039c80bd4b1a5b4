//! The requested shutdown: the first signal lets calls end, the second does not, and the exit code tells
//! which of the two happened.

use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};
use toolyard_tests::exchange::{Exchange, next};
use toolyard_tests::{Session, Setup, Stdio};

/// The probe, whose `echo` supports tasks here.
fn probe() -> Setup {
    Setup::probe().manifest("probe", "[tools.echo]\ntask-support = \"optional\"\n")
}

/// A running plain call: it takes so long that the host answers with a stream.
async fn under_way(session: &Session, ms: u64) -> Exchange {
    session.begin("tools/call", json!({"name": "wait", "arguments": {"ms": ms}})).await
}

fn is_told_of_the_shutdown(answer: &Value) {
    assert_eq!(answer["error"]["code"], -32603, "{answer}");
    assert!(answer["error"]["message"].as_str().expect("text").contains("shutting down"), "{answer}");
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
    assert_eq!(call.message().await["result"]["isError"], false);
    assert_eq!(next(&mut call.events).await, None, "the stream ends cleanly");
    assert_eq!(host.ended().await.code(), Some(0));
}

#[tokio::test]
async fn calls_that_do_not_are_cut_and_told_so_and_the_exit_code_is_1() {
    let (mut host, session) = probe().set("shutdown.drain", "300ms").open().await;
    let call = under_way(&session, 600_000).await;
    session.create("spin", json!({"ms": 600_000})).await;
    host.signal(Signal::TERM);
    is_told_of_the_shutdown(&call.answer().await.0);
    assert_eq!(host.ended().await.code(), Some(1));
    assert!(host.log().contains("2 calls had to be cut"), "{}", host.log());
}

#[tokio::test]
async fn a_second_signal_cuts_and_the_exit_code_names_it() {
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let (mut host, session) = probe().set("shutdown.drain", "10min").open().await;
        session.create("spin", json!({"ms": 600_000})).await;
        host.signal(signal);
        host.logs("event=\"shutdown.draining\"").await;
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
    let wait = session.begin("tasks/result", json!({"taskId": waiting})).await;
    host.signal(Signal::TERM);
    is_told_of_the_shutdown(&wait.answer().await.0);
    assert_eq!(host.ended().await.code(), Some(1), "the sleeper was cut");
}

/// A `stdio` host with a running call that does not end by itself.
async fn stdio_with_a_call() -> Stdio {
    let mut stdio = Stdio::open(probe().set("shutdown.drain", "10min")).await;
    let arguments = json!({"steps": 1_000_000, "ms": 10});
    let call = json!({"name": "count", "arguments": arguments, "_meta": {"progressToken": "p"}});
    stdio.send("tools/call", call).await;
    // Its first progress notification shows that it runs.
    while stdio.read().await["method"] != "notifications/progress" {}
    stdio
}

/// A client that closes stdin has left: the host stops its calls, and that is not a failure. A signal comes
/// from another party, and the exit code tells this party that calls were cut off.
#[tokio::test]
async fn stdio_ends_with_0_at_the_end_of_its_input_and_with_1_if_a_signal_cut_something() {
    let (status, _) = stdio_with_a_call().await.close().await;
    assert_eq!(status.code(), Some(0));
    let mut stdio = stdio_with_a_call().await;
    kill_process(stdio.pid(), Signal::TERM).expect("it runs");
    assert_eq!(stdio.ended().await.code(), Some(1));
}
