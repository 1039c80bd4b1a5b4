//! A run that does not repeat its journal ends at the first difference, and has no effect.

use super::golden;
use super::world::{Kept, chances, frames, journal, run, serve};
use crate::kit::error;
use serde_json::json;
use std::sync::Arc;
use toolyard_engine::Engine;
use toolyard_journal::{Chunk, Entry, FORMAT};
use toolyard_task::Catalog;

/// The end of a run that goes on from this journal: why it could not, as the operator reads it, and whether it
/// diverged.
async fn refused(catalog: &Catalog, past: Vec<Chunk>) -> (String, bool) {
    let kept = Kept::of(past.clone());
    let (end, context) = run(catalog, &json!({}), &kept).await;
    assert!(context.asked.lock().expect("free").is_empty(), "nothing leaves");
    assert_eq!(kept.stored(), past, "nothing is recorded");
    let text = error(&end);
    let why = text.strip_prefix("The task could not be resumed: ").unwrap_or_else(|| panic!("{text}"));
    let divergences = kept.divergences.lock().expect("free");
    let Some(difference) = divergences.first() else { return (why.to_owned(), false) };
    assert_eq!(divergences.len(), 1, "it is reported once");
    // The client does not see what the guest wrote.
    let entry = difference.strip_prefix("entry ").and_then(|rest| rest.split_once(':')).expect("a number").0;
    assert_eq!(why, format!("the run did not repeat entry {entry} of its journal"));
    (difference.clone(), true)
}

async fn serve_golden(text: &str) -> (Arc<Engine>, Arc<Catalog>) {
    serve("golden", &wat::parse_str(text).expect("parses"), "").await
}

#[tokio::test]
async fn another_build_diverges_at_its_first_difference() {
    let (_, past) = golden::recorded(FORMAT);
    for (was, is, why) in [
        ("(call $sleep (i64.const 2))", "(call $sleep (i64.const 3))", "recorded sleep 2 ms, now sleep 3 ms"),
        ("(i32.load (i32.const 12))", "(i32.const 7)", "recorded ended with sha256 "),
        ("(call $call-info (i32.const 96))", "(unreachable)", "recorded call call-info, now "),
    ] {
        let text = golden::text();
        assert!(text.contains(was), "{was}");
        let (_engine, catalog) = serve_golden(&text.replace(was, is)).await;
        let (said, diverged) = refused(&catalog, past.clone()).await;
        assert!(said.contains(why) && diverged, "{is}: {said}");
    }
}

#[tokio::test]
async fn a_damaged_chunk_and_the_journal_of_another_tool_are_refused() {
    let (_, past) = golden::recorded(FORMAT);
    let (_engine, catalog) = serve_golden(&golden::text()).await;
    let mut damaged = past.clone();
    let last = damaged.last_mut().expect("a chunk");
    let mut body = last.body.to_vec();
    *body.last_mut().expect("a byte") ^= 1;
    last.body = body.into();
    let (said, _) = refused(&catalog, damaged).await;
    assert!(said.contains("corrupt at chunk") && said.contains("checksum"), "{said}");
    let (said, _) = refused(&catalog, past[1..].to_vec()).await;
    assert!(said.contains("the first entry is not `begin`"), "{said}");
    let (_engine, catalog) = chances("").await;
    let (said, diverged) = refused(&catalog, past).await;
    assert!(said.contains(", now ended") && diverged, "{said}");
}

#[tokio::test]
async fn other_arguments_diverge_before_the_guest_begins() {
    let (_engine, catalog) = chances("").await;
    let kept = Arc::new(Kept::default());
    run(&catalog, &json!({ "rounds": 1 }), &kept).await;
    // A crash has left no operation of the guest, which could show the difference.
    let stored = frames(&kept.stored());
    let begin: Entry<'_> = stored[0].entry().expect("an entry");
    let (said, diverged) = refused(&catalog, journal([begin])).await;
    let expected = "entry 0: recorded begin of chances, now begin of chances with other arguments";
    assert!(said.contains(expected) && diverged, "{said}");
}
