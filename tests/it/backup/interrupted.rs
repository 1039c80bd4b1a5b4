//! Restores that are killed in the middle: there is no store, and a repeated restore makes it.

use super::{Target, back_up, postgres, setup};
use serde_json::json;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use toolyard_tests::{guests, postgres as server};

async fn kill_at(fail_point: &str, target: &Target, file: &Path) {
    let mut command = tokio::process::Command::new(guests::binary_with_fail_points());
    command.arg("restore").arg(file).arg("--data").arg(target.data()).current_dir(target.folder.path());
    let output = command.env("TOOLYARD_FAILPOINT", fail_point).output().await.expect("it runs");
    let kill = rustix::process::Signal::KILL.as_raw();
    assert_eq!(output.status.signal(), Some(kill), "{}", crate::command_line::err(&output));
}

/// No file or folder in the data folder has a name that begins like this.
fn has_no_file_named(target: &Target, begin: &str) {
    for file in std::fs::read_dir(target.data()).expect("reads").flatten() {
        assert!(!file.file_name().to_string_lossy().starts_with(begin), "{file:?}");
    }
}

#[tokio::test]
async fn a_killed_restore_leaves_no_store_and_can_be_repeated() {
    let (host, session) = setup("").open().await;
    let id = session.complete("echo", json!({"text": "kept"})).await;
    let file = back_up(&host).await;
    for fail_point in ["restore.unpacked", "restore.placing"] {
        let target = Target::new(setup(""));
        kill_at(fail_point, &target, &file).await;
        has_no_file_named(&target, "toolyard.sqlite");
        let restored = target.start_from(&file).await;
        assert_eq!(session.at(restored.port()).task(&id).await["status"], "completed");
        has_no_file_named(&target, ".toolyard-");
    }
}

#[tokio::test]
async fn a_killed_restore_into_a_database_leaves_no_table_and_can_be_repeated() {
    let (Some(from), Some(to), Some(server)) = (postgres(), postgres(), server::shared()) else { return };
    let (host, session) = setup(&from).open().await;
    let id = session.complete("echo", json!({"text": "kept"})).await;
    let file = back_up(&host).await;
    let target = Target::new(setup(&to));
    kill_at("restore.filled", &target, &file).await;
    let schema = to.split("schema = \"").nth(1).and_then(|rest| rest.split('"').next()).expect("a schema");
    let tables = server.ask(&format!("SELECT count(*) FROM pg_tables WHERE schemaname = '{schema}'"));
    assert_eq!(tables.trim(), "0");
    let restored = target.start_from(&file).await;
    assert_eq!(session.at(restored.port()).task(&id).await["status"], "completed");
}
