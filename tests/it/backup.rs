//! `toolyard backup` and `toolyard restore`, for both stores.

mod interrupted;
mod refusals;

use serde_json::json;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use tempfile::TempDir;
use toolyard_tests::host::{run, write_private};
use toolyard_tests::{Host, Setup, ends, eventually, guests, postgres, succeeds, until};

/// Concurrent clients that create tasks.
const CLIENTS: usize = 4;
/// The number of acknowledged tasks before the backup begins.
const BEFORE: usize = 60;

/// A setup of the probe, with these lines in its configuration file.
fn setup(config: &str) -> Setup {
    Setup::probe().manifest("probe", "[tools.echo]\ntask-support = \"optional\"\n").config(config)
}

/// The configuration of a host with a new schema on the shared server; `None` if there is no server.
fn postgres() -> Option<String> {
    let server = postgres::shared()?;
    let (address, schema) = (server.address(), server.schema());
    Some(format!("store = \"{address}\"\n[cluster]\nschema = \"{schema}\"\nlease = \"4s\"\n"))
}

/// The folder of a host that has not started.
struct Target {
    folder: Arc<TempDir>,
    args: Vec<String>,
}

impl Target {
    fn new(setup: Setup) -> Self {
        let (folder, args) = setup.into_parts();
        Self { folder: Arc::new(folder), args }
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    async fn restore(&self, file: &Path) -> Output {
        run("restore", self.folder.path(), &[file.to_str().expect("a plain name")]).await
    }

    /// Restores the file, and starts a host.
    async fn start_from(&self, file: &Path) -> Host {
        ends(&self.restore(file).await, 0, "restored a ");
        Host::on(self.folder.clone(), self.args.clone()).await
    }
}

async fn back_up(host: &Host) -> PathBuf {
    let said = ends(&host.command(&["backup", "-o", "store.backup"]).await, 0, "");
    assert!(!said.contains("audit log does not"), "{said}");
    host.folder().join("store.backup")
}

/// Clients create tasks while the backup is made. No call fails meanwhile, and the restored host has each task
/// that was acknowledged before. A chaos run shows the same of SQLite.
#[tokio::test]
async fn a_backup_of_a_database_under_load_holds_every_acknowledged_task() {
    let (Some(from), Some(to)) = (postgres(), postgres()) else { return };
    let (host, session) = setup(&from).open().await;
    let (acknowledged, stop) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicBool::new(false)));
    let clients: Vec<_> = (0..CLIENTS)
        .map(|client| {
            let (session, acknowledged, stop) = (session.at(host.port()), acknowledged.clone(), stop.clone());
            tokio::spawn(async move {
                let mut number = 0;
                while !stop.load(Ordering::Relaxed) {
                    let text = format!("{client}-{number}");
                    let id = session.create("echo", json!({"text": text})).await;
                    acknowledged.lock().expect("no panic").push((id, text));
                    number += 1;
                }
            })
        })
        .collect();
    let so_far = || acknowledged.lock().expect("no panic").clone();
    until("enough tasks", || async { so_far().len() >= BEFORE }).await;
    let before = so_far();
    let completed = session.complete("echo", json!({"text": "completed"})).await;
    let file = back_up(&host).await;
    let after = so_far().len();
    stop.store(true, Ordering::Relaxed);
    for client in clients {
        client.await.expect("every call is answered");
    }
    assert!(after > before.len(), "clients went on during the backup");
    assert_eq!(std::fs::metadata(&file).expect("is there").permissions().mode() & 0o777, 0o600);
    let target = Target::new(setup(&to));
    let restored = target.start_from(&file).await;
    // The session is there as well.
    let elsewhere = session.at(restored.port());
    let state = elsewhere.task(&completed).await;
    assert_eq!(state, session.task(&completed).await);
    for (id, text) in &before {
        let task = eventually("it has ended", async || {
            let task = elsewhere.task(id).await;
            (task["status"] != "working").then_some(task)
        });
        // The host of the backup may have died, for the copy, in the middle of the run.
        if task.await["status"] == "completed" {
            let result = elsewhere.result("tasks/result", json!({"taskId": id})).await;
            assert_eq!(result["content"][0]["text"], text.as_str());
        }
    }
    assert_eq!(elsewhere.task(&before[0].0).await["status"], "completed", "it had ended before");
    elsewhere.complete("echo", json!({"text": "new"})).await;
}

