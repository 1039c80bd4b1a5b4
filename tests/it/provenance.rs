//! The origin of tools: which components may be loaded, from whom, and which facts the host records.

use serde_json::Value;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Output;
use toolyard_tests::host::command;
use toolyard_tests::{Setup, guests};

/// A folder with the guest `add` in its plugin folder.
fn folder() -> tempfile::TempDir {
    Setup::new().with(&[guests::fixture("add")]).into_parts().0
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("changes the mode");
}

async fn tools(folder: &Path, more: &[&str]) -> Output {
    let mut command = command("tools", folder, &[]);
    command.arg("--json").args(more).output().await.expect("the command runs")
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[tokio::test]
async fn a_folder_that_everybody_can_write_to_is_refused_and_one_of_a_group_is_warned_of() {
    let folder = folder();
    let place = folder.path().join("plugins");
    set_mode(&place, 0o777);
    let refused = tools(folder.path(), &[]).await;
    assert_eq!(refused.status.code(), Some(1));
    for word in ["everybody on this machine can write to it", "chmod o-w", "plugins.others-may-write"] {
        assert!(text(&refused).contains(word), "{}", text(&refused));
    }
    let meant = tools(folder.path(), &["--set", "plugins.others-may-write=true"]).await;
    assert_eq!(meant.status.code(), Some(0), "{}", text(&meant));
    set_mode(&place, 0o775);
    let warned = tools(folder.path(), &["--log", "warn"]).await;
    assert_eq!(warned.status.code(), Some(0), "{}", text(&warned));
    assert!(text(&warned).contains("event=\"plugin.folder_not_protected\""), "{}", text(&warned));
    set_mode(&place, 0o755);
    let quiet = tools(folder.path(), &["--log", "warn"]).await;
    assert!(!text(&quiet).contains("can write"), "{}", text(&quiet));
}

#[tokio::test]
async fn files_that_everybody_can_change_are_refused() {
    let folder = folder();
    let component = folder.path().join("plugins/add.wasm");
    set_mode(&component, 0o666);
    let refused = tools(folder.path(), &[]).await;
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused).contains("can be changed by everybody on this machine"), "{}", text(&refused));
    set_mode(&component, 0o644);
    let manifest = folder.path().join("plugins/add.toml");
    std::fs::write(&manifest, "prefix = \"x\"").expect("writes");
    set_mode(&manifest, 0o646);
    let refused = tools(folder.path(), &[]).await;
    assert!(
        text(&refused).contains("add.toml") && text(&refused).contains("grant themselves"),
        "{}",
        text(&refused)
    );
    set_mode(&manifest, 0o644);
    assert_eq!(tools(folder.path(), &[]).await.status.code(), Some(0));
}

#[tokio::test]
async fn only_listed_digests_are_loaded_where_digests_are_required() {
    let folder = folder();
    let listed: Value = serde_json::from_slice(&tools(folder.path(), &[]).await.stdout).expect("a line");
    let digest = listed["digest"].as_str().expect("a digest");
    assert_eq!(digest.len(), 64, "{digest}");
    let config = folder.path().join("toolyard.toml");
    std::fs::write(&config, format!("[plugins]\nrequire-digest = [\"sha256:{}\"]", "0".repeat(64)))
        .expect("writes");
    let refused = tools(folder.path(), &[]).await;
    assert_eq!(refused.status.code(), Some(1));
    for word in [digest, "plugins.require-digest"] {
        assert!(text(&refused).contains(word), "{}", text(&refused));
    }
    std::fs::write(&config, format!("[plugins]\nfolder = \"plugins\"\nrequire-digest = [\"{digest}\"]"))
        .expect("writes");
    assert_eq!(tools(folder.path(), &[]).await.status.code(), Some(0));
    std::fs::write(&config, "[plugins]\nrequire-digest = [\"abc\"]").expect("writes");
    let wrong = tools(folder.path(), &[]).await;
    assert!(text(&wrong).contains("64 hexadecimal digits"), "{}", text(&wrong));
}
