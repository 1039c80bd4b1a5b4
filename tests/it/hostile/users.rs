//! Other users of the machine: the host trusts no file that they can write, and uses no file that they put in
//! place of its own. The test itself plays these users, unless that needs a real second user.

use super::stage::Stage;
use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::Duration;
use toolyard_tests::{Setup, guests};

const OVERRIDE: &str = "data.others-may-write";

#[tokio::test]
async fn users() {
    let stage = Stage::open(Setup::new()).await;
    attacks!(stage;
        open_the_data_folder_to_everybody, put_a_database_there_first, put_a_link_where_the_audit_log_is,
    );
    stage.at_rest().await;
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, Permissions::from_mode(mode)).expect("changes the mode");
}

/// The output of a command that ends by itself.
async fn run(folder: &Path, args: &[&str]) -> Output {
    let running = tokio::process::Command::new(guests::binary())
        .args(args)
        .current_dir(folder)
        .kill_on_drop(true)
        .output();
    tokio::time::timeout(Duration::from_secs(60), running).await.expect("it ends").expect("it runs")
}

/// Starts a host that must refuse to start, and returns its message.
async fn does_not_start(folder: &Path) -> String {
    let args = ["serve", "--listen", "127.0.0.1:0", "--plugins", "plugins", "--data", "data"];
    let output = run(folder, &args).await;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "{said}");
    said
}

/// A folder with an empty plugin folder and a data folder.
fn place() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    for made in [&data, &folder.path().join("plugins")] {
        std::fs::create_dir(made).expect("makes");
    }
    set_mode(&data, 0o700);
    (folder, data)
}

async fn open_the_data_folder_to_everybody(_: &Stage) {
    let (folder, data) = place();
    for (mode, who) in [(0o777, "everybody on this machine can write"), (0o770, "the group")] {
        set_mode(&data, mode);
        let said = does_not_start(folder.path()).await;
        assert!(said.contains("the data folder") && said.contains(who) && said.contains(OVERRIDE), "{said}");
        // A command that only reads refuses too.
        let listed = run(folder.path(), &["tasks", "list", "--data", "data", "--plugins", "plugins"]).await;
        assert!(!listed.status.success() && String::from_utf8_lossy(&listed.stderr).contains(who));
        assert!(!data.join("toolyard.sqlite").exists());
        // Links could lie there in place of the files of a background host.
        for command in ["stdio", "background-host"] {
            let more: &[&str] = match command {
                "stdio" => &["--detach"],
                _ => &["--name", "0123456789abcdef", "--settings", "x"],
            };
            let args = [&[command, "--data", "data", "--plugins", "plugins"], more].concat();
            let refused = run(folder.path(), &args).await;
            assert!(String::from_utf8_lossy(&refused.stderr).contains(who), "{command}: {refused:?}");
            assert!(!data.join("detached").exists(), "{command}");
        }
    }
    set_mode(&data, 0o700);
    for name in ["detached", "nodes"] {
        std::fs::create_dir(data.join(name)).expect("makes");
        set_mode(&data.join(name), 0o777);
        let said = does_not_start(folder.path()).await;
        assert!(said.contains(name) && said.contains(OVERRIDE), "{said}");
        std::fs::remove_dir(data.join(name)).expect("removes");
    }
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(&data, Some(65534), None).expect("root may");
        let said = does_not_start(folder.path()).await;
        assert!(said.contains("it belongs to the user 65534") && said.contains("chown"), "{said}");
    }
}

/// The host adopts a database that exists before its first start, unless another user could have written it.
async fn put_a_database_there_first(_: &Stage) {
    let (folder, data) = place();
    for name in ["toolyard.sqlite", "toolyard.sqlite-wal", "toolyard.sqlite-shm"] {
        let file = data.join(name);
        std::fs::write(&file, "").expect("writes");
        set_mode(&file, 0o666);
        let said = does_not_start(folder.path()).await;
        assert!(said.contains(name) && said.contains("could have changed tasks and keys"), "{said}");
        std::fs::remove_file(&file).expect("removes");
    }
}

async fn put_a_link_where_the_audit_log_is(_: &Stage) {
    let (folder, data) = place();
    symlink("../target", data.join("audit.jsonl")).expect("links");
    let said = does_not_start(folder.path()).await;
    assert!(said.contains("audit.jsonl is no regular file"), "{said}");
}
