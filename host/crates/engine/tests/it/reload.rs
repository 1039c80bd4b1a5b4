//! Changes to the folder while the host runs.

use crate::kit::{
    BOUND, Folder, Recorder, call, engine, eventually, guest, ok, report, run, settings, state, tool, why,
};
use std::collections::VecDeque;
use std::io::Write as _;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use toolyard_engine::{Engine, PluginState, Plugins, Settings, Snapshot};

/// A watched folder.
struct Watched {
    published: Arc<Mutex<VecDeque<Snapshot>>>,
    stop: CancellationToken,
    watching: JoinHandle<()>,
    now: Snapshot,
}

impl Watched {
    /// Watches a new folder with one plugin.
    async fn one(file: &str, name: &str) -> (Folder, Self) {
        let folder = Folder::with(&[(file, name)]);
        let watched = Self::start(&engine(&settings()), folder.path()).await;
        (folder, watched)
    }

    async fn start(engine: &Arc<Engine>, dir: &Path) -> Self {
        let mut plugins = Plugins::open(engine.clone(), dir);
        let now = plugins.load().await;
        let published = Arc::new(Mutex::new(VecDeque::new()));
        let stop = CancellationToken::new();
        let sink = published.clone();
        let publish = move |snapshot| sink.lock().expect("free").push_back(snapshot);
        let watching = tokio::spawn(plugins.watch(stop.clone(), publish));
        Self { published, stop, watching, now }
    }

    /// Waits for the next published snapshot.
    async fn next(&mut self) -> &Snapshot {
        self.now = eventually("a new snapshot", || self.published.lock().expect("free").pop_front()).await;
        &self.now
    }

    /// Waits until a published snapshot meets the condition.
    async fn until(&mut self, what: &str, is_so: impl Fn(&Snapshot) -> bool) -> &Snapshot {
        while !is_so(&self.now) {
            self.now = eventually(what, || self.published.lock().expect("free").pop_front()).await;
        }
        &self.now
    }

    /// Stops watching. No further snapshot may have been published.
    async fn end(self) {
        self.stop.cancel();
        tokio::time::timeout(BOUND, self.watching).await.expect("ends").expect("no panic");
        assert!(self.published.lock().expect("free").is_empty(), "more was published");
    }
}

fn is(snapshot: &Snapshot, file: &str, wanted: &PluginState) -> bool {
    snapshot.plugins.iter().any(|report| report.file == file && report.state == *wanted)
}

