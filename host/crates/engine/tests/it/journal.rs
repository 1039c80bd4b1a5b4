//! Runs with a journal are repeated exactly, from any prefix of it, and nothing that has left is sent again.

mod cuts;
mod divergence;
mod golden;
mod world;

use crate::kit::{Recorder, error, guest, ok, settings};
use serde_json::json;
use std::ffi::OsString;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use toolyard_engine::{Engine, Settings};
use toolyard_journal::{Entry, EntryKind};
use toolyard_task::tool::CallInfo;
use toolyard_task::{Catalog, RunContext as _, RunEnd, TaskId, Unattended};
use world::{Kept, chances, frames, journal, run, run_by, serve_by, sink};

#[tokio::test]
async fn a_request_in_doubt_meets_the_word_of_the_manifest() {
    let (port, got) = sink().await;
    for (word, is_error, sent, says, decision) in [
        ("fail", true, 0, "was under way; whether it was done is not known", "fail"),
        ("error", false, 0, "ConnectionTerminated", "error"),
        ("retry", false, 1, "200 answer", "resend"),
    ] {
        let allow = format!("[http]\nallow = [\"http://127.0.0.1:{port}\"]\nin-doubt = \"{word}\"\n");
        let (_engine, catalog) = chances(&allow).await;
        let arguments = json!({ "rounds": 1, "port": port });
        let first = Arc::new(Kept::default());
        ok(&run(&catalog, &arguments, &first).await.0);
        // The journal up to the request, whose chunk is committed before it leaves.
        let cut =
            (1..first.len()).map(|chunks| first.cut(chunks)).find(|cut| in_doubt(cut)).expect("a request");
        let before = got.lock().expect("free").len();
        let (end, _) = run(&catalog, &arguments, &cut).await;
        let said = if is_error { error(&end) } else { ok(&end) };
        assert!(said.contains(says), "{word}: {said}");
        assert_eq!(got.lock().expect("free").len() - before, sent, "{word}");
        let told = cut.doubts.lock().expect("free").clone();
        let expected = format!("POST http://127.0.0.1:{port}/0-0: {decision} by Manifest");
        assert_eq!(told, [expected]);
        // From here on, the loss of its host does not count as one while it repeats, however long the request takes.
        assert!(cut.is_live.load(Ordering::Relaxed));
    }
}

const FIRST: &str = "first-secret-of-all";

/// A host of a tool that resumes, whose secret `TOKEN` has this value.
async fn with_token(manifest: &str, variable: fn(&str) -> Option<OsString>) -> (Arc<Engine>, Arc<Catalog>) {
    let manifest = format!("{manifest}[secrets]\nTOKEN = {{ env = \"TOKEN\" }}\n");
    let manifest = format!("[task]\ndurability = \"resume\"\n{manifest}");
    serve_by(Settings { variable, ..settings() }, "chances", &guest("chances"), &manifest).await
}

/// All that is stored of a journal, as text.
fn text_of(journal: &Kept) -> String {
    let stored: Vec<u8> = journal.stored().iter().flat_map(|chunk| chunk.body.to_vec()).collect();
    String::from_utf8_lossy(&stored).into_owned()
}

/// An exposed secret that is rotated while a task waits does not make it diverge, and no journal has its value.
#[tokio::test]
async fn the_journal_has_the_names_of_secrets_in_place_of_their_values() {
    let (port, got) = sink().await;
    let allow = format!("[http]\nallow = [\"http://127.0.0.1:{port}\"]\n");
    let order = json!({ "port": port, "steps": [{"post": 1}, {"ask": 1}] });
    let (_engine, catalog) = with_token(&allow, |_| Some(FIRST.into())).await;
    let first = Arc::new(Kept::default());
    let result = ok(&run(&catalog, &order, &first).await.0);
    assert!(result.contains("authorization: Bearer [secret TOKEN]"), "the server returned it: {result}");
    assert!(!text_of(&first).contains(FIRST));
    let (_engine, catalog) = with_token(&allow, |_| Some("another-token".into())).await;
    let again = run(&catalog, &order, &Kept::of(first.stored())).await.0;
    assert_eq!((ok(&again), got.lock().expect("free").len()), (result, 1));
}

/// The state that a run hands over may have secrets of the manifest (H7).
#[tokio::test]
async fn h_7_the_state_of_a_task_has_the_names_of_secrets_in_place_of_their_values() {
    let order = json!({ "steps": [{"handOver": 1}] });
    let (_engine, catalog) = with_token("", |_| Some(FIRST.into())).await;
    let journal = Arc::new(Kept::default());
    let end = run_by(&catalog, &order, &journal, of_task()).await.0;
    assert_eq!(end, RunEnd::Stopped, "the host drops a run that has handed its state over");
    let stored = text_of(&journal);
    assert!(!stored.contains(FIRST) && stored.contains("TOKEN"), "{stored}");
    let (_engine, catalog) = with_token("", |_| Some("another-token".into())).await;
    let again = run_by(&catalog, &order, &Kept::of(journal.stored()), of_task()).await.0;
    assert_eq!(ok(&again), "[true]");
}

/// The host of a task.
fn of_task() -> Recorder {
    let info = CallInfo { task: Some(TaskId(uuid::Uuid::from_u128(7))), ..Unattended.info() };
    Recorder { info: Some(info), ..Recorder::default() }
}

/// The operator may change the manifest of a tool whose tasks wait.
#[tokio::test]
async fn a_task_of_a_tool_that_no_longer_resumes_says_so() {
    let (_engine, catalog) = serve_by(settings(), "chances", &guest("chances"), "").await;
    let end = run(&catalog, &json!({ "rounds": 1 }), &Arc::new(Kept::default())).await.0;
    assert!(error(&end).contains("does not say `durability = \"resume\"` any more"), "{end:?}");
}

#[tokio::test]
async fn the_limit_of_requests_is_that_of_all_runs_of_a_task() {
    let (port, got) = sink().await;
    let manifest = format!("[http]\nallow = [\"http://127.0.0.1:{port}\"]\n[limits]\nhttp-requests = 3\n");
    let (_engine, catalog) = chances(&manifest).await;
    let order = json!({ "port": port, "steps": [{"post": 1}, {"post": 1}, {"post": 1}, {"post": 1}] });
    let first = Arc::new(Kept::default());
    let result = ok(&run(&catalog, &order, &first).await.0);
    // The last two requests are lost.
    let all = frames(&first.stored());
    let third = all.iter().position(|frame| matches!(frame.entry(), Ok(Entry::Request { number: 3, .. })));
    let cut =
        Kept::of(journal(all[..third.expect("a request")].iter().map(|frame| frame.entry().expect("one"))));
    let again = ok(&run(&catalog, &order, &cut).await.0);
    assert_eq!(again.replace("answer 4", "answer 3"), result);
    assert_eq!(got.lock().expect("free").len(), 3 + 1);
}

/// Whether a journal has a request without a response.
fn in_doubt(journal: &Kept) -> bool {
    let all = frames(&journal.stored());
    let count = |kind| all.iter().filter(|frame| frame.kind == kind).count();
    count(EntryKind::Request) > count(EntryKind::Response)
}

#[tokio::test]
async fn a_plain_call_of_such_a_tool_has_no_journal() {
    let (_engine, catalog) = chances("").await;
    let end = crate::kit::call(&catalog, "chances", r#"{"rounds":1}"#).await;
    ok(&end);
}
