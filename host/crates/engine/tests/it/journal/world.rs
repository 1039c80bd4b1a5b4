//! The world of runs with a journal: journals in memory, hosts, and what the runs do to the outside.

use crate::kit::{BOUND, Folder, Recorder, engine, guest, server, settings, start, state};
use async_trait::async_trait;
use serde_json::Value;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use tokio::sync::Notify;
use toolyard_engine::{Engine, PluginState, Settings};
use toolyard_journal::{Chunk, ChunkWriter, DecidedBy, Divergence, DoubtDecision, Entry, Frame};
use toolyard_task::http_tape::{HttpTape, ResponseOutcome, TapeAnswer, TapeRequest};
use toolyard_task::tool::AskedQuestion;
use toolyard_task::wire::RawJson;
use toolyard_task::{Catalog, JournalLost, RunEnd, RunJournal};

/// A journal in memory.
#[derive(Default)]
pub struct Kept {
    pub chunks: Mutex<Vec<Chunk>>,
    /// The number of chunks that would survive a crash.
    pub durable: AtomicUsize,
    /// The decisions about requests in doubt, in words.
    pub doubts: Mutex<Vec<String>>,
    pub divergences: Mutex<Vec<String>>,
    /// Whether a run has repeated everything.
    pub is_live: AtomicBool,
    /// Whether a run that waits for an answer is parked, as one that sleeps for long is.
    pub parks: bool,
    pub parked: Notify,
}

#[async_trait]
impl RunJournal for Kept {
    async fn past(&self) -> Result<Vec<Chunk>, JournalLost> {
        let past = self.stored();
        self.durable.store(past.len(), Ordering::Release);
        Ok(past)
    }

    fn limit(&self) -> u64 {
        16 << 20
    }

    fn push(&self, chunk: Chunk) {
        self.chunks.lock().expect("free").push(chunk);
    }

    fn end(&self, last: Chunk) {
        self.push(last);
        self.durable.store(self.len(), Ordering::Release);
    }

    async fn flush(&self) -> Result<(), JournalLost> {
        // Requests that leave at once flush at once, on several threads.
        self.durable.fetch_max(self.len(), Ordering::AcqRel);
        Ok(())
    }

    fn give_up(&self, reason: String) {
        panic!("{reason}");
    }

    async fn sleep_until(&self, _time_ms: u64) {
        self.park().await
    }

    async fn continue_with(&self, begin: Chunk) -> JournalLost {
        *self.chunks.lock().expect("free") = vec![begin];
        self.park().await
    }

    fn live(&self) {
        self.is_live.store(true, Ordering::Relaxed);
    }

    fn set_requests(&self, _under_way: u32) {}

    async fn doubt(&self, request: &str, decision: DoubtDecision, by: DecidedBy<'_>) {
        let doubt = format!("{request}: {} by {by:?}", decision.as_str());
        self.doubts.lock().expect("free").push(doubt);
    }

    fn diverged(&self, difference: &Divergence) {
        self.divergences.lock().expect("free").push(difference.to_string());
    }
}

impl Kept {
    /// Has the run dropped.
    async fn park<T>(&self) -> T {
        self.parked.notify_one();
        std::future::pending().await
    }

    pub fn of(chunks: Vec<Chunk>) -> Arc<Self> {
        Arc::new(Self { chunks: Mutex::new(chunks), ..Self::default() })
    }

    pub fn cut(&self, chunks: usize) -> Arc<Self> {
        Self::of(self.stored()[..chunks].to_vec())
    }

    pub fn len(&self) -> usize {
        self.chunks.lock().expect("free").len()
    }

    /// Whether an entry like this one would survive a crash.
    fn has_durable(&self, is_it: impl Fn(&Entry<'_>) -> bool) -> bool {
        let durable = self.durable.load(Ordering::Acquire);
        frames(&self.stored()[..durable]).iter().any(|frame| is_it(&frame.entry().expect("an entry")))
    }

    pub fn stored(&self) -> Vec<Chunk> {
        self.chunks.lock().expect("free").clone()
    }
}

/// All frames of a journal.
pub fn frames(chunks: &[Chunk]) -> Vec<Frame> {
    let frames = (0..).zip(chunks).flat_map(|(number, chunk)| chunk.frames(number).expect("a chunk").1);
    frames.map(|frame| frame.expect("a frame")).collect()
}

/// A journal of these entries, stored just now.
pub fn journal<'a>(entries: impl IntoIterator<Item = Entry<'a>>) -> Vec<Chunk> {
    let mut writer = ChunkWriter::new();
    entries.into_iter().for_each(|entry| writer.push(&entry));
    let now = std::time::UNIX_EPOCH.elapsed().expect("after 1970").as_millis();
    vec![writer.finish(u64::try_from(now).expect("a time"), 0)]
}

/// A tape for the requests of a run with this journal.
struct JournaledTape {
    journal: Arc<Kept>,
    tape: Arc<dyn HttpTape>,
}

impl HttpTape for JournaledTape {
    fn answer(&self, request: &TapeRequest<'_>) -> TapeAnswer {
        let is_this = |entry: &Entry<'_>| matches!(entry, Entry::Request { uri, .. } if *uri == request.url);
        assert!(self.journal.has_durable(is_this), "{} left before it was stored", request.url);
        self.tape.answer(request)
    }

