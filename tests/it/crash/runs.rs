//! Crashes around the creation, the run, the end and the cancellation of a task.

use super::Scene;
use rustix::process::Signal;
use serde_json::json;
use toolyard_tests::{Host, Setup, eventually};

/// Row 1: nothing ran.
#[tokio::test]
async fn before_a_create_commits_there_is_nothing() {
    for fail_at in ["create.before", "create.uncommitted"] {
        for tool in ["once", "again"] {
            let mut scene = Scene::new(Some(fail_at)).await;
            let created = scene.try_create(tool, scene.order("a")).await;
            assert_eq!(created, None, "{fail_at}: the client sees that there was no answer");
            scene.restart().await;
            assert_eq!(scene.tasks().await, Vec::<String>::new(), "{fail_at}");
            let id = scene.try_create(tool, scene.order("b")).await.expect("a task");
            scene.session.until(&id, "completed").await;
            assert_eq!((scene.begun("a"), scene.begun("b")), (vec![], vec![1]), "{fail_at}: nothing ran");
        }
    }
}

/// Row 2: at most one run; a client that retries gets a second task.
#[tokio::test]
async fn after_a_create_the_task_is_there_whether_its_client_knows_or_not() {
    for (tool, runs) in [("once", vec![]), ("again", vec![2])] {
        let mut scene = Scene::new(Some("create.committed")).await;
        assert_eq!(scene.try_create(tool, scene.order("a")).await, None);
        assert_eq!(scene.begun("a"), Vec::<u32>::new(), "the guest had not begun");
        scene.restart().await;
        let [id] = &scene.tasks().await[..] else { panic!("one task") };
        scene.ended(tool, id).await;
        assert_eq!(scene.begun("a"), runs, "{tool}");
        let second = scene.try_create(tool, scene.order("b")).await.expect("a task");
        assert_ne!(second, *id);
        scene.session.until(&second, "completed").await;
        assert_eq!((scene.begun("a"), scene.begun("b")), (runs, vec![1]));
    }
}

/// Row 3: at most one run, and the failure says so; or a repeated run.
#[tokio::test]
async fn a_run_that_was_cut_off_is_not_repeated_unless_it_may_be() {
    for (tool, declared) in [("once", false), ("again", true), ("again", false)] {
        let mut scene = Scene::new(None).await;
        scene.sink.hold();
        let mut order = scene.order("a");
        order["declared"] = json!(declared);
        let id = scene.try_create(tool, order).await.expect("a task");
        scene.sink.begun("a", 1).await;
        scene.kill().await;
        if tool == "again" && !declared {
            assert_eq!(scene.sink.begun("a", 2).await.begun, [1, 2], "A5: again, as another attempt");
            scene.sink.release();
            assert_eq!(scene.outcome(&id).await["attempt"], 2);
            assert_eq!(scene.begun("a"), [1, 2]);
        } else {
            // A run that has declared `effects` is not repeated either.
            scene.failed_honestly(&id).await;
            assert_eq!(scene.begun("a"), [1], "A5");
        }
    }
}

/// Row 3, between the commit of `Started` and the guest, for a task that was queued.
#[tokio::test]
async fn a_start_that_was_written_down_counts_as_one() {
    for tool in ["once", "again"] {
        let one_at_a_time = |setup: Setup| setup.set("calls.running-per-principal", "1");
        let mut scene = Scene::with(Some("start.committed"), one_at_a_time).await;
        let first = scene.try_create("once", json!({"key": "first", "ms": 600_000})).await.expect("a task");
        let id = scene.try_create(tool, scene.order("a")).await.expect("a task");
        let message = scene.session.task(&id).await["statusMessage"].to_string();
        assert!(message.contains("Waiting"), "{message}");
        let cancel = scene.session.try_request(900, "tasks/cancel", json!({"taskId": first}));
        // An answer need not arrive: the cancel lets the next task start, which kills the host.
        drop(cancel.await);
        scene.restart().await;
        assert_eq!(scene.session.task(&first).await["status"], "cancelled");
        scene.ended(tool, &id).await;
        assert_eq!(scene.begun("a"), if tool == "once" { vec![] } else { vec![2] });
    }
}

/// A queued task has not run yet, so it runs after the restart, whatever its durability.
#[tokio::test]
async fn what_had_not_begun_runs_after_the_restart() {
    let mut scene = Scene::with(None, |setup| setup.set("calls.running-per-principal", "1")).await;
    let first = scene.try_create("once", json!({"key": "first", "ms": 600_000})).await.expect("a task");
    let waiting = scene.try_create("once", scene.order("a")).await.expect("a task");
    scene.kill().await;
    assert_eq!(scene.outcome(&waiting).await["attempt"], 1);
    assert_eq!(scene.begun("a"), [1]);
    scene.failed_honestly(&first).await;
}

/// Row 4: the result is lost, but the effects remain.
#[tokio::test]
async fn an_end_that_was_not_committed_is_none() {
    for fail_at in ["finish.before", "finish.uncommitted"] {
        for (tool, begun) in [("once", &[1][..]), ("again", &[1, 2])] {
            let mut scene = Scene::new(Some(fail_at)).await;
            let id = scene.try_create(tool, scene.order("a")).await;
            scene.restart().await;
            // The task may have ended, which killed the host, before the answer to the call was sent.
            let id = scene.known(id).await;
            scene.ended(tool, &id).await;
            assert_eq!(scene.begun("a"), begun, "{fail_at}");
        }
    }
}

