//! The origin of tools: which components may be loaded, from whom, and which facts the host records.

use serde_json::Value;
use std::path::Path;
use toolyard_tests::host::{run, set_mode};
use toolyard_tests::{Setup, ends, guests, succeeds};

/// A folder with the guest `add` in its plugin folder.
fn folder() -> tempfile::TempDir {
    Setup::new().with(&[guests::fixture("add")]).into_parts().0
}

/// The errors of `toolyard tools`, which ends with this code.
async fn tools(folder: &Path, code: i32, more: &[&str]) -> String {
    ends(&run("tools", folder, more).await, code, "")
}

#[tokio::test]
async fn folders_and_files_that_everybody_can_change_are_refused_and_a_folder_of_a_group_is_warned_of() {
    let folder = folder();
    let place = folder.path().join("plugins");
    set_mode(&place, 0o777);
    let refused = tools(folder.path(), 1, &[]).await;
    for word in ["everybody on this machine can write to it", "chmod o-w", "plugins.others-may-write"] {
        assert!(refused.contains(word), "{refused}");
    }
    tools(folder.path(), 0, &["--set", "plugins.others-may-write=true"]).await;
    set_mode(&place, 0o775);
    let warned = tools(folder.path(), 0, &["--log", "warn"]).await;
    assert!(warned.contains("event=\"plugin.folder_not_protected\""), "{warned}");
    set_mode(&place, 0o755);
    let quiet = tools(folder.path(), 0, &["--log", "warn"]).await;
    assert!(!quiet.contains("can write"), "{quiet}");

    let component = place.join("add.wasm");
    set_mode(&component, 0o666);
    let refused = tools(folder.path(), 1, &[]).await;
    assert!(refused.contains("can be changed by everybody on this machine"), "{refused}");
    set_mode(&component, 0o644);
    let manifest = place.join("add.toml");
    std::fs::write(&manifest, "prefix = \"x\"").expect("writes");
    set_mode(&manifest, 0o646);
    let refused = tools(folder.path(), 1, &[]).await;
    assert!(refused.contains("add.toml") && refused.contains("grant themselves"), "{refused}");
    set_mode(&manifest, 0o644);
    tools(folder.path(), 0, &[]).await;
}

#[tokio::test]
async fn only_listed_digests_are_loaded_where_digests_are_required() {
    let folder = folder();
    let listed = succeeds(&run("tools", folder.path(), &["--json"]).await);
    let listed: Value = serde_json::from_str(&listed).expect("a line");
    let digest = listed["digest"].as_str().expect("a digest");
    assert_eq!(digest.len(), 64, "{digest}");
    let require = async |digest: &str, code: i32| {
        let config = format!("[plugins]\nfolder = \"plugins\"\nrequire-digest = [{digest:?}]");
        std::fs::write(folder.path().join("toolyard.toml"), config).expect("writes");
        tools(folder.path(), code, &[]).await
    };
    let refused = require(&format!("sha256:{}", "0".repeat(64)), 1).await;
    assert!(refused.contains(digest) && refused.contains("plugins.require-digest"), "{refused}");
    require(digest, 0).await;
    let wrong = require("abc", 2).await;
    assert!(wrong.contains("64 hexadecimal digits"), "{wrong}");
}
