//! The audit log of the application (T-43), and the look of a foreign task (T-40, T-23), over a store
//! that can fail.

use crate::kit::faulty::Faulty;
use crate::kit::prelude::*;
use std::collections::BTreeSet;
use toolyard_dispatch::Operation;
use toolyard_dispatch::rules::RuleSpec;

fn subject(name: &str) -> Caller {
    let session = SessionId(format!("session of {name}").into());
    Caller::new(principal(name), Some(session), RawJson::empty_object())
}

fn tools() -> Vec<Arc<dyn Tool>> {
    let waits = |_| std::future::pending();
    vec![tool("quick", |_| async { done("hush") }), tool("wait", waits)]
}

struct House {
    store: Arc<MemoryStore>,
    faulty: Arc<Faulty>,
    dispatch: Arc<Dispatch>,
}

impl House {
    fn new() -> Self {
        let (store, faulty) = faulty(0);
        let dispatch = dispatch(&store, faulty.clone(), tools());
        Self { store, faulty, dispatch }
    }

    /// How many operations on tasks this takes.
    async fn operations<T>(&self, work: impl Future<Output = T>) -> (T, u32) {
        let before = self.faulty.intercept.operations.load(Ordering::SeqCst);
        let done = work.await;
        (done, self.faulty.intercept.operations.load(Ordering::SeqCst) - before)
    }
}

/// T-43: whatever fails, the log has a line for a change if and only if the store has the change: a
/// creation that fails, a read or a commit of the end that fails, a commit whose answer is lost.
#[tokio::test]
async fn t_43_a_line_is_there_if_and_only_if_the_change_is_durable() {
    for (at_creation, spared, failures, unheard) in
        [(1, 0, 0, 0), (0, 0, 1, 0), (0, 1, 1, 0), (0, 0, 3, 0), (0, 0, 0, 1), (0, 1, 1, 1), (0, 0, 0, 0)]
    {
        let house = House::new();
        let faults = &house.faulty.intercept;
        faults.failures.store(at_creation, Ordering::SeqCst);
        let creation = call("quick", true, Arc::new(NoClientChannel));
        let made = house.dispatch.call(&subject("alice"), creation).await;
        assert_eq!(made.is_ok(), at_creation == 0);
        // Nothing runs on this thread before the next wait.
        faults.spared.store(spared, Ordering::SeqCst);
        faults.failures.store(failures, Ordering::SeqCst);
        faults.unheard.store(unheard, Ordering::SeqCst);
        eventually("the run to end", || house.dispatch.load().runs == 0).await;
        let expected: &[&str] = if at_creation == 0 { &["task.created", "task.ended"] } else { &[] };
        let lines = audit_lines(&house.store).await;
        let actions: Vec<_> = lines.iter().map(|line| line["action"].as_str().expect("an action")).collect();
        assert_eq!(actions, expected, "{at_creation} {spared} {failures} {unheard}");
        let left = [&faults.failures, &faults.unheard].map(|left| left.load(Ordering::SeqCst));
        assert_eq!(left, [0, 0], "the fault was met");
    }
}

