//! Files and targets that `restore` refuses.

use super::{Target, back_up, postgres, setup};
use serde_json::json;
use std::path::Path;
use toolyard_tests::host::run;
use toolyard_tests::{Host, Setup, ends, eventually};

/// A restore is refused, and the error says this.
async fn refused(target: &Target, file: &Path, says: &str) -> String {
    ends(&target.restore(file).await, 1, says)
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
    host.refuses(&["restore", name], 1, "holds a store already").await;
    // The host still runs, although its file is gone: it holds its lock.
    for end in ["", "-wal", "-shm"] {
        let file = host.data().join(format!("toolyard.sqlite{end}"));
        std::fs::rename(&file, host.folder().join(format!("moved{end}"))).expect("moves");
    }
    host.refuses(&["restore", name], 1, "a host uses the data folder").await;
    // SQLite would apply this log to the restored file.
    let target = Target::new(setup(""));
    std::fs::create_dir(target.data()).expect("makes");
    std::fs::write(target.data().join("toolyard.sqlite-wal"), "left").expect("writes");
    let said = refused(&target, &file, "toolyard.sqlite-wal holds a store already").await;
    assert!(said.contains("--data"), "{said}");
}

#[tokio::test]
async fn a_schema_with_tables_is_not_restored_into_nor_a_store_of_the_other_kind() {
    let (Some(config), Some(empty)) = (postgres(), postgres()) else { return };
    let (host, file) = host_and_backup(&config).await;
    let target = Target::new(setup(&config));
    let said = refused(&target, &file, "holds a store already").await;
    assert!(said.contains("cluster.schema"), "{said}");
    let listed = host.prints(&["tasks", "list", "--json"]).await;
    assert!(listed.contains("completed"), "it stays as it was");
    refused(&Target::new(setup("")), &file, "restore it into a PostgreSQL store").await;
    let (_host, file) = host_and_backup("").await;
    refused(&Target::new(setup(&empty)), &file, "restore it into a SQLite store").await;
}

#[tokio::test]
async fn a_folder_without_a_store_has_no_backup() {
    let target = Target::new(setup(""));
    for makes in [false, true] {
        if makes {
            std::fs::create_dir(target.data()).expect("makes");
        }
        let says = if makes { "holds no store" } else { "there is no data folder" };
        ends(&run("backup", target.folder.path(), &["-o", "none"]).await, 1, says);
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
    let said = refused(&Target::new(setup("")), &file, "CREATE TRIGGER t").await;
    assert!(said.contains("no release makes"), "{said}");
}

#[tokio::test]
async fn a_backup_with_another_component_in_place_of_one_is_refused() {
    let parks = || {
        let setup = Setup::fixture("chances", "[task]\ndurability = \"resume\"\n");
        setup.set("admin.listen", "127.0.0.1:0")
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
    refused(&Target::new(parks()), &file, "another component").await;
}
