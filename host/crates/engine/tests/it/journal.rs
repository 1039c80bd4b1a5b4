//! Runs with a journal are repeated exactly, from any prefix of it, and nothing that has left is sent again.

use crate::kit::{Folder, Recorder, engine, guest, ok, settings, start, state, tool};
use async_trait::async_trait;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use toolyard_engine::{Engine, PluginState};
use toolyard_journal::{Chunk, DecidedBy, DoubtDecision};
use toolyard_task::tool::{AskError, AskedQuestion, CallInfo, GivenAnswer, Report};
use toolyard_task::wire::RawJson;
use toolyard_task::{Catalog, JournalLost, RunContext, RunEnd, RunJournal};

/// A journal in memory, which loses everything from some chunk on.
#[derive(Default)]
struct Kept {
    chunks: Mutex<Vec<Chunk>>,
    given_up: Mutex<Option<String>>,
    flushes: AtomicU64,
    /// The decisions about requests in doubt, in words.
    doubts: Mutex<Vec<String>>,
    divergences: AtomicU64,
}

#[async_trait]
impl RunJournal for Kept {
    async fn past(&self) -> Result<Vec<Chunk>, JournalLost> {
        Ok(self.chunks.lock().expect("free").clone())
    }

    fn limit(&self) -> u64 {
        16 << 20
    }

    fn push(&self, chunk: Chunk) {
        self.chunks.lock().expect("free").push(chunk);
    }

    async fn flush(&self) -> Result<(), JournalLost> {
        self.flushes.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn give_up(&self, reason: String) {
        *self.given_up.lock().expect("free") = Some(reason);
    }

    async fn sleep_until(&self, _time_ms: u64) {}

    async fn continue_with(&self, begin: Chunk) -> JournalLost {
        *self.chunks.lock().expect("free") = vec![begin];
        // The host drops the run.
        std::future::pending().await
    }

    fn set_requests(&self, _under_way: u32) {}

    async fn doubt(&self, request: &str, decision: DoubtDecision, by: DecidedBy<'_>) {
        let doubt = format!("{request}: {} by {by:?}", decision.as_str());
        self.doubts.lock().expect("free").push(doubt);
    }

    fn diverged(&self) {
        self.divergences.fetch_add(1, Ordering::Relaxed);
    }
}

impl Kept {
    fn cut(&self, chunks: usize) -> Arc<Self> {
        let kept = self.chunks.lock().expect("free")[..chunks].to_vec();
        Arc::new(Self { chunks: Mutex::new(kept), ..Self::default() })
    }

    fn len(&self) -> usize {
        self.chunks.lock().expect("free").len()
    }
}

/// A run with this journal, which answers each question.
struct WithJournal {
    journal: Arc<Kept>,
    inner: Recorder,
}

#[async_trait]
impl RunContext for WithJournal {
    fn stopped(&self) -> bool {
        false
    }

    fn report(&self, report: Report) {
        self.inner.report(report);
    }

    async fn ask(&self, questions: Vec<AskedQuestion>) -> Result<Vec<GivenAnswer>, AskError> {
        self.inner.ask(questions).await
    }

    async fn begin_task(&self) -> Result<(), String> {
        Ok(())
    }

    async fn effects(&self) -> Result<(), AskError> {
        Ok(())
    }

    fn info(&self) -> CallInfo {
        self.inner.info()
    }

