//! State that survives a restart, a crash, and another host on the same folder.

use crate::say;
use rustix::process::Signal;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use toolyard_tests::host::Setup;
use toolyard_tests::{Host, Session, eventually, guests};

/// H-26: the store holds sessions as well as tasks, so neither depends on the other.
#[tokio::test]
async fn a_restart_loses_neither_session_nor_task() {
    let mut host = Host::with_probe().await;
    let session = Session::open(host.port()).await;
    let done = session.create("wait", json!({"ms": 1})).await;
    session.until(&done, "completed").await;
    let result = session.result("tasks/result", json!({"taskId": done})).await;
    let cancelled = session.create("wait", json!({"ms": 600_000})).await;
    session.result("tasks/cancel", json!({"taskId": cancelled})).await;
    let live = session.create("wait", json!({"ms": 600_000})).await;
    host.kill().await;
    let host = host.another().await;
    let session = session.at(host.port());
    assert_eq!(session.result("tasks/result", json!({"taskId": done})).await, result);
    assert_eq!(session.task(&cancelled).await["status"], "cancelled");
    let orphan = session.task(&live).await;
    assert_eq!(orphan["status"], "failed");
    let message = orphan["statusMessage"].as_str().expect("a message");
    assert!(message.contains("host") && message.contains("may have had effects"), "{message}");
    assert_eq!(session.error("tasks/result", json!({"taskId": live})).await["code"], -32603);
    assert_eq!(session.result("tasks/list", json!({})).await["tasks"].as_array().expect("tasks").len(), 3);
    // The session continues as before.
    let again = session.create("wait", json!({"ms": 1})).await;
    session.until(&again, "completed").await;
}

#[tokio::test]
async fn an_orderly_stop_waits_for_runs_then_ends_or_hands_over_what_is_left() {
    let setup = Setup::new().with(&[guests::plugin("probe")]).set("shutdown.drain", "4s");
    let mut host = setup.set("calls.running-per-principal", "2").start().await;
    let session = Session::open(host.port()).await;
    let quick = session.create("wait", json!({"ms": 700})).await;
    let long = session.create("spin", json!({"ms": 600_000})).await;
    let waiting = session.create("wait", json!({"ms": 1})).await;
    host.signal(Signal::TERM);
    let status = host.ended().await;
    assert_eq!(status.code(), Some(1), "something was cut");
    let host = host.another().await;
    let session = session.at(host.port());
    assert_eq!(session.task(&quick).await["status"], "completed", "it was let finish");
    let cut = session.task(&long).await;
    assert_eq!(cut["status"], "failed");
    let message = cut["statusMessage"].as_str().expect("a message");
    assert!(message.contains("was shut down") && message.contains("may have had effects"), "{message}");
    // It had not started, so the next host runs it.
    session.until(&waiting, "completed").await;
}

/// A5: the operator decides that, not the guest; and the run knows the number of its attempt.
#[tokio::test]
async fn a_task_of_a_tool_that_may_be_run_again_is_run_again() {
    let declared = [
        "[task]\ndurability = \"rerun\"\n",
        "[tools.wait]\ndurability = \"rerun\"\n",
        "[tools.wait]\nannotations = { idempotentHint = true }\n",
    ];
    for manifest in declared {
        let mut host =
            Setup::new().with(&[guests::plugin("probe")]).manifest("probe", manifest).start().await;
        let session = Session::open(host.port()).await;
        let id = session.create("wait", json!({"ms": 1500})).await;
        let attempt = async |host: &Host| {
            let shown = host.command(&["tasks", "show", &id, "--json"]).await.stdout;
            serde_json::from_slice::<Value>(&shown).expect("JSON")["attempt"].clone()
        };
        assert_eq!(attempt(&host).await, 1);
        host.kill().await;
        // No client asks for it: the next host starts the run by itself.
        let host = host.another().await;
        let taken = || async { host.log().contains("event=\"task.recovered\"").then_some(()) };
        eventually("the task to be taken over", taken).await;
        let session = session.at(host.port());
        session.until(&id, "completed").await;
        assert_eq!(attempt(&host).await, 2, "{manifest}");
    }
}

#[tokio::test]
async fn a_second_signal_ends_at_once() {
    let mut host = Setup::new().with(&[guests::plugin("probe")]).set("shutdown.drain", "10min").start().await;
    let session = Session::open(host.port()).await;
    session.create("wait", json!({"ms": 600_000})).await;
    host.signal(Signal::INT);
    eventually("the drain to begin", || async {
        host.log().contains("event=\"shutdown.draining\"").then_some(())
    })
    .await;
    host.signal(Signal::INT);
    assert_eq!(host.ended().await.code(), Some(130));
}

#[tokio::test]
async fn a_cancel_from_another_process_stops_the_guest() {
    let host = Host::with_probe().await;
    let session = Session::open(host.port()).await;
    let id = session.create("spin", json!({"ms": 600_000})).await;
    let waiting = session.error("tasks/result", json!({"taskId": id}));
    let cancelling = async {
        let done = host.command(&["tasks", "cancel", &id]).await;
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        std::time::Instant::now()
    };
    let (woken, acknowledged) = tokio::join!(waiting, cancelling);
    assert_eq!(woken["code"], -32603);
    assert_eq!(session.task(&id).await["status"], "cancelled");
    // The run releases its slot when its guest is gone.
    eventually("the guest to be stopped", || async {
        host.log().contains("event=\"run.stopped\"").then_some(())
    })
    .await;
    say(&format!("woken {} ms after the acknowledgement", acknowledged.elapsed().as_millis()));
}

