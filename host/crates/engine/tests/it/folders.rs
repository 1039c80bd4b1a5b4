//! Folders that a manifest grants: what a guest can reach in them, and that it reaches nothing
//! else.

use crate::kit::{Folder, call, engine, error, ok, settings, state};
use std::sync::Arc;
use toolyard_engine::{Engine, ImportUse, PluginState};
use toolyard_manifest::FolderMode;
use toolyard_task::Catalog;

const READ: &str = "[fs]\n\"/data\" = { path = \"./data\", mode = \"read\" }\n";
const WRITE: &str = "[fs]\n\"/data\" = { path = \"./data\", mode = \"write\" }\n";

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
        std::fs::create_dir(folder.file("data")).expect("makes");
        folder.put("data/note", b"note");
        let engine = engine(&settings());
        let snapshot = folder.load(&engine).await;
        assert_eq!(state(&snapshot, "files.wasm"), &PluginState::Serving);
        Self { folder, engine, catalog: snapshot.catalog }
    }

    async fn attempt(&self, what: &str, path: &str, other: &str) -> String {
        let arguments = serde_json::json!({ "what": what, "path": path, "other": other }).to_string();
        ok(&call(&self.catalog, "file", &arguments).await)
    }

    async fn denied(&self, what: &str, path: &str, other: &str) {
        let seen = self.attempt(what, path, other).await;
        assert!(seen.starts_with("denied "), "{what} {path} {other}: {seen}");
    }
}

#[tokio::test]
async fn a_folder_granted_to_read_is_read_and_not_written() {
    let place = Place::with(READ).await;
    assert_eq!(place.attempt("read", "/data/note", "").await, "ALLOWED \"note\"");
    assert_eq!(place.attempt("list", "/data", "").await, "ALLOWED [\"note\"]");
    for (what, path, other) in [
        ("write", "/data/note", "x"),
        ("write", "/data/new", "x"),
        ("delete", "/data/note", ""),
        ("make", "/data/folder", ""),
        ("rename", "/data/note", "/data/other"),
        ("hard-link", "/data/note", "/data/other"),
        ("link", "/data/link", "note"),
        ("append", "/data/note", ""),
        ("remove", "/data/folder", ""),
        // Opening with truncate or create counts as writing, whatever the other flags are (GHSA-2r75-cxrj-cmph).
        ("truncate", "/data/note", ""),
        ("raw-truncate", "note", ""),
        ("raw-create", "note", ""),
        ("raw-create", "new", ""),
        ("raw-times", "note", ""),
        ("raw-symlink", "linked", "note"),
    ] {
        place.denied(what, path, other).await;
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
    place.denied("write", "/data/new", "x").await;
    place.folder.replace("files.toml", WRITE.as_bytes());
    place.catalog = place.folder.load(&place.engine).await.catalog;
    assert_eq!(place.attempt("write", "/data/new", "x").await, "ALLOWED ()");
    place.folder.replace("files.toml", b"");
    place.catalog = place.folder.load(&place.engine).await.catalog;
    place.denied("read", "/data/new", "").await;

    place.folder.replace("files.toml", WRITE.as_bytes());
    let report = place.engine.check(&place.folder.file("files.wasm")).await.expect("a plugin");
    let [grant] = &report.grants.folders[..] else { panic!("{report:?}") };
    assert_eq!((grant.guest.as_str(), grant.mode), ("/data", FolderMode::Write));
    assert!(grant.host.ends_with("data") && grant.host.is_absolute());
    assert_eq!(report.grants.granted, [ImportUse::Files], "{report:?}");
    assert!(report.grants.imports_used.contains(&ImportUse::Files), "{report:?}");
}
