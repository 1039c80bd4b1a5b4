//! Grants that a manifest leaves to a user (`grant = "ask"`): the run begins only after they have
//! permitted all of them.

use crate::kit::{Folder, Recorder, engine, ok, run, settings, state, tool};
use std::sync::Arc;
use std::time::Duration;
use toolyard_engine::PluginState;
use toolyard_task::permission::Access;
use toolyard_task::{AccessRequest, RunEnd};

const MANIFEST: &str = "\
[fs]
\"/data\" = { path = \"./data\", mode = \"read\", grant = \"ask\" }
\"/more\" = { path = \"./data/../more\", mode = \"write\", grant = \"ask\" }
\"/own\" = { path = \"./data\", mode = \"read\", grant = \"always\" }
[limits]
wall = \"3s\"
";

/// Reads a note in the folder `data` in this context.
async fn read(context: &Arc<Recorder>) -> (Folder, RunEnd) {
    let folder = Folder::with(&[("files.wasm", "hostile_files")]);
    folder.put("files.toml", MANIFEST.as_bytes());
    for name in ["data", "more"] {
        std::fs::create_dir(folder.file(name)).expect("makes");
    }
    folder.put("data/note", b"note");
    let engine = engine(&settings());
    let snapshot = folder.load(&engine).await;
    assert_eq!(state(&snapshot, "files.wasm"), &PluginState::Serving);
    let arguments = r#"{"what": "read", "path": "/data/note"}"#;
    let end = run(tool(&snapshot.catalog, "file"), arguments, context.clone()).await;
    (folder, end)
}

#[tokio::test]
async fn all_that_is_left_to_a_person_is_asked_for_at_once_and_nothing_else() {
    let context = Arc::new(Recorder { permits_after: Some(Duration::ZERO), ..Recorder::default() });
    let (folder, end) = read(&context).await;
    assert_eq!(ok(&end), "ALLOWED \"note\"");
    let place = |name: &str| {
        let place = folder.path().canonicalize().expect("is there").join(name);
        place.to_str().expect("plain").to_owned()
    };
    let wanted = |guest: &str, path: &str, named: &str, access| AccessRequest::Folder {
        guest: guest.into(),
        path: place(path),
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
    let (_folder, end) = read(&context).await;
    assert_eq!(ok(&end), "ALLOWED \"note\"");
}
