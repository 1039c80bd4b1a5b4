//! Folders that a manifest grants, or leaves to a user (`grant = "ask"`): what a guest can reach in them, and that it
//! reaches nothing else.

use crate::kit::{Folder, Recorder, call, engine, error, ok, run, settings, state, tool};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use toolyard_engine::{Engine, ImportUse, PluginState};
use toolyard_manifest::FolderMode;
use toolyard_task::permission::Access;
use toolyard_task::{AccessRequest, Catalog, RunEnd};

const READ: &str = "[fs]\n\"/data\" = { path = \"./data\", mode = \"read\" }\n";
const WRITE: &str = "[fs]\n\"/data\" = { path = \"./data\", mode = \"write\" }\n";

/// Two grants that are left to a user, and one that is not.
const ASK: &str = "\
[fs]
\"/data\" = { path = \"./data\", mode = \"read\", grant = \"ask\" }
\"/more\" = { path = \"./data/../more\", mode = \"write\", grant = \"ask\" }
\"/own\" = { path = \"./data\", mode = \"read\", grant = \"always\" }
[limits]
wall = \"3s\"
";

/// A plugin folder with a guest that attempts file accesses, a folder `data` with a note, and a
/// secret beside it.
struct Place {
    folder: Folder,
    engine: Arc<Engine>,
    catalog: Arc<Catalog>,
}

impl Place {
    async fn with(manifest: &str) -> Self {
        let folder = Folder::with(&[("files.wasm", "hostile_files")]);
        folder.put("files.toml", manifest.as_bytes());
        folder.put("secret", b"secret");
        for name in ["data", "more"] {
            std::fs::create_dir(folder.file(name)).expect("makes");
        }
        folder.put("data/note", b"note");
        let engine = engine(&settings());
        let snapshot = folder.load(&engine).await;
        assert_eq!(state(&snapshot, "files.wasm"), &PluginState::Serving);
        Self { folder, engine, catalog: snapshot.catalog }
    }

    /// Reads the note in this context.
    async fn read_note(&self, context: &Arc<Recorder>) -> RunEnd {
        let arguments = r#"{"what": "read", "path": "/data/note"}"#;
        run(tool(&self.catalog, "file"), arguments, context.clone()).await
    }

    /// Attempts an operation on one path or two.
    async fn attempt(&self, order: &str) -> String {
        let words: Vec<&str> = order.split(' ').collect();
        let arguments = json!({ "what": words[0], "path": words[1], "other": words.get(2).unwrap_or(&"") });
        ok(&call(&self.catalog, "file", &arguments.to_string()).await)
    }

    async fn denied(&self, order: &str) {
        let seen = self.attempt(order).await;
        assert!(seen.starts_with("denied "), "{order}: {seen}");
    }
}

#[tokio::test]
async fn a_folder_granted_to_read_is_read_and_not_written() {
    let place = Place::with(READ).await;
    assert_eq!(place.attempt("read /data/note").await, "ALLOWED \"note\"");
    assert_eq!(place.attempt("list /data").await, "ALLOWED [\"note\"]");
    for order in [
        "write /data/note x",
        "write /data/new x",
        "delete /data/note",
        "make /data/folder",
        "rename /data/note /data/other",
        "hard-link /data/note /data/other",
        "link /data/link note",
        "append /data/note",
        "remove /data/folder",
        "raw-times note",
        "raw-symlink linked note",
    ] {
        place.denied(order).await;
    }
    // Opening with truncate or create counts as writing, whatever the other flags are (GHSA-2r75-cxrj-cmph).
    for order in ["truncate /data/note", "raw-truncate note", "raw-create note", "raw-create new"] {
        place.denied(order).await;
    }
    assert_eq!(std::fs::read(place.folder.file("data/note")).expect("still there"), b"note");
    assert_eq!(std::fs::read_dir(place.folder.file("data")).expect("there").count(), 1);
}

#[tokio::test]
async fn a_folder_that_goes_away_fails_the_run_and_not_the_host() {
    let place = Place::with(READ).await;
    std::fs::rename(place.folder.file("data"), place.folder.file("moved")).expect("renames");
    let arguments = "{\"what\":\"list\",\"path\":\"/data\"}";
    let what = error(&call(&place.catalog, "file", arguments).await);
    assert_eq!(
        what,
        "The tool `file` could not be run: the folder granted as `/data` was moved, replaced or removed \
         (`fs.\"/data\"`)"
    );
    std::fs::rename(place.folder.file("moved"), place.folder.file("data")).expect("renames");
    ok(&call(&place.catalog, "file", arguments).await);
}

#[tokio::test]
async fn another_grant_acts_at_once_and_a_check_shows_it() {
    let mut place = Place::with(READ).await;
    place.denied("write /data/new x").await;
    place.folder.replace("files.toml", WRITE.as_bytes());
    place.catalog = place.folder.load(&place.engine).await.catalog;
    assert_eq!(place.attempt("write /data/new x").await, "ALLOWED ()");
    place.folder.replace("files.toml", b"");
    place.catalog = place.folder.load(&place.engine).await.catalog;
    place.denied("read /data/new").await;

    place.folder.replace("files.toml", WRITE.as_bytes());
    let report = place.engine.check(&place.folder.file("files.wasm")).await.expect("a plugin");
    let [grant] = &report.grants.folders[..] else { panic!("{report:?}") };
    assert_eq!((grant.guest.as_str(), grant.mode), ("/data", FolderMode::Write));
    assert!(grant.host.ends_with("data") && grant.host.is_absolute());
    assert_eq!(report.grants.granted, [ImportUse::Files], "{report:?}");
    assert!(report.grants.imports_used.contains(&ImportUse::Files), "{report:?}");
}

#[tokio::test]
async fn all_that_is_left_to_a_person_is_asked_for_at_once_and_nothing_else() {
    let context = Arc::new(Recorder { permits_after: Some(Duration::ZERO), ..Recorder::default() });
    let place = Place::with(ASK).await;
    assert_eq!(ok(&place.read_note(&context).await), "ALLOWED \"note\"");
    let root = place.folder.path().canonicalize().expect("is there");
    let wanted = |guest: &str, path: &str, named: &str, access| AccessRequest::Folder {
        guest: guest.into(),
        path: root.join(path).to_str().expect("plain").to_owned(),
        named: named.into(),
        access,
    };
    let expected = [
        wanted("/data", "data", "./data", Access::Read),
        wanted("/more", "more", "./data/../more", Access::Write),
    ];
    let mut asked = context.wanted.lock().expect("free").clone();
    asked.sort_by_key(AccessRequest::key);
    assert_eq!(asked, expected);
}

/// The user may take longer to decide than the run's time limit.
#[tokio::test]
async fn the_time_of_a_person_is_not_the_time_of_the_run() {
    let context =
        Arc::new(Recorder { permits_after: Some(Duration::from_millis(3_100)), ..Recorder::default() });
    let place = Place::with(ASK).await;
    assert_eq!(ok(&place.read_note(&context).await), "ALLOWED \"note\"");
}