    fn journal(&self) -> Option<Arc<dyn RunJournal>> {
        Some(self.journal.clone())
    }
}

async fn chances(manifest: &str) -> (Arc<Engine>, Arc<Catalog>) {
    let engine = engine(&settings());
    let folder = Folder::with(&[("guest.wasm", "chances")]);
    folder.put("guest.toml", format!("[task]\ndurability = \"resume\"\n{manifest}").as_bytes());
    let snapshot = folder.load(&engine).await;
    assert_eq!(state(&snapshot, "guest.wasm"), &PluginState::Serving);
    (engine, snapshot.catalog)
}

async fn run(catalog: &Catalog, arguments: &Value, journal: &Arc<Kept>) -> (RunEnd, Arc<WithJournal>) {
    let answer = Some(r#"{"action":"accept","content":{"n":3}}"#.to_owned());
    let inner = Recorder { answer, ..Recorder::default() };
    let context = Arc::new(WithJournal { journal: journal.clone(), inner });
    let arguments = RawJson::parse(arguments.to_string()).expect("JSON");
    let run = start(&tool(catalog, "chances"), arguments, context.clone());
    (tokio::time::timeout(crate::kit::BOUND, run).await.expect("ends"), context)
}

#[tokio::test]
async fn a_run_is_repeated_bit_for_bit_and_from_each_prefix_it_goes_on() {
    let (_engine, catalog) = chances("").await;
    let arguments = json!({ "rounds": 4, "sleep": 3, "hostSleep": 2, "ask": true });
    let first = Arc::new(Kept::default());
    let (end, context) = run(&catalog, &arguments, &first).await;
    let result = ok(&end);
    assert_eq!(context.inner.asked.lock().expect("free").len(), 4);
    let seen: Value = serde_json::from_str(&result).expect("JSON");
    assert_ne!(seen[0]["order"], seen[1]["order"], "hash tables differ: {seen}");

    // The whole journal: the same, and nothing is asked again.
    let again = first.cut(first.len());
    let (end, context) = run(&catalog, &arguments, &again).await;
    assert_eq!(ok(&end), result);
    assert!(context.inner.asked.lock().expect("free").is_empty());
    assert_eq!(again.len(), first.len(), "a repetition of an ended run records nothing");

    for chunks in 1..first.len() {
        let cut = first.cut(chunks);
        let (end, _) = run(&catalog, &arguments, &cut).await;
        let result = ok(&end);
        let (again, context) = run(&catalog, &arguments, &cut.cut(cut.len())).await;
        assert_eq!(ok(&again), result, "from chunk {chunks}");
        assert!(context.inner.asked.lock().expect("free").is_empty());
    }
}

#[tokio::test]
async fn other_arguments_or_another_guest_diverge_and_say_where() {
    let (_engine, catalog) = chances("").await;
    let first = Arc::new(Kept::default());
    let arguments = json!({ "rounds": 2, "ask": true });
    ok(&run(&catalog, &arguments, &first).await.0);
    let repeated = first.cut(first.len());
    let (end, _) = run(&catalog, &json!({ "rounds": 2, "hostSleep": 7 }), &repeated).await;
    let RunEnd::Result { is_error: true, result, .. } = &end else { panic!("{end:?}") };
    let text = result.as_str();
    assert!(
        text.contains("could not be resumed") && text.contains("recorded") && text.contains("sleep"),
        "{text}"
    );
    assert_eq!(repeated.divergences.load(Ordering::Relaxed), 1);
}

/// A server that counts the bodies that it gets, and answers each with a number that never repeats.
async fn sink() -> (u64, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
    let port = listener.local_addr().expect("bound").port();
    let got = Arc::new(Mutex::new(Vec::new()));
    let counted = got.clone();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let counted = counted.clone();
            tokio::spawn(async move {
                let mut bytes = Vec::new();
                let mut piece = [0; 1024];
                // The path names the body.
                while !bytes.windows(4).any(|window| window == b"\r\n\r\n") {
                    match stream.read(&mut piece).await {
                        Ok(0) | Err(_) => return,
                        Ok(count) => bytes.extend(&piece[..count]),
                    }
                }
                let head = String::from_utf8_lossy(&bytes).into_owned();
                let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
                let number = {
                    let mut counted = counted.lock().expect("free");
                    counted.push(path);
                    counted.len()
                };
                tokio::time::sleep(std::time::Duration::from_millis((number as u64 * 7) % 20)).await;
                let body = format!("answer {number}");
                let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len());
                drop(stream.write_all(head.as_bytes()).await);
            });
        }
    });
    (u64::from(port), got)
}

#[tokio::test]
async fn concurrent_exchanges_are_repeated_in_their_order_and_none_is_sent_twice() {
    let (port, got) = sink().await;
    let (_engine, catalog) = chances(&format!("[http]\nallow = [\"http://127.0.0.1:{port}\"]\n")).await;
    let arguments = json!({ "rounds": 3, "port": port, "together": 4 });
    let first = Arc::new(Kept::default());
    let (end, _) = run(&catalog, &arguments, &first).await;
    let result = ok(&end);
    assert_eq!(got.lock().expect("free").len(), 12, "{result}");
    let (end, _) = run(&catalog, &arguments, &first.cut(first.len())).await;
    assert_eq!(ok(&end), result);
    assert_eq!(got.lock().expect("free").len(), 12, "nothing is sent again");
}

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
        let RunEnd::Result { is_error: failed, result, .. } = &end else { panic!("{end:?}") };
        assert_eq!(
            (*failed, result.as_str().contains(says)),
            (is_error, true),
            "{word}: {}",
            result.as_str()
        );
        assert_eq!(got.lock().expect("free").len() - before, sent, "{word}");
        let told = cut.doubts.lock().expect("free").clone();
        let expected = format!("POST http://127.0.0.1:{port}/0-0: {decision} by Manifest");
        assert_eq!(told, [expected]);
    }
}

/// Whether a journal has a request without a response.
fn in_doubt(journal: &Kept) -> bool {
    let chunks = journal.chunks.lock().expect("free").clone();
    let recorder = toolyard_journal::Recorder::load(chunks, 16 << 20).expect("loads");
    !recorder.in_doubt().expect("readable").is_empty()
}

#[tokio::test]
async fn a_plain_call_of_such_a_tool_has_no_journal() {
    let (_engine, catalog) = chances("").await;
    let end = crate::kit::call(&catalog, "chances", r#"{"rounds":1}"#).await;
    ok(&end);
    drop(guest("chances"));
}
