//! Test helpers: guests, a plugin folder, a recording context, waiting.

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use toolyard_engine::{Engine, PluginReport, PluginState, Plugins, Settings, Snapshot};
use toolyard_task::permission::WhyNot;
use toolyard_task::provider::{ProviderAnswer, Retrieval, RetrievalEnd};
use toolyard_task::tool::{AskedQuestion, CallInfo, GivenAnswer, Report, RunUsage};
use toolyard_task::wire::{RawJson, RpcError, Timestamp};
use toolyard_task::{
    AccessRequest, AskError, Catalog, HttpTape, NotPermitted, RunContext, RunEnd, RunJournal, Tool,
    Unattended,
};

/// Longer than any operation takes on the slowest machine. Only a failing test reaches it.
pub const BOUND: Duration = Duration::from_secs(60);

/// The bytes of a component built by the build scripts.
pub fn guest(name: &str) -> Vec<u8> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let paths = [
        root.join("plugins/dist").join(format!("{name}.wasm")),
        root.join("plugins/extra").join(format!("{name}.wasm")),
        root.join("target/fixtures").join(format!("{name}.wasm")),
    ];
    paths.iter().find_map(|path| std::fs::read(path).ok()).unwrap_or_else(|| {
        panic!("there is no {name}.wasm; run plugins/build.sh and tests/fixtures/build.sh first")
    })
}

pub fn engine(settings: &Settings) -> Arc<Engine> {
    Engine::start(settings).expect("the engine starts")
}

/// Settings that keep tests small and quick.
pub fn settings() -> Settings {
    Settings {
        max_runs: 32,
        rescan: Duration::from_millis(50),
        settle: Duration::from_millis(20),
        ..Settings::default()
    }
}

/// A temporary plugin folder.
pub struct Folder(tempfile::TempDir);

impl Folder {
    pub fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary folder"))
    }

    /// Creates a folder that contains these guests under these names.
    pub fn with(guests: &[(&str, &str)]) -> Self {
        let folder = Self::new();
        for (file, name) in guests {
            folder.put(file, &guest(name));
        }
        folder
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    /// Writes a file in place, as `cp` does.
    pub fn put(&self, name: &str, bytes: &[u8]) {
        std::fs::write(self.file(name), bytes).expect("writes");
    }

    /// Puts a complete file in place by renaming, as careful builds do.
    pub fn replace(&self, name: &str, bytes: &[u8]) {
        let temporary = self.file(&format!("{name}.tmp"));
        std::fs::write(&temporary, bytes).expect("writes");
        std::fs::rename(&temporary, self.file(name)).expect("renames");
    }

    pub fn remove(&self, name: &str) {
        std::fs::remove_file(self.file(name)).expect("removes");
    }

    pub async fn load(&self, engine: &Arc<Engine>) -> Snapshot {
        Plugins::open(engine.clone(), self.path()).load().await
    }
}

/// Loads the single guest of this name with this manifest.
pub async fn only(engine: &Arc<Engine>, name: &str, manifest: &str) -> Arc<Catalog> {
    let folder = Folder::with(&[("guest.wasm", name)]);
    folder.put("guest.toml", manifest.as_bytes());
    let snapshot = folder.load(engine).await;
    assert_eq!(state(&snapshot, "guest.wasm"), &PluginState::Serving);
    snapshot.catalog
}

pub fn report<'a>(snapshot: &'a Snapshot, file: &str) -> &'a PluginReport {
    snapshot
        .plugins
        .iter()
        .find(|report| report.file == file)
        .unwrap_or_else(|| panic!("{file}: {snapshot:?}"))
}

pub fn state<'a>(snapshot: &'a Snapshot, file: &str) -> &'a PluginState {
    &report(snapshot, file).state
}

/// Why a file is refused.
pub fn why(snapshot: &Snapshot, file: &str) -> String {
    match state(snapshot, file) {
        PluginState::Refused { why } | PluginState::KeptPrevious { why } => why.clone(),
        other => panic!("{file}: {other:?}"),
    }
}

pub fn tool(catalog: &Catalog, name: &str) -> Arc<dyn Tool> {
    catalog.get(name).unwrap_or_else(|| panic!("no {name} in {catalog:?}")).clone()
}

/// Runs a tool to completion.
pub async fn call(catalog: &Catalog, name: &str, arguments: &str) -> RunEnd {
    run(tool(catalog, name), arguments, Arc::new(Recorder::default())).await
}

pub async fn run(tool: Arc<dyn Tool>, arguments: &str, context: Arc<dyn RunContext>) -> RunEnd {
    let arguments = RawJson::parse(arguments.to_owned()).expect("JSON");
    tokio::time::timeout(BOUND, start(&tool, arguments, context)).await.expect("ends in time")
}

/// Starts a run.
pub fn start(
    tool: &Arc<dyn Tool>,
    arguments: RawJson,
    context: Arc<dyn RunContext>,
) -> BoxFuture<'static, RunEnd> {
    tool.clone().run(arguments, tool.reserve().expect("reserved"), context)
}

/// Serves a request of the only provider.
pub async fn serve(catalog: &Catalog, request: Retrieval) -> RetrievalEnd {
    let [provider] = catalog.providers() else { panic!("one provider") };
    let served =
        provider.clone().serve(request, provider.reserve().expect("reserved"), Arc::new(Recorder::default()));
    tokio::time::timeout(BOUND, served).await.expect("ends in time")
}

/// Serves a request that succeeds.
pub async fn retrieve(catalog: &Catalog, request: Retrieval) -> ProviderAnswer {
    match serve(catalog, request).await {
        RetrievalEnd::Done(retrieved) => retrieved,
        other => panic!("{other:?}"),
    }
}

