//! The database becomes unavailable and available again.

use super::Scene;
use rusqlite::Connection;
use serde_json::json;

/// Row 9: the host acknowledges no success that it has not stored.
#[tokio::test]
async fn while_the_database_is_locked_nothing_is_acknowledged_and_nothing_lost() {
    let scene = Scene::new(None).await;
    scene.sink.hold();
    let id = scene.try_create("once", scene.order("a")).await.expect("a task");
    scene.sink.begun("a", 1).await;
    // The lock covers a part of the run, and its end.
    let other = Connection::open(scene.host.data().join("toolyard.sqlite")).expect("the database");
    other.execute_batch("BEGIN IMMEDIATE").expect("the lock");
    scene.sink.release();
    let call = json!({"name": "once", "arguments": scene.order("b"), "task": {}});
    let refused = scene.session.error("tools/call", call).await;
    assert_eq!(refused["code"], -32603, "{refused}");
    let refused = scene.session.error("tasks/cancel", json!({"taskId": id})).await;
    assert_eq!(refused["code"], -32603, "{refused}");
    toolyard_tests::eventually("the end to be tried", || async {
        scene.host.log().contains("event=\"task.end_not_stored\"").then_some(())
    })
    .await;
    // Reading committed data works throughout.
    assert_eq!(scene.session.task(&id).await["status"], "working", "its end is not stored");
    other.execute_batch("ROLLBACK").expect("the end of the lock");
    scene.session.until(&id, "completed").await;
    assert_eq!(scene.outcome(&id).await["attempt"], 1);
    assert_eq!((scene.begun("a"), scene.begun("b")), (vec![1], vec![]), "what was refused did not run");
}