/// T-40, T-23: no answer, and no amount of work, distinguishes a foreign task from one that never
/// existed; a malformed id gets the same words.
#[tokio::test]
async fn t_23_unknown_foreign_and_malformed_ids_are_answered_alike() {
    let house = House::new();
    let (alice, mallory) = (subject("alice"), subject("mallory"));
    let foreign = create_alone(&house.dispatch, &alice, "quick").await;
    let live = create_alone(&house.dispatch, &alice, "wait").await;
    let unknown = "786512e2-9e0d-44bd-8f29-789f320fe840";
    let told = |fault: Fault| RawJson::of(&fault.rpc()).as_str().to_owned();
    let mut answers = BTreeSet::new();
    let mut work = BTreeSet::new();
    for id in [unknown, &foreign, &live, "x", ""] {
        let dispatch = &house.dispatch;
        let tasks = tasks_of(dispatch).await;
        let got = house.operations(tasks.task(&mallory, id)).await;
        let result = house.operations(tasks.task_result(&mallory, id, Arc::new(NoClientChannel))).await;
        let cancelled = house.operations(tasks.cancel_task(&mallory, id)).await;
        answers.insert(told(got.0.expect_err("is not hers")));
        answers.insert(told(result.0.expect_err("is not hers")));
        answers.insert(told(cancelled.0.expect_err("is not hers")));
        let request = format!("{id}.{}", "0".repeat(32));
        let answered = dispatch.take_response(&mallory, &request, Ok(RawJson::empty_object()));
        let answered = house.operations(answered).await;
        answered.0.expect("is ignored");
        if id.len() > 1 {
            work.insert([got.1, result.1, cancelled.1, answered.1]);
        }
    }
    assert_eq!(answers.len(), 1, "{answers:?}");
    assert_eq!(work, BTreeSet::from([[1, 1, 1, 1]]), "operations of get, result, cancel and response");
    // Each attempt is in the log with its principal; text that is not an id is not in the log.
    let lines = audit_lines(&house.store).await;
    let unknown: Vec<_> = lines.iter().filter(|line| line["action"] == "task.unknown").collect();
    assert_eq!(unknown.len(), 4 * 3 + 2 * 3);
    assert!(unknown.iter().all(|line| line["principal"] == "https://idp.example#mallory"));
    // An anonymous caller without a session sees nothing either; only the operator sees everything.
    let tasks = tasks_of(&house.dispatch).await;
    assert!(matches!(tasks.task(&anonymous(None), &live).await, Err(Fault::UnknownTask)));
    for caller in [&alice, &Caller::operator()] {
        assert!(tasks.task(caller, &live).await.is_ok_and(|task| task.is_live()), "nothing was cancelled");
    }
}

#[tokio::test]
async fn t_43_what_was_refused_is_noted_with_who_and_why() {
    let house = House::new();
    let alice = subject("alice");
    let rules = serde_json::json!([
        {"name": "no-deploys", "effect": "deny", "tools": ["deploy"]},
        {"effect": "allow", "tools": ["quick"], "arguments": {"/x": "1"}},
        {"effect": "allow", "resources": ["file:*"], "scopes": ["files"]},
    ]);
    let rules: Vec<RuleSpec> = serde_json::from_value(rules).expect("rules");
    let once = "1/h".parse().ok();
    let rates = Rates { polling: once, failed_lookups: once, ..Rates::default() };
    house.dispatch.enforce(Policy::new(AccessRules::new(rules).expect("valid"), &rates));
    for name in ["deploy", "wait", "quick"] {
        let denied = house.dispatch.call(&alice, plain_call(name)).await;
        assert!(denied.is_err(), "{name}");
    }
    assert!(house.dispatch.check_subscribe(&alice, "file:///x").is_err());
    let key = RateKey::of(&alice.principal, None);
    for operation in [Operation::Polling, Operation::FailedLookup] {
        let passed = (0..5).filter(|_| house.dispatch.access().count_operation(&key, operation).is_ok());
        assert_eq!(passed.count(), 1);
    }
    house.dispatch.access().note_unauthenticated("the token has expired");
    let mut lines = audit_lines(&house.store).await;
    for line in &mut lines {
        let members = line.as_object_mut().expect("an object");
        assert!(members.remove("id").is_some() && members.remove("at").is_some());
        members.remove("session");
    }
    let alices = "https://idp.example#alice";
    let expected = serde_json::json!([
        {"action": "denied.rule", "principal": alices, "tool": "deploy", "reason": "a rule denies it", "rule": "no-deploys"},
        {"action": "denied.rule", "principal": alices, "tool": "wait", "reason": "no rule allows it"},
        {"action": "denied.rule", "principal": alices, "tool": "quick", "reason": "no rule allows it"},
        {"action": "denied.scope", "principal": alices, "resource": "file:///x", "reason": "needs the scope files"},
        {"action": "limited.polling", "principal": alices, "reason": "rates.polling"},
        {"action": "limited.lookups", "principal": alices, "reason": "rates.failed-lookups"},
        {"action": "denied.authentication", "principal": "unknown", "reason": "the token has expired"},
    ]);
    assert_eq!(Value::from(lines), expected);
}