#[tokio::test]
async fn two_hosts_on_one_folder_leave_each_other_alone() {
    let first = Host::with_probe().await;
    let session = Session::open(first.port()).await;
    let id = session.create("wait", json!({"ms": 600_000})).await;
    let mut second = first.another().await;
    let beside = session.at(second.port());
    assert_eq!(beside.task(&id).await["status"], "working");
    let theirs = beside.create("wait", json!({"ms": 600_000})).await;
    assert_eq!(session.task(&theirs).await["status"], "working");
    second.kill().await;
    let ended = session.until(&theirs, "failed").await;
    assert!(ended["statusMessage"].as_str().expect("a message").contains("host"));
    assert_eq!(session.task(&id).await["status"], "working");
}

#[tokio::test]
async fn an_unusable_data_folder_stops_the_start_and_says_why() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("data");
    let start = |data: std::path::PathBuf| {
        tokio::process::Command::new(guests::binary())
            .args(["serve", "--listen", "127.0.0.1:0", "--plugins", "plugins", "--data"])
            .arg(data)
            .current_dir(folder.path())
            .output()
    };
    std::fs::write(&file, "a file").expect("a write");
    let output = start(file.clone()).await.expect("it runs");
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("data folder"));
    std::fs::remove_file(&file).expect("a removal");
    std::fs::create_dir(&file).expect("a folder");
    let database = file.join("toolyard.sqlite");
    std::fs::write(&database, "this is not a database, and it is long enough to be told from one")
        .expect("a write");
    let output = start(file).await.expect("it runs");
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("data folder") && said.contains("database"), "{said}");
    let kept = std::fs::read_to_string(database).expect("still there");
    assert!(kept.starts_with("this is not"), "it was left as it was");
}

/// The ledger of what the host has acknowledged.
#[derive(Default)]
struct Ledger {
    created: Vec<String>,
    finished: HashMap<String, Value>,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kill_9_twenty_times_under_load_loses_no_acknowledged_task() {
    const KILLS: usize = 20;
    const EACH: usize = 100;
    let setup = Setup::new().with(&[guests::plugin("probe")]).set("calls.running-per-principal", "300");
    let mut host = setup.set("calls.running", "600").start().await;
    let session = Session::open(host.port()).await;
    let mut before = Ledger::default();
    for kill in 1..=KILLS {
        let ledger = Arc::new(Mutex::new(Ledger::default()));
        let stop = Arc::new(AtomicBool::new(false));
        let mut workers = tokio::task::JoinSet::new();
        for worker in 0..8_usize {
            let (session, ledger, stop) = (session.at(host.port()), ledger.clone(), stop.clone());
            workers.spawn(async move { work(&session, worker, kill, &ledger, &stop).await });
        }
        let count = || {
            let ledger = ledger.lock().expect("ledger");
            (ledger.created.len() - ledger.finished.len(), ledger.finished.len())
        };
        eventually("enough live and finished tasks", || async {
            let (live, finished) = count();
            (live >= EACH && finished >= EACH).then_some(())
        })
        .await;
        stop.store(true, Ordering::SeqCst);
        let (live, finished) = count();
        host.kill().await;
        while workers.join_next().await.is_some() {}
        say(&format!("kill {kill} of {KILLS}: {live} live, {finished} finished tasks"));
        assert!(live >= EACH && finished >= EACH);

        host = host.another().await;
        let session = session.at(host.port());
        let ledger = std::mem::take(&mut *ledger.lock().expect("ledger"));
        for (id, result) in &ledger.finished {
            assert_eq!(session.result("tasks/result", json!({"taskId": id})).await, *result);
        }
        for id in &ledger.created {
            let status = session.task(id).await["status"].as_str().expect("a status").to_owned();
            let settled = matches!(status.as_str(), "completed" | "failed" | "cancelled");
            assert!(settled, "{id} is {status} though its host is dead");
            assert!(!ledger.finished.contains_key(id) || status == "completed");
        }
        // The results of earlier rounds are unchanged.
        for (id, result) in before.finished.iter().take(10) {
            assert_eq!(session.result("tasks/result", json!({"taskId": id})).await, *result);
        }
        before = ledger;
    }
}

/// Creates quick and slow tasks until the host dies; records what it has acknowledged.
async fn work(session: &Session, worker: usize, kill: usize, ledger: &Mutex<Ledger>, stop: &AtomicBool) {
    for n in 0.. {
        if stop.load(Ordering::SeqCst) {
            return;
        }
        let slow = n % 2 == 0 && n / 2 < 25;
        let id = ((kill * 100 + worker) * 100_000 + n * 2) as i64;
        let ms = if slow { 600_000 } else { 1 };
        let create = json!({"name": "wait", "arguments": {"ms": ms}, "task": {}});
        let Some(created) = session.try_request(id, "tools/call", create).await else { return };
        let Some(task) = created["result"]["task"]["taskId"].as_str().map(str::to_owned) else { continue };
        ledger.lock().expect("ledger").created.push(task.clone());
        if slow {
            continue;
        }
        let Some(result) = session.try_request(id + 1, "tasks/result", json!({"taskId": task})).await else {
            return;
        };
        ledger.lock().expect("ledger").finished.insert(task, result["result"].clone());
    }
}
