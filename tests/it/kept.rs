//! The kept bytes of tasks are bounded. A principal at its bound loses its own oldest results, or the host
//! rejects its new tasks; other principals lose nothing.

use serde_json::{Value, json};
use toolyard_tests::{Host, Session, Setup, eventually, guests, until};

const MIB: usize = 1 << 20;
/// How many tasks of one mebibyte fit into the bound of one principal.
const FIT: usize = 4;

fn setup() -> Setup {
    Setup::new()
        .with(&[guests::fixture("script")])
        .principals(&["alice", "bob"])
        .set("tasks.kept-bytes-per-principal", "5MiB")
        .set("tasks.kept-bytes", "12MiB")
}

async fn of(host: &Host, name: &str) -> Session {
    host.session_of(name).await
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
    match answer.get("error") {
        None => true,
        Some(error) => {
            assert_eq!(error["code"], -32602, "{error}");
            false
        }
    }
}

#[tokio::test]
async fn over_the_bound_of_a_principal_its_tasks_that_ended_first_go() {
    let host = setup().start().await;
    let (alice, bob) = (of(&host, "alice").await, of(&host, "bob").await);
    let bobs = ended(&bob).await;
    let first = ended(&alice).await;
    for _ in 2..FIT * 3 {
        ended(&alice).await;
    }
    let last = ended(&alice).await;
    assert!(!is_there(&alice, &first).await && is_there(&alice, &last).await, "the oldest go");
    assert!(is_there(&bob, &bobs).await, "another principal's task stays");
    assert!(host.log().contains("tasks.kept-bytes-per-principal"), "{}", host.log());
}

/// Results count when they arrive, even if no task is created at that moment.
#[tokio::test]
async fn results_that_come_to_too_much_take_those_before_them_along() {
    let host = setup().start().await;
    let alice = of(&host, "alice").await;
    let first = ended(&alice).await;
    // Two mebibytes of arguments, and as much in the resulting error.
    let fail = json!([{"fail": {"code": -32_001, "message": "as wanted", "data": "x".repeat(2 * MIB)}}]);
    let id = alice.create("script", json!({"steps": fail})).await;
    alice.until(&id, "failed").await;
    until("the one before to go", || async { !is_there(&alice, &first).await }).await;
}

#[tokio::test]
async fn a_principal_of_whom_nothing_has_ended_is_refused_and_nobody_else_is() {
    let host = setup().start().await;
    let (alice, bob) = (of(&host, "alice").await, of(&host, "bob").await);
    let bobs = ended(&bob).await;
    let lives = json!([{"sleep": 600_000}]);
    let mut living = Vec::new();
    let refused = loop {
        let params = json!({"name": "script", "arguments": arguments(lives.clone()), "task": {}});
        let answer = alice.request("tools/call", params).await;
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
    eventually("room for another task", || async {
        let params = json!({"name": "script", "arguments": {"steps": []}, "task": {}});
        alice.request("tools/call", params).await.get("result").cloned()
    })
    .await;
}

/// At the bound of all principals, the host removes results of the principal that keeps the most.
#[tokio::test]
async fn over_the_bound_of_all_the_largest_principal_gives_way() {
    let host = setup().set("tasks.kept-bytes-per-principal", "100MiB").start().await;
    let (alice, bob) = (of(&host, "alice").await, of(&host, "bob").await);
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
