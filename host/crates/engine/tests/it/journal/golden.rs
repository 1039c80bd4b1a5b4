//! Journals of earlier builds. Each later build replays them to the same result. `UPDATE_GOLDEN=1` records the one of the
//! current format; those of earlier formats cannot be recorded again.

use super::world::{Kept, run, serve};
use crate::kit::ok;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use toolyard_journal::{Chunk, FORMAT};

/// A run that has ended.
#[derive(Serialize, Deserialize)]
struct GoldenRun {
    result: String,
    /// The number of entries and the bytes of each chunk.
    chunks: Vec<(u32, String)>,
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/journal/golden")
}

async fn record(file: &Path) {
    let (_engine, catalog) = serve("golden", &wat::parse_str(text()).expect("parses"), "").await;
    let kept = Arc::new(Kept::default());
    let result = ok(&run(&catalog, &json!({}), &kept).await.0);
    let chunks =
        kept.stored().into_iter().map(|chunk| (chunk.entries, BASE64_STANDARD.encode(chunk.body))).collect();
    let text = serde_json::to_string_pretty(&GoldenRun { result, chunks }).expect("JSON");
    std::fs::write(file, text + "\n").expect("writes");
}

/// The text of the guest.
pub fn text() -> String {
    std::fs::read_to_string(folder().join("guest.wat")).expect("reads")
}

/// The golden run of a format: its result and its journal.
pub fn recorded(format: u32) -> (String, Vec<Chunk>) {
    let text = std::fs::read_to_string(folder().join(format!("format-{format}.json")));
    let text = text.expect("UPDATE_GOLDEN=1 records it");
    let run: GoldenRun = serde_json::from_str(&text).expect("a recorded run");
    let body = |text| BASE64_STANDARD.decode(text).expect("base64").into();
    let chunks = run.chunks.into_iter().map(|(entries, text)| Chunk { entries, body: body(text) });
    (run.result, chunks.collect())
}

#[tokio::test]
async fn journals_of_earlier_builds_are_repeated_to_the_same_result() {
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        record(&folder().join(format!("format-{FORMAT}.json"))).await;
    }
    let (_engine, catalog) = serve("golden", &wat::parse_str(text()).expect("parses"), "").await;
    for format in 1..=FORMAT {
        let (result, chunks) = recorded(format);
        let kept = Kept::of(chunks.clone());
        let (end, context) = run(&catalog, &json!({}), &kept).await;
        assert_eq!(ok(&end), result, "format {format}");
        assert!(context.asked.lock().expect("free").is_empty(), "it was answered then");
        assert!(context.reports.lock().expect("free").is_empty(), "it was logged then");
        assert_eq!(kept.stored(), chunks, "a repetition of an ended run records nothing");
    }
}