/// Row 5: clients see the end within a second, even those that wait on another process.
#[tokio::test]
async fn an_end_that_was_committed_is_seen_though_nobody_was_told() {
    for tool in ["once", "again"] {
        let mut scene = Scene::new(Some("finish.committed")).await;
        let beside = scene.host.another().await;
        scene.sink.hold();
        let id = scene.try_create(tool, scene.order("a")).await.expect("a task");
        let there = scene.session.at(beside.port());
        let (told, ()) = tokio::join!(there.result("tasks/result", json!({"taskId": id})), async {
            scene.sink.begun("a", 1).await;
            scene.sink.release();
            scene.host.was_killed().await;
        });
        scene.move_to(scene.host.another().await);
        assert_eq!(scene.session.result("tasks/result", json!({"taskId": id})).await, told);
        assert_eq!(scene.outcome(&id).await["attempt"], 1);
        assert_eq!(scene.begun("a"), [1], "a finished task does not run again");
    }
}

/// Row 6: a committed cancel is final at once.
#[tokio::test]
async fn a_cancel_that_was_committed_holds_though_nobody_was_told() {
    for tool in ["once", "again"] {
        let mut scene = Scene::new(Some("cancel.committed")).await;
        scene.sink.hold();
        let id = scene.try_create(tool, scene.order("a")).await.expect("a task");
        scene.sink.begun("a", 1).await;
        let cancel = scene.session.try_request(900, "tasks/cancel", json!({"taskId": id})).await;
        assert_eq!(cancel, None);
        scene.restart().await;
        scene.sink.release();
        let task = scene.session.task(&id).await;
        assert_eq!(task["status"], "cancelled");
        // By then a run of another task has ended, and nothing has changed this one.
        let other = scene.try_create("once", scene.order("b")).await.expect("a task");
        scene.session.until(&other, "completed").await;
        assert_eq!(scene.session.task(&id).await, task, "A2: cancelled for ever");
        assert_eq!(scene.begun("a"), [1], "{tool}: and not run again");
    }
}

/// Row 6, where the cancelling host dies and the running host lives.
#[tokio::test]
async fn a_cancel_reaches_the_runner_though_its_messenger_died() {
    let scene = Scene::new(None).await;
    let mut beside = scene.host.another_to_fail_at("cancel.committed").await;
    scene.sink.hold();
    let id = scene.try_create("once", scene.order("a")).await.expect("a task");
    scene.sink.begun("a", 1).await;
    let there = scene.session.at(beside.port());
    assert_eq!(there.try_request(900, "tasks/cancel", json!({"taskId": id})).await, None);
    beside.was_killed().await;
    assert_eq!(scene.session.task(&id).await["status"], "cancelled");
    scene.host.logs("event=\"run.stopped\"").await;
    scene.sink.release();
    assert_eq!(scene.session.task(&id).await["status"], "cancelled");
}

/// A4: the host is paused with a finished result, and resumes after another host has settled the task.
#[tokio::test]
async fn an_end_that_comes_late_from_a_host_that_was_stopped_changes_nothing() {
    let (scene, beside, id) = stopped_before_its_end().await;
    let there = scene.session.at(beside.port());
    assert_eq!(there.task(&id).await["status"], "working", "it lives, and no host takes its task");
    there.result("tasks/cancel", json!({"taskId": id})).await;
    let cancelled = there.task(&id).await;
    scene.host.signal(Signal::CONT);
    scene.host.logs("a late result was dropped").await;
    assert_eq!(cancelled["status"], "cancelled");
    assert_eq!((scene.session.task(&id).await, there.task(&id).await), (cancelled.clone(), cancelled));
    assert_eq!(scene.begun("a"), [1]);
}

/// A host that has paused before it stored the end of its task, a second host on the same folder, and the
/// task.
async fn stopped_before_its_end() -> (Scene, Host, String) {
    eventually("a host to be stopped outside of a transaction", || async {
        let telling = |setup: Setup| setup.variable("TOOLYARD_LOG", "info,toolyard_dispatch=debug");
        let scene = Scene::with(Some("finish.before:stop"), telling).await;
        let beside = scene.host.another().await;
        scene.sink.hold();
        let id = scene.try_create("once", scene.order("a")).await.expect("a task");
        scene.sink.begun("a", 1).await;
        scene.sink.release();
        scene.until_stopped().await;
        // The paused writer may hold a transaction, which locks out all other writers.
        let database = rusqlite::Connection::open(scene.host.data().join("toolyard.sqlite"));
        let free = database.expect("the database").execute_batch("BEGIN IMMEDIATE; ROLLBACK").is_ok();
        free.then_some((scene, beside, id))
    })
    .await
}

/// A host that is killed while it drains loses no more than one that is killed at any other time.
#[tokio::test]
async fn a_drain_that_was_cut_off_loses_nothing() {
    let mut scene = Scene::new(Some("drain.begun")).await;
    scene.sink.hold();
    let once = scene.try_create("once", scene.order("a")).await.expect("a task");
    let again = scene.try_create("again", scene.order("b")).await.expect("a task");
    scene.sink.begun("a", 1).await;
    scene.sink.begun("b", 1).await;
    scene.host.signal(Signal::TERM);
    scene.restart().await;
    scene.failed_honestly(&once).await;
    scene.sink.release();
    assert_eq!(scene.outcome(&again).await["attempt"], 2);
    assert_eq!((scene.begun("a"), scene.begun("b")), (vec![1], vec![1, 2]));
}