    fn record(&self, _number: usize, _outcome: ResponseOutcome) {}

    fn allows_sockets(&self) -> bool {
        false
    }
}

/// An engine of its own that serves `chances` as a tool that resumes.
pub async fn chances(manifest: &str) -> (Arc<Engine>, Arc<Catalog>) {
    serve("chances", &guest("chances"), manifest).await
}

/// An engine of its own that serves a component as a plugin that resumes.
pub async fn serve(name: &str, component: &[u8], manifest: &str) -> (Arc<Engine>, Arc<Catalog>) {
    serve_by(settings(), name, component, &format!("[task]\ndurability = \"resume\"\n{manifest}")).await
}

/// An engine of its own with these settings, for a component with this manifest.
pub async fn serve_by(
    settings: Settings,
    name: &str,
    component: &[u8],
    manifest: &str,
) -> (Arc<Engine>, Arc<Catalog>) {
    // Kept from run to run, because each test compiles the same component.
    let cache = Some(Path::new(env!("CARGO_TARGET_TMPDIR")).join("journal-code"));
    let engine = engine(&Settings { cache, ..settings });
    let folder = Folder::new();
    folder.put(&format!("{name}.wasm"), component);
    folder.put(&format!("{name}.toml"), manifest.as_bytes());
    let snapshot = folder.load(&engine).await;
    assert_eq!(state(&snapshot, &format!("{name}.wasm")), &PluginState::Serving);
    (engine, snapshot.catalog)
}

/// The run of the only tool with this journal, whose requests go to the network.
pub async fn run(catalog: &Catalog, arguments: &Value, journal: &Arc<Kept>) -> (RunEnd, Arc<Recorder>) {
    run_with(catalog, arguments, journal, None).await
}

/// The run of the only tool with this journal, whose requests go to `tape` if it is set.
pub async fn run_with(
    catalog: &Catalog,
    arguments: &Value,
    journal: &Arc<Kept>,
    tape: Option<Arc<dyn HttpTape>>,
) -> (RunEnd, Arc<Recorder>) {
    let answer = Some(r#"{"action":"accept","content":{"n":3}}"#.to_owned());
    run_by(catalog, arguments, journal, Recorder { answer, tape, ..Recorder::default() }).await
}

/// The run of the only tool with this journal, for this host, which answers each question unless the run parks.
pub async fn run_by(
    catalog: &Catalog,
    arguments: &Value,
    journal: &Arc<Kept>,
    inner: Recorder,
) -> (RunEnd, Arc<Recorder>) {
    let kept = journal.clone();
    let on_ask = move |questions: &[AskedQuestion]| {
        let is_of_these = |entry: &Entry<'_>| match entry {
            Entry::Ask { questions: stored, .. } => {
                stored.iter().map(|it| it.key).eq(questions.iter().map(|it| &it.key))
            }
            _ => false,
        };
        assert!(kept.has_durable(is_of_these), "a question left before it was stored");
        if kept.parks {
            kept.parked.notify_one();
        }
    };
    let journaled = |tape| Arc::new(JournaledTape { journal: journal.clone(), tape }) as Arc<dyn HttpTape>;
    let context = Arc::new(Recorder {
        tape: inner.tape.map(journaled),
        hangs: journal.parks,
        on_ask: Some(Box::new(on_ask)),
        journal: Some(journal.clone()),
        ..inner
    });
    let arguments = RawJson::parse(arguments.to_string()).expect("JSON");
    let tool = catalog.tools().next().expect("a tool");
    let run = start(tool, arguments, context.clone());
    let end = tokio::select! {
        end = tokio::time::timeout(BOUND, run) => end.expect("ends"),
        () = journal.parked.notified() => RunEnd::Stopped,
    };
    (end, context)
}

/// Answers the requests of runs, each differently.
#[derive(Default)]
pub struct Server {
    /// The URLs of the requests in the order in which they came.
    pub got: Arc<Mutex<Vec<String>>>,
}

impl HttpTape for Server {
    fn answer(&self, request: &TapeRequest<'_>) -> TapeAnswer {
        let mut got = self.got.lock().expect("free");
        got.push(request.url.to_owned());
        let body = format!("answer {}", got.len()).into();
        TapeAnswer::Recorded(ResponseOutcome::Complete { status: 200, headers: Vec::new(), body })
    }

    fn record(&self, _number: usize, _outcome: ResponseOutcome) {}

    fn allows_sockets(&self) -> bool {
        false
    }
}

/// A server that counts the bodies that it gets, and answers each with a number that never repeats.
pub async fn sink() -> (u64, Arc<Mutex<Vec<String>>>) {
    let got = Arc::new(Mutex::new(Vec::new()));
    let counted = got.clone();
    let port = server(move |head| {
        let mut counted = counted.lock().expect("free");
        // The path names the body.
        counted.push(head.split(' ').nth(1).unwrap_or_default().to_owned());
        let number = counted.len();
        // With the credentials that came.
        let sent = head.lines().find(|line| line.starts_with("authorization")).unwrap_or_default();
        let body = format!("answer {number}{sent}");
        let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len());
        ((number as u64 * 7) % 20, answer.into_bytes())
    })
    .await;
    (u64::from(port), got)
}
