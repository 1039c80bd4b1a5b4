//! Stores that release 0.1 wrote (commit 19f06f7), opened by this release, and stores of a later release. The
//! files in `tests/upgrade` were made by the store of that commit: one of each kind, with the same nine tasks.

use crate::command_line::out;
use rusqlite::Connection;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use toolyard_tests::host::run;
use toolyard_tests::{Host, Session, Setup, ends, postgres, succeeds, until};

const SQLITE: &str = include_str!("../upgrade/sqlite.sql");
const POSTGRES: &str = include_str!("../upgrade/postgres.sql");
/// The schema that the statements of `POSTGRES` name.
const PLACEHOLDER: &str = "written_by_0_1";

/// The id of a task in the fixtures.
fn id(number: u32) -> String {
    format!("00000000-0000-4000-8000-{number:012}")
}

fn setup(config: &str) -> Setup {
    Setup::probe()
        .manifest("probe", "[tools.echo]\ntask-support = \"optional\"\ndurability = \"rerun\"\n")
        .config(config)
}

/// A setup whose data folder holds the file of the older release.
fn sqlite() -> Setup {
    let setup = setup("");
    let data = setup.folder().join("data");
    std::fs::create_dir(&data).expect("makes");
    let on = Connection::open(data.join("toolyard.sqlite")).expect("opens");
    on.execute_batch(SQLITE).expect("is SQL");
    setup
}

/// A setup whose schema holds the tables of the older release; `None` if there is no server.
fn postgres() -> Option<(Setup, String)> {
    let server = postgres::shared()?;
    let schema = server.schema();
    server.run(&POSTGRES.replace(PLACEHOLDER, &schema));
    let config =
        format!("store = \"{}\"\n[cluster]\nschema = \"{schema}\"\nlease = \"4s\"\n", server.address());
    Some((setup(&config), schema))
}

/// The status of each task, as the operator sees it.
async fn statuses(host: &Host) -> BTreeMap<String, String> {
    let listed = host.lines(&["tasks", "list", "--json"]).await.into_iter();
    let text = |task: &Value, name: &str| task[name].as_str().expect("a text").to_owned();
    listed.map(|task| (text(&task, "taskId"), text(&task, "status"))).collect()
}

async fn all_is_there_and_goes_on(setup: Setup) {
    let host = setup.start().await;
    // The host that held the live tasks is dead. The sixth had not begun, and the ninth may run again.
    let ended = [(1, "completed"), (2, "completed"), (3, "failed"), (4, "failed"), (5, "cancelled")];
    let recovered = [(6, "completed"), (7, "failed"), (8, "failed"), (9, "completed")];
    let expected: BTreeMap<String, String> =
        ended.into_iter().chain(recovered).map(|(number, status)| (id(number), status.to_owned())).collect();
    until("live tasks to be recovered", || async {
        let all = statuses(&host).await;
        assert_eq!(all.len(), expected.len());
        all == expected
    })
    .await;
    for (number, text) in [(1, "result 1"), (2, "result 2"), (3, "result 3"), (9, "number 9")] {
        let result = out(&host.command(&["tasks", "result", &id(number)]).await);
        let result: Value = serde_json::from_str(&result).expect("JSON");
        assert_eq!(result["content"][0]["text"], text);
    }
    host.refuses(&["tasks", "result", &id(4)], 1, "broke").await;
    let shown = host.lines(&["tasks", "show", &id(2), "--json"]).await;
    assert_eq!(shown[0]["arguments"]["text"].as_str().map(str::len), Some("long".len() * 800));
    let grants = host.prints(&["grants", "list"]).await;
    assert!(grants.contains("example.com"), "{grants}");
    let session = Session::open(host.port()).await;
    let new = session.complete("echo", json!({"text": "new"})).await;
    let result = session.result("tasks/result", json!({"taskId": new})).await;
    assert_eq!(result["content"][0]["text"], "new");
}

#[tokio::test]
async fn a_data_folder_and_a_database_of_release_0_1_are_taken_over_with_all_that_is_in_them() {
    all_is_there_and_goes_on(sqlite()).await;
    let Some((setup, _)) = postgres() else { return };
    all_is_there_and_goes_on(setup).await;
}

/// A backup upgrades nothing, and its restore is upgraded at the next start.
async fn backed_up_before_the_upgrade(from: Setup, to: Setup, says: &str) {
    let (folder, _) = from.into_parts();
    let file = folder.path().join("old.backup").display().to_string();
    ends(&run("backup", folder.path(), &["-o", &file]).await, 0, says);
    let (target, args) = to.into_parts();
    succeeds(&run("restore", target.path(), &[file]).await);
    let host = Host::on(target.into(), args).await;
    assert_eq!(statuses(&host).await.len(), 9);
}

#[tokio::test]
async fn this_release_backs_up_a_store_of_release_0_1_without_upgrading_it() {
    backed_up_before_the_upgrade(sqlite(), setup(""), "with schema 6").await;
    let Some((from, schema)) = postgres() else { return };
    let server = postgres::shared().expect("runs");
    let config = format!("store = \"{}\"\n[cluster]\nschema = \"{}\"\n", server.address(), server.schema());
    backed_up_before_the_upgrade(from, setup(&config), "with schema 1").await;
    let version = server.ask(&format!("SELECT version FROM {schema}.toolyard_version"));
    assert_eq!(version.trim(), "1", "a backup upgrades nothing");
}

#[tokio::test]
async fn a_database_of_a_later_release_stops_the_start_and_names_the_way_back() {
    let Some((setup, schema)) = postgres() else { return };
    let server = postgres::shared().expect("runs");
    server.ask(&format!("UPDATE {schema}.toolyard_version SET version = 4711"));
    let (folder, _) = setup.into_parts();
    for (name, args) in [("serve", ["--listen", "127.0.0.1:0"]), ("backup", ["-o", "none"])] {
        let said = ends(&run(name, folder.path(), &args).await, 1, "schema 4711");
        assert!(
            said.contains("use the release that upgraded it") && said.contains("toolyard restore"),
            "{said}"
        );
    }
    let version = server.ask(&format!("SELECT version FROM {schema}.toolyard_version"));
    assert_eq!(version.trim(), "4711", "nothing was changed");
}