/// Serves a request that fails.
pub async fn failure(catalog: &Catalog, request: Retrieval) -> RpcError {
    match serve(catalog, request).await {
        RetrievalEnd::Failed(error) => error,
        other => panic!("{other:?}"),
    }
}

pub fn read(uri: &str) -> Retrieval {
    Retrieval::Read { uri: uri.to_owned() }
}

/// The first text of a result, and whether it is an error.
pub fn text(end: &RunEnd) -> (String, bool) {
    match end {
        RunEnd::Result { is_error, result, .. } => {
            let value: serde_json::Value = result.decode().expect("JSON");
            assert_eq!(value["isError"], *is_error);
            (value["content"][0]["text"].as_str().unwrap_or_default().to_owned(), *is_error)
        }
        other => panic!("{other:?}"),
    }
}

pub fn ok(end: &RunEnd) -> String {
    let (text, is_error) = text(end);
    assert!(!is_error, "{text}");
    text
}

pub fn error(end: &RunEnd) -> String {
    let (text, is_error) = text(end);
    assert!(is_error, "{text}");
    text
}

/// A server that answers each connection with the bytes that `answer` makes of the head of a request, after so many
/// milliseconds. Its port.
pub async fn server(answer: impl Fn(&str) -> (u64, Vec<u8>) + Send + Sync + 'static) -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
    let port = listener.local_addr().expect("bound").port();
    let answer = Arc::new(answer);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let answer = answer.clone();
            tokio::spawn(async move {
                let (mut head, mut piece) = (Vec::new(), [0; 1 << 10]);
                while !head.windows(4).any(|end| end == b"\r\n\r\n") {
                    match stream.read(&mut piece).await {
                        Ok(0) | Err(_) => return,
                        Ok(count) => head.extend_from_slice(&piece[..count]),
                    }
                }
                let (time, bytes) = answer(&String::from_utf8_lossy(&head));
                tokio::time::sleep(Duration::from_millis(time)).await;
                // The client may have refused the rest.
                drop(stream.write_all(&bytes).await);
            });
        }
    });
    port
}

/// Waits until `condition` returns a value.
pub async fn eventually<T>(what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = condition() {
            return found;
        }
        assert!(began.elapsed() < BOUND, "never: {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Looks at questions before they are answered.
type Look = Box<dyn Fn(&[AskedQuestion]) + Send + Sync>;

/// A context that records reports and returns preset answers.
#[derive(Default)]
pub struct Recorder {
    pub stop: AtomicBool,
    pub reports: Mutex<Vec<Report>>,
    /// Resource usage, kept apart from the other reports because every run reports it.
    pub spent: Mutex<Vec<RunUsage>>,
    pub asked: Mutex<Vec<AskedQuestion>>,
    pub answer: Option<String>,
    /// Whether questions are never answered.
    pub hangs: bool,
    pub on_ask: Option<Look>,
    pub info: Option<CallInfo>,
    pub begun: AtomicBool,
    /// Whether the client knows the error code for a missing capability.
    pub tells_missing: bool,
    /// How long a user who permits everything takes to decide; `None` refuses.
    pub permits_after: Option<Duration>,
    /// The requested permissions.
    pub wanted: Mutex<Vec<AccessRequest>>,
    /// Answers the HTTP requests of the run.
    pub tape: Option<Arc<dyn HttpTape>>,
    pub journal: Option<Arc<dyn RunJournal>>,
}

impl Recorder {
    pub fn stop(&self) {
        self.stop.store(true, Ordering::SeqCst);
    }
}

#[async_trait]
impl RunContext for Recorder {
    fn stopped(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }

    fn report(&self, report: Report) {
        if let Report::Usage(spent) = report {
            self.spent.lock().expect("free").push(spent);
            return;
        }
        self.reports.lock().expect("free").push(report);
    }

    fn info(&self) -> CallInfo {
        self.info.clone().unwrap_or(CallInfo { deadline: Some(Timestamp(0)), ..Unattended.info() })
    }

    fn http_tape(&self) -> Option<&dyn HttpTape> {
        self.tape.as_deref()
    }

    fn journal(&self) -> Option<Arc<dyn RunJournal>> {
        self.journal.clone()
    }

    fn tells_missing_capabilities(&self) -> bool {
        self.tells_missing
    }

    async fn ask(&self, questions: Vec<AskedQuestion>) -> Result<Vec<GivenAnswer>, AskError> {
        self.asked.lock().expect("free").extend(questions.clone());
        self.on_ask.iter().for_each(|look| look(&questions));
        if self.hangs {
            std::future::pending::<()>().await;
        }
        let Some(answer) = &self.answer else {
            return Err(AskError::Unsupported("elicitation".to_owned()));
        };
        let answer = RawJson::parse(answer.clone()).expect("JSON");
        Ok(questions
            .into_iter()
            .map(|asked| GivenAnswer { key: asked.key, outcome: Ok(answer.clone()) })
            .collect())
    }

    async fn permission(&self, wanted: Vec<AccessRequest>) -> Result<(), NotPermitted> {
        self.wanted.lock().expect("free").extend(wanted.clone());
        match self.permits_after {
            Some(time) => {
                tokio::time::sleep(time).await;
                Ok(())
            }
            None => Err(NotPermitted { wanted: wanted[0].clone(), why: WhyNot::Refused }),
        }
    }

    async fn begin_task(&self) -> Result<(), String> {
        self.begun.store(true, Ordering::SeqCst);
        Ok(())
    }

    async fn effects(&self) -> Result<(), AskError> {
        Ok(())
    }
}