/// Changes a sentinel file and waits for it, so that any other change would have been published
/// before.
async fn nothing_else(watched: &mut Watched, folder: &Folder) {
    let before = watched.now.plugins.len();
    folder.replace("zz-sentinel.wasm", b"");
    let snapshot = watched.next().await;
    assert_eq!(snapshot.plugins.len(), before + 1, "{snapshot:?}");
    folder.remove("zz-sentinel.wasm");
    assert_eq!(watched.next().await.plugins.len(), before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn added_replaced_broken_mended_renamed_removed() {
    let engine = engine(&settings());
    let folder = Folder::with(&[("a.wasm", "versioned_v1")]);
    let mut watched = Watched::start(&engine, folder.path()).await;
    assert_eq!(ok(&call(&watched.now.catalog, "version", "{}").await), "v1");

    folder.replace("b.wasm", &guest("add"));
    let catalog = watched.next().await.catalog.clone();
    assert_eq!(catalog.len(), 3);

    // A run in progress completes with the version that it began with.
    let old =
        tokio::spawn(run(tool(&catalog, "slow_version"), "{\"ms\":300}", Arc::new(Recorder::default())));
    eventually("it runs", || (engine.running() == 1).then_some(())).await;
    folder.replace("a.wasm", &guest("versioned_v2"));
    let snapshot = watched.next().await.clone();
    assert_eq!(ok(&call(&snapshot.catalog, "version", "{}").await), "v2");
    assert_eq!(ok(&old.await.expect("no panic")), "v1");

    folder.replace("a.wasm", b"broken");
    let broken = watched.next().await;
    assert!(matches!(state(broken, "a.wasm"), PluginState::KeptPrevious { .. }));
    assert!(why(broken, "a.wasm").contains("it is text"));
    assert!(Arc::ptr_eq(&broken.catalog, &snapshot.catalog), "the tools are the same");
    assert_eq!(ok(&call(&broken.catalog, "version", "{}").await), "v2");

    folder.replace("a.wasm", &guest("versioned_v1"));
    let mended = watched.next().await;
    assert_eq!(state(mended, "a.wasm"), &PluginState::Serving);
    assert_eq!(ok(&call(&mended.catalog, "version", "{}").await), "v1");

    std::fs::rename(folder.file("a.wasm"), folder.file("c.wasm")).expect("renames");
    let renamed = watched
        .until("renamed", |now| now.plugins.len() == 2 && is(now, "c.wasm", &PluginState::Serving))
        .await;
    assert_eq!(tool(&renamed.catalog, "version").spec().plugin, "c.wasm");

    folder.remove("c.wasm");
    let removed = watched.until("removed", |now| now.plugins.len() == 1).await;
    assert!(removed.catalog.get("version").is_none() && removed.catalog.get("add").is_some());
    watched.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_copy_is_loaded_when_it_is_whole() {
    let (folder, mut watched) = Watched::one("a.wasm", "versioned_v1").await;
    let bytes = guest("versioned_v2");
    for name in ["a.wasm", "new.wasm"] {
        if name == "new.wasm" {
            folder.put("new.toml", b"prefix = \"new\"");
        }
        let mut file = std::fs::File::create(folder.file(name)).expect("creates");
        for chunk in bytes.chunks(bytes.len() / 10 + 1) {
            file.write_all(chunk).expect("writes");
            // Sometimes longer than the settle time, sometimes shorter.
            tokio::time::sleep(Duration::from_millis(chunk.len() as u64 % 60)).await;
            let now = watched.now.catalog.clone();
            assert!(now.get("version").is_some(), "the former version goes on");
            if let Some(snapshot) = watched.published.lock().expect("free").pop_front() {
                watched.now = snapshot;
            }
        }
        drop(file);
        watched
            .until("whole", |now| {
                is(now, name, &PluginState::Serving) && report(now, name).digest == digest(&bytes)
            })
            .await;
    }
    assert_eq!(ok(&call(&watched.now.catalog, "version", "{}").await), "v2");
    assert_eq!(ok(&call(&watched.now.catalog, "new_version", "{}").await), "v2");
    watched.end().await;
}

fn digest(bytes: &[u8]) -> Option<toolyard_task::Digest> {
    use sha2::Digest as _;
    let hash = sha2::Sha256::digest(bytes);
    Some(toolyard_task::Digest(hash.iter().map(|byte| format!("{byte:02x}")).collect()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_changes_nothing_is_not_published() {
    let (folder, mut watched) = Watched::one("a.wasm", "versioned_v1").await;
    let catalog = watched.now.catalog.clone();
    let bytes = guest("versioned_v1");
    folder.put("a.wasm", &bytes);
    folder.replace("a.wasm", &bytes);
    std::fs::File::options()
        .append(true)
        .open(folder.file("a.wasm"))
        .expect("opens")
        .set_modified(std::time::UNIX_EPOCH)
        .expect("sets");
    folder.put("unrelated.txt", b"x");
    folder.put(".a.wasm.swp", b"x");
    nothing_else(&mut watched, &folder).await;
    assert!(Arc::ptr_eq(&catalog, &watched.now.catalog));
    watched.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn manifests_take_effect_and_a_wrong_one_stops_the_plugin() {
    let (folder, mut watched) = Watched::one("a.wasm", "versioned_v1").await;
    let version = tool(&watched.now.catalog, "version");

    folder.replace("a.toml", b"prefix = \"x\"");
    let prefixed = watched.next().await;
    assert_eq!(report(prefixed, "a.wasm").tools, ["x_version", "x_slow_version"]);

    folder.replace("a.toml", b"prefix = 5");
    let wrong = watched.next().await;
    assert!(wrong.catalog.is_empty());
    assert!(matches!(state(wrong, "a.wasm"), PluginState::Refused { .. }));
    assert!(why(wrong, "a.wasm").contains("a.toml line 1: `prefix`"));

    // The component breaks while the manifest is invalid. The previous component comes back with
    // the new manifest.
    folder.replace("a.wasm", b"broken");
    folder.replace("a.toml", b"prefix = \"y\"");
    let former =
        watched.until("former", |now| matches!(state(now, "a.wasm"), PluginState::KeptPrevious { .. })).await;
    assert!(former.catalog.get("y_version").is_some());

    folder.replace("a.toml", b"enabled = false");
    let disabled = watched.until("disabled", |now| is(now, "a.wasm", &PluginState::Disabled)).await;
    assert!(disabled.catalog.is_empty());

    folder.replace("a.wasm", &guest("versioned_v2"));
    folder.remove("a.toml");
    let plain = watched.until("plain", |now| is(now, "a.wasm", &PluginState::Serving)).await;
    assert_eq!(ok(&call(&plain.catalog, "version", "{}").await), "v2");
    // A caller that resolved the tool earlier still has it.
    assert_eq!(ok(&run(version, "{}", Arc::new(Recorder::default())).await), "v1");
    watched.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_folder_may_be_missing_appear_and_be_replaced() {
    let engine = engine(&settings());
    let home = Folder::new();
    let dir = home.file("plugins");
    let mut watched = Watched::start(&engine, &dir).await;
    assert!(watched.now.plugins.is_empty());
    std::fs::create_dir(&dir).expect("makes");
    std::fs::write(dir.join("a.wasm"), guest("add")).expect("writes");
    watched.until("appeared", |now| now.catalog.len() == 1).await;
    std::fs::rename(&dir, home.file("old")).expect("renames");
    watched.until("gone", |now| now.catalog.is_empty()).await;
    std::fs::create_dir(&dir).expect("makes");
    std::fs::write(dir.join("b.wasm"), guest("versioned_v1")).expect("writes");
    watched.until("replaced", |now| now.catalog.len() == 2).await;
    watched.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hints_are_heard_without_a_rescan() {
    let settings = Settings { rescan: Duration::from_secs(86_400), ..settings() };
    let folder = Folder::new();
    let mut watched = Watched::start(&engine(&settings), folder.path()).await;
    // The file is written in place, in pieces, and by renaming.
    folder.put("a.wasm", &guest("add"));
    watched.until("put", |now| now.catalog.len() == 1).await;
    folder.replace("a.wasm", &guest("versioned_v1"));
    watched.until("replaced", |now| now.catalog.len() == 2).await;
    folder.remove("a.wasm");
    watched.until("removed", |now| now.catalog.is_empty()).await;
    watched.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plugin_whose_granted_folder_is_made_later_serves_from_then_on() {
    let folder = Folder::with(&[("files.wasm", "hostile_files")]);
    folder.put("files.toml", b"[fs]\n\"/data\" = { path = \"./data\", mode = \"read\" }");
    let mut watched = Watched::start(&engine(&settings()), folder.path()).await;
    assert!(why(&watched.now, "files.wasm").contains("./data is not there"));
    std::fs::create_dir(folder.file("data")).expect("makes");
    let served = watched.next().await;
    assert_eq!(state(served, "files.wasm"), &PluginState::Serving);
    // A changed grant creates a new plugin, and clients learn of the new catalog.
    let former = served.catalog.clone();
    folder.replace("files.toml", b"[fs]\n\"/data\" = { path = \"./data\", mode = \"write\" }");
    let changed = watched.next().await;
    assert!(!Arc::ptr_eq(&changed.catalog, &former));
    watched.end().await;
}
