//! Files and targets that `restore` refuses.

use super::{Target, back_up, postgres, setup};
use crate::command_line::err;
use serde_json::json;
use std::path::Path;
use toolyard_tests::{Host, Setup, eventually, guests};

/// The error of a restore that is refused.
async fn refused(target: &Target, file: &Path) -> String {
    let refused = target.restore(file).await;
    assert_eq!(refused.status.code(), Some(1), "{}", err(&refused));
    err(&refused)
}

/// A host with a task that has ended, and a backup of it.
async fn host_and_backup(config: &str) -> (Host, std::path::PathBuf) {
    let (host, session) = setup(config).open().await;
    session.complete("echo", json!({"text": "kept"})).await;
    let file = back_up(&host).await;
    (host, file)
}

#[tokio::test]
async fn a_folder_with_a_store_or_a_host_is_not_restored_into() {
    let (host, file) = host_and_backup("").await;
    let name = file.to_str().expect("a plain name");
    let into_running = host.command(&["restore", name]).await;
    assert_eq!(into_running.status.code(), Some(1));
    assert!(err(&into_running).contains("holds a store already"), "{}", err(&into_running));
    // The host still runs, although its file is gone: it holds its lock.
    for end in ["", "-wal", "-shm"] {
        let file = host.data().join(format!("toolyard.sqlite{end}"));
        std::fs::rename(&file, host.folder().join(format!("moved{end}"))).expect("moves");
    }
    let beside_host = host.command(&["restore", name]).await;
    assert_eq!(beside_host.status.code(), Some(1));
    assert!(err(&beside_host).contains("a host uses the data folder"), "{}", err(&beside_host));
    // SQLite would apply this log to the restored file.
    let target = Target::new(setup(""));
    std::fs::create_dir(target.data()).expect("makes");
    std::fs::write(target.data().join("toolyard.sqlite-wal"), "left").expect("writes");
    let said = refused(&target, &file).await;
    assert!(said.contains("toolyard.sqlite-wal holds a store already") && said.contains("--data"), "{said}");
}

#[tokio::test]
async fn a_schema_with_tables_is_not_restored_into() {
    let Some(config) = postgres() else { return };
    let (host, file) = host_and_backup(&config).await;
    let target = Target::new(setup(&config));
    let said = refused(&target, &file).await;
    assert!(said.contains("holds a store already") && said.contains("cluster.schema"), "{said}");
    let listed = host.command(&["tasks", "list", "--json"]).await;
    assert!(crate::command_line::out(&listed).contains("completed"), "it stays as it was");
}

#[tokio::test]
async fn a_backup_of_the_other_kind_of_store_is_refused() {
    let Some(config) = postgres() else { return };
    let (_host, file) = host_and_backup("").await;
    let said = refused(&Target::new(setup(&config)), &file).await;
    assert!(said.contains("restore it into a SQLite store"), "{said}");
    let (_host, file) = host_and_backup(&config).await;
    let said = refused(&Target::new(setup("")), &file).await;
    assert!(said.contains("restore it into a PostgreSQL store"), "{said}");
}

#[tokio::test]
async fn a_folder_without_a_store_has_no_backup() {
    let target = Target::new(setup(""));
    for makes in [false, true] {
        if makes {
            std::fs::create_dir(target.data()).expect("makes");
        }
        let args = ["-o", "none"].map(str::to_owned);
        let mut command = toolyard_tests::host::command("backup", target.folder.path(), &args);
        let output = command.output().await.expect("it runs");
        assert_eq!(output.status.code(), Some(1));
        let says = if makes { "holds no store" } else { "there is no data folder" };
        assert!(err(&output).contains(says), "{}", err(&output));
        assert!(!target.folder.path().join("none").exists());
    }
}

/// It would act on all later tasks of everybody.
#[tokio::test]
async fn a_backup_with_a_trigger_of_somebody_else_is_refused() {
    let (host, _session) = setup("").open().await;
    let on = rusqlite::Connection::open(host.data().join("toolyard.sqlite")).expect("opens");
    on.execute_batch("CREATE TRIGGER t AFTER UPDATE ON task BEGIN SELECT 1; END").expect("makes it");
    let file = back_up(&host).await;
    let said = refused(&Target::new(setup("")), &file).await;
    assert!(said.contains("CREATE TRIGGER t") && said.contains("no release makes"), "{said}");
}

#[tokio::test]
async fn a_backup_with_another_component_in_place_of_one_is_refused() {
    let parks = || {
        let setup = Setup::new().with(&[guests::fixture("chances")]).set("admin.listen", "127.0.0.1:0");
        setup.manifest("chances", "[task]\ndurability = \"resume\"\n")
    };
    let (host, session) = parks().open_as(json!({"elicitation": {}})).await;
    let id = session.create("chances", json!({"rounds": 1, "ask": true})).await;
    session.until(&id, "input_required").await;
    let kept = eventually("its component to be kept", || async {
        std::fs::read_dir(host.data().join("components")).ok()?.flatten().next()
    });
    let kept = kept.await.path();
    std::fs::remove_file(&kept).and_then(|()| std::fs::write(&kept, "evil")).expect("writes");
    let file = back_up(&host).await;
    let said = refused(&Target::new(parks()), &file).await;
    assert!(said.contains("another component"), "{said}");
}