/// Values stay encrypted in the file, and a restore needs the key.
async fn stays_encrypted(from: &str, to: &str) {
    const WORD: &str = "geheimwort";
    let keys = "\n[encryption]\nkey-file = \"keys\"\n";
    let write_key = |folder: &Path, digits: &str| write_private(&folder.join("keys"), &digits.repeat(32));
    let from = setup(&format!("{from}{keys}"));
    write_key(from.folder(), "11");
    let (host, session) = from.open().await;
    let id = session.complete("echo", json!({"text": WORD})).await;
    let file = back_up(&host).await;
    let bytes = std::fs::read(&file).expect("reads");
    assert!(!bytes.windows(WORD.len()).any(|window| window == WORD.as_bytes()));
    let target = Target::new(setup(&format!("{to}{keys}")));
    write_key(target.folder.path(), "22");
    ends(&target.restore(&file).await, 1, "encrypted with the key");
    write_key(target.folder.path(), "11");
    let restored = target.start_from(&file).await;
    let result = session.at(restored.port()).result("tasks/result", json!({"taskId": id})).await;
    assert_eq!(result["content"][0]["text"], WORD);
}

#[tokio::test]
async fn an_encrypted_store_stays_encrypted_in_the_file() {
    stays_encrypted("", "").await;
    let (Some(from), Some(to)) = (postgres(), postgres()) else { return };
    stays_encrypted(&from, &to).await;
}

#[tokio::test]
async fn a_backup_goes_to_stdout_replaces_no_file_unless_forced_and_has_the_owners_of_tool_names() {
    let (host, _session) = setup("").open().await;
    let piped = host.command(&["backup", "-o", "-"]).await;
    succeeds(&piped);
    let file = host.folder().join("piped");
    std::fs::write(&file, &piped.stdout).expect("writes");
    let refused = host.command(&["backup", "-o", "piped"]).await;
    ends(&refused, 1, "--force");
    assert!(refused.stdout.is_empty() && std::fs::read(&file).expect("reads") == piped.stdout, "as it was");
    host.prints(&["backup", "-o", "piped", "--force"]).await;
    assert!(std::fs::read(&file).expect("reads") != piped.stdout);
    let names = |data: &Path| {
        let files = std::fs::read_dir(data.join("names")).expect("a folder").flatten();
        let names =
            files.map(|file| file.path()).filter(|path| path.extension().is_some_and(|end| end == "json"));
        names.map(|path| std::fs::read(path).expect("reads")).collect::<Vec<_>>()
    };
    std::fs::write(&file, &piped.stdout).expect("writes");
    let target = Target::new(setup(""));
    succeeds(&target.restore(&file).await);
    assert!(!names(&host.data()).is_empty());
    assert_eq!(names(&host.data()), names(&target.data()));
    // Both actions are in an audit log.
    for (data, action) in [(host.data(), "backup.written"), (target.data(), "backup.restored")] {
        let log = std::fs::read_to_string(data.join("audit.jsonl")).expect("an audit log");
        assert!(log.contains(action), "{log}");
    }
    // Nothing else was left in the folders.
    let left = |folder: PathBuf| std::fs::read_dir(folder).expect("reads").flatten().map(|of| of.file_name());
    for name in left(host.folder().to_owned()).chain(left(target.data())) {
        assert!(!name.to_string_lossy().starts_with(".toolyard-"), "{name:?}");
    }
}

/// Backups are kept for years. The sample is of the first format, with one ended task of an anonymous session.
#[tokio::test]
async fn a_backup_of_the_first_format_is_restored_with_all_that_is_in_it() {
    let sample = guests::root().join("tests/formats/backup-1.gz");
    let unpacked = std::process::Command::new("gzip").arg("-dc").arg(sample).output().expect("gzip runs");
    let target = Target::new(setup(""));
    let file = target.folder.path().join("sample.backup");
    std::fs::write(&file, &unpacked.stdout).expect("writes");
    let host = target.start_from(&file).await;
    let listed = host.prints(&["tasks", "list"]).await;
    let row = listed.lines().find(|line| line.contains("c4cbeb05-ad5b-4186-bd61-54cb6d7c55c6"));
    assert!(row.is_some_and(|row| row.contains("completed") && row.contains("wait")), "{listed}");
    let shown = host.prints(&["tasks", "show", "c4cbeb05-ad5b-4186-bd61-54cb6d7c55c6"]).await;
    assert!(shown.contains("{\"ms\":10}") && shown.contains("3153600000000"), "{shown}");
}
