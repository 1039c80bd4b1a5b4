//! The kept bytes of tasks are bounded. A principal at its bound loses its own oldest results, or the host
//! rejects its new tasks; other principals lose nothing.

use crate::authority::both;
use crate::questions::scripted;
use serde_json::{Value, json};
use toolyard_tests::{Session, Setup, until};

const MIB: usize = 1 << 20;
/// How many tasks of one mebibyte fit into the bound of one principal.
const FIT: usize = 4;

fn setup() -> Setup {
    let setup = scripted().principals(&["alice", "bob"]).set("tasks.kept-bytes", "12MiB");
    setup.set("tasks.kept-bytes-per-principal", "5MiB")
}

fn arguments(steps: Value) -> Value {
    json!({"steps": steps, "pad": "x".repeat(MIB)})
}

/// A finished task that keeps one mebibyte.
async fn ended(session: &Session) -> String {
    session.complete("script", arguments(json!([]))).await
}

async fn is_there(session: &Session, id: &str) -> bool {
    let answer = session.request("tasks/get", json!({"taskId": id})).await;
    assert!(answer.get("error").is_none_or(|error| error["code"] == -32602), "{answer}");
    answer.get("error").is_none()
}

#[tokio::test]
async fn over_the_bound_of_a_principal_its_tasks_that_ended_first_go_also_when_a_result_arrives() {
    let host = setup().start().await;
    let (alice, bob) = both(&host).await;
    let bobs = ended(&bob).await;
    let first = ended(&alice).await;
    for _ in 2..FIT * 3 {
        ended(&alice).await;
    }
    let last = ended(&alice).await;
    assert!(!is_there(&alice, &first).await && is_there(&alice, &last).await, "the oldest go");
    assert!(is_there(&bob, &bobs).await, "another principal's task stays");
    assert!(host.log().contains("tasks.kept-bytes-per-principal"), "{}", host.log());
    // Results count when they arrive, even if no task is created at that moment: two mebibytes of arguments leave the
    // last task, and as much in the resulting error does not.
    let fail = json!([{"fail": {"code": -32_001, "message": "as wanted", "data": "x".repeat(2 * MIB)}}]);
    let id = alice.create("script", json!({"steps": fail})).await;
    alice.until(&id, "failed").await;
    until("the one before to go", || async { !is_there(&alice, &last).await }).await;
}

#[tokio::test]
async fn a_principal_of_whom_nothing_has_ended_is_refused_and_nobody_else_is() {
    let host = setup().start().await;
    let (alice, bob) = both(&host).await;
    let bobs = ended(&bob).await;
    let lives = json!([{"sleep": 600_000}]);
    let mut living = Vec::new();
    let call = json!({"name": "script", "arguments": arguments(lives), "task": {}});
    let refused = loop {
        let answer = alice.request("tools/call", call.clone()).await;
        match answer["result"]["task"]["taskId"].as_str() {
            Some(id) => living.push(id.to_owned()),
            None => break answer["error"].clone(),
        }
        assert!(living.len() <= FIT + 1, "they are not bounded");
    };
    assert!(living.len() >= FIT, "{}", living.len());
    let said = refused.to_string();
    assert!(said.contains("Busy") && said.contains("tasks.kept-bytes-per-principal"), "{said}");
    for id in &living {
        assert_eq!(alice.task(id).await["status"], "working", "what lives stays");
    }
    // Her plain calls still work, and so do all calls of others.
    assert_eq!(alice.call("script", json!({"steps": []})).await["isError"], false);
    ended(&bob).await;
    assert!(is_there(&bob, &bobs).await);
    // When one of her tasks has ended, there is room again.
    alice.result("tasks/cancel", json!({"taskId": living[0]})).await;
    let call = json!({"name": "script", "arguments": {"steps": []}, "task": {}});
    until("room for another task", || async {
        alice.request("tools/call", call.clone()).await.get("result").is_some()
    })
    .await;
}

/// At the bound of all principals, the host removes results of the principal that keeps the most.
#[tokio::test]
async fn over_the_bound_of_all_the_largest_principal_gives_way() {
    let host = setup().set("tasks.kept-bytes-per-principal", "100MiB").start().await;
    let (alice, bob) = both(&host).await;
    let bobs = [ended(&bob).await, ended(&bob).await];
    let first = ended(&alice).await;
    for _ in 0..12 {
        ended(&alice).await;
    }
    assert!(!is_there(&alice, &first).await);
    for id in &bobs {
        assert!(is_there(&bob, id).await, "the smaller one loses nothing");
    }
    ended(&bob).await;
}
