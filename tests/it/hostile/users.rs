//! Other users of the machine: the host trusts no file that they can write, and uses no file that they put in
//! place of its own. The test itself plays these users, unless that needs a real second user.

use super::stage::Stage;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use toolyard_tests::host::{run, set_mode};
use toolyard_tests::{PATIENCE, Setup};

const OVERRIDE: &str = "data.others-may-write";

#[tokio::test]
async fn users() {
    let stage = Stage::open(Setup::new()).await;
    attacks!(stage;
        open_the_data_folder_to_everybody, put_a_database_there_first, put_a_link_where_the_audit_log_is,
    );
    stage.at_rest().await;
}

/// The errors of a command that must refuse to start.
async fn refused(name: &str, folder: &Path, args: &[&str]) -> String {
    let output = tokio::time::timeout(PATIENCE, run(name, folder, args)).await.expect("it ends");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "{said}");
    said
}

async fn does_not_start(folder: &Path) -> String {
    refused("serve", folder, &["--listen", "127.0.0.1:0"]).await
}

/// A folder with an empty plugin folder and a data folder.
fn place() -> (tempfile::TempDir, PathBuf) {
    let (folder, _) = Setup::new().into_parts();
    let data = folder.path().join("data");
    std::fs::create_dir(&data).expect("makes");
    set_mode(&data, 0o700);
    (folder, data)
}

async fn open_the_data_folder_to_everybody(_: &Stage) {
    let (folder, data) = place();
    for (mode, who) in [(0o777, "everybody on this machine can write"), (0o770, "the group")] {
        set_mode(&data, mode);
        let said = does_not_start(folder.path()).await;
        assert!(said.contains("the data folder") && said.contains(who) && said.contains(OVERRIDE), "{said}");
        // A command that only reads refuses too. Links could lie there in place of the files of a background host.
        for (command, args) in [
            ("tasks", &["list"][..]),
            ("stdio", &["--detach"]),
            ("background-host", &["--name", "0123456789abcdef", "--settings", "x"]),
        ] {
            let said = refused(command, folder.path(), args).await;
            assert!(said.contains(who), "{command}: {said}");
            assert!(!data.join("toolyard.sqlite").exists() && !data.join("detached").exists(), "{command}");
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
