//! Calls that the operator wants confirmed: nothing runs before an approval, in any way of calling.

use crate::bridge::stage::{Stage, hand_off, plain};
use crate::kit::prelude::*;
use crate::kit::stateless;
use toolyard_dispatch::{ApprovalDecision, TaskSupport};
use toolyard_kit::Native;
use toolyard_task::approval::ConfirmBy;

/// The tool `deploy`, and how often it ran.
#[derive(Default, Clone)]
struct Deploys(Arc<AtomicU32>);

impl Deploys {
    fn tool(&self, native: Native) -> Arc<dyn Tool> {
        native.runs_sharing(&self.0, |runs, _| async move {
            runs.fetch_add(1, Ordering::SeqCst);
            done("deployed")
        })
    }

    fn confirmed_by(&self, by: ConfirmBy) -> Arc<dyn Tool> {
        self.tool(native("deploy").confirm(by))
    }

    fn ran(&self) -> u32 {
        self.0.load(Ordering::SeqCst)
    }
}

fn host(store: &Arc<MemoryStore>, tool: Arc<dyn Tool>) -> Arc<Dispatch> {
    dispatch_by(SETTINGS, store, vec![tool])
}

/// A task whose client cannot be asked.
async fn created(dispatch: &Arc<Dispatch>) -> String {
    create_alone(dispatch, &local_caller(), "deploy").await
}

async fn seen(dispatch: &Dispatch, id: &str) -> Task {
    task_of(dispatch, &Caller::operator(), id).await
}

/// A call of a stateless client that knows tasks.
async fn call_statelessly(dispatch: &Arc<Dispatch>, caller: &Caller) -> Result<CallReply, Fault> {
    dispatch.call(caller, stateless::call("deploy", Retry::default(), &Arc::default())).await
}

/// Decides as the operator who was shown this task.
async fn decide(dispatch: &Dispatch, shown: &Task, decision: ApprovalDecision) -> Result<Task, Fault> {
    let fingerprint = &shown.approval.as_ref().expect("waits for an approval").fingerprint;
    tasks_of(dispatch).await.decide(&Caller::operator(), &shown.id.to_string(), fingerprint, decision).await
}

async fn ended(dispatch: &Dispatch, id: &str) -> String {
    result_of(dispatch, &local_caller(), id).await
}

#[tokio::test]
async fn a_task_runs_after_its_approval_and_a_denied_or_cancelled_call_never_runs() {
    let deploys = Deploys::default();
    let dispatch = in_memory(vec![deploys.confirmed_by(ConfirmBy::Operator)]);
    let id = created(&dispatch).await;
    let shown = seen(&dispatch, &id).await;
    assert_eq!(shown.status(), TaskStatus::InputRequired);
    let says = shown.status_message.as_deref().unwrap_or_default();
    assert!(says.contains("Waiting for approval"), "{says}");
    eventually("the wait", || dispatch.load().approvals == 1).await;
    assert_eq!((dispatch.load().runs, deploys.ran()), (0, 0), "it holds no slot");
    decide(&dispatch, &shown, ApprovalDecision::Approve).await.expect("in time");
    assert!(ended(&dispatch, &id).await.contains("deployed"));
    assert_eq!((dispatch.load().approvals, deploys.ran()), (0, 1));
    let again = decide(&dispatch, &shown, ApprovalDecision::Deny { note: None }).await;
    assert!(matches!(again, Err(Fault::AlreadyOver(_))), "{again:?}");

    let denied = created(&dispatch).await;
    let deny = ApprovalDecision::Deny { note: Some("Not on a Friday.".to_owned()) };
    decide(&dispatch, &seen(&dispatch, &denied).await, deny).await.expect("in time");
    assert!(ended(&dispatch, &denied).await.contains("Not on a Friday."));
    let cancelled = created(&dispatch).await;
    let shown = seen(&dispatch, &cancelled).await;
    tasks_of(&dispatch).await.cancel_task(&local_caller(), &cancelled).await.expect("live");
    assert!(matches!(decide(&dispatch, &shown, ApprovalDecision::Approve).await, Err(Fault::AlreadyOver(_))));
    eventually("the end of both waits", || dispatch.load().approvals == 0).await;

    // Without a decision in time.
    let settings = Settings { approval_ms: 30, ..SETTINGS };
    let dispatch = dispatch_by(settings, &memory(), vec![deploys.confirmed_by(ConfirmBy::Operator)]);
    let id = created(&dispatch).await;
    assert!(ended(&dispatch, &id).await.contains("no approval"));
    assert_eq!(deploys.ran(), 1, "the approved call alone");
}

#[tokio::test]
async fn nobody_but_the_operator_decides_and_only_about_what_was_shown() {
    let deploys = Deploys::default();
    let dispatch = in_memory(vec![deploys.confirmed_by(ConfirmBy::Operator)]);
    let (id, other) = (created(&dispatch).await, created(&dispatch).await);
    let (shown, of_other) = (seen(&dispatch, &id).await, seen(&dispatch, &other).await);
    let tasks = tasks_of(&dispatch).await;
    let fingerprint = |task: &Task| task.approval.as_ref().expect("asked").fingerprint.clone();
    for caller in [local_caller(), stateless::signed_in("alice")] {
        let decided = tasks.decide(&caller, &id, &fingerprint(&shown), ApprovalDecision::Approve).await;
        assert!(matches!(decided, Err(Fault::UnknownTask)), "{decided:?}");
    }
    // The question of a person is not open, under any name.
    for key in ["host:confirm", "confirm"] {
        let yes = RawJson::of(&json!({"action": "accept", "content": {"approve": true}}));
        let answers = HashMap::from([(key.to_owned(), yes)]);
        tasks.update_task(&local_caller(), &id, answers).await.expect("ignored");
    }
    let (operator, other) = (Caller::operator(), fingerprint(&of_other));
    let swapped = tasks.decide(&operator, &id, &other, ApprovalDecision::Approve).await;
    assert!(matches!(swapped, Err(Fault::NotDecided(_))), "{swapped:?}");
    assert_eq!(seen(&dispatch, &id).await.status(), TaskStatus::InputRequired);
    assert_eq!(deploys.ran(), 0);
}

#[tokio::test]
async fn a_person_approves_by_their_client_where_the_manifest_says_so() {
    let deploys = Deploys::default();
    let dispatch = in_memory(vec![deploys.confirmed_by(ConfirmBy::Person)]);
    for (yes, runs) in [(false, 0), (true, 1)] {
        let client = Client::default();
        let id = create(&dispatch, &local_caller(), "deploy", Arc::new(client.clone())).await;
        eventually("the question", || !client.asked().is_empty()).await;
        let shown = seen(&dispatch, &id).await;
        let decided = decide(&dispatch, &shown, ApprovalDecision::Approve).await;
        assert!(matches!(decided, Err(Fault::NotDecided(_))), "{decided:?}");
        let answer = json!({"action": "accept", "content": {"approve": yes}});
        let of_operator = HashMap::from([("host:confirm".to_owned(), RawJson::of(&answer))]);
        let refused = tasks_of(&dispatch).await.update_task(&Caller::operator(), &id, of_operator).await;
        assert!(matches!(refused, Err(Fault::InvalidParams(_))), "K-A2: {refused:?}");
        let (asked, answer) = (client.asked().remove(0), Ok(RawJson::of(&answer)));
        dispatch.take_response(&local_caller(), &asked, answer).await.expect("stored");
        assert_eq!(ended(&dispatch, &id).await.contains("deployed"), yes);
        assert_eq!(deploys.ran(), runs);
    }
}

#[tokio::test]
async fn a_client_without_tasks_is_told_at_once_where_the_operator_decides() {
    let deploys = Deploys::default();
    let stage = Stage::new(Duration::from_secs(600), vec![deploys.confirmed_by(ConfirmBy::Operator)]);
    stage.dispatch.set_console("http://127.0.0.1:7422".to_owned());
    let caller = mute();
    let (text, result) = hand_off(stage.call(&caller, "deploy").await);
    let id = result["_meta"]["io.toolyard/task"]["taskId"].as_str().expect("an id").to_owned();
    assert!(text.contains(&format!("http://127.0.0.1:7422/q/{id}")), "{text}");
    assert!(text.contains("A model cannot approve it"), "{text}");
    let yes = json!({"task_id": id, "key": "host:confirm", "action": "accept", "content": {"approve": true}});
    let refused = plain(stage.call_with(&caller, "task_answer", yes).await);
    assert!(refused.contains("Only the user"), "{refused}");
    let waits = plain(stage.call_with(&caller, "task_wait", json!({"task_id": id, "seconds": 0})).await);
    assert!(waits.contains("approves or denies"), "{waits}");
    assert_eq!(deploys.ran(), 0);
    let shown = seen(&stage.dispatch, &id).await;
    decide(&stage.dispatch, &shown, ApprovalDecision::Approve).await.expect("in time");
    let (_, result) = hand_off(stage.call_with(&caller, "task_wait", json!({"task_id": id})).await);
    assert_eq!(result["content"][1]["text"], "deployed");
}

#[tokio::test]
async fn a_stateless_client_gets_a_task_and_a_plain_call_is_refused() {
    let (store, deploys) = (memory(), Deploys::default());
    let slow_to_be_one = native("deploy").confirm(ConfirmBy::Operator).inline_for(Duration::from_secs(600));
    let dispatch = host(&store, deploys.tool(slow_to_be_one));
    let made = call_statelessly(&dispatch, &stateless::client()).await;
    // As `tasks/get` says: its client is asked nothing.
    assert_eq!(stateless::created(made).view.status, TaskStatus::Working);
    // As a result that the model reads.
    let refused = dispatch.call(&local_caller(), plain_call("deploy")).await.expect("a result");
    assert!(stateless::text(&refused).contains("call it as a task"), "{refused:?}");
    let never_a_task = native("deploy").confirm(ConfirmBy::Operator).task_support(TaskSupport::Forbidden);
    let dispatch = host(&memory(), deploys.tool(never_a_task));
    let made = call_statelessly(&dispatch, &stateless::client()).await;
    assert!(stateless::text(&made.expect("a result")).contains("only after an approval"));
    assert_eq!(deploys.ran(), 0);
}

#[tokio::test]
async fn a_rule_asks_for_an_approval_of_some_calls_and_denies_others() {
    let (store, deploys) = (memory(), Deploys::default());
    let dispatch = host(&store, deploys.tool(native("deploy")));
    let rules = json!([
        {"effect": "allow", "tools": ["deploy"], "principals": ["local"], "confirm": "ask"},
        {"effect": "allow", "tools": ["deploy"], "confirm": "always-deny"},
    ]);
    let rules = AccessRules::new(serde_json::from_value(rules).expect("rules")).expect("valid");
    dispatch.enforce(Policy::new(rules, &Rates::default()));
    let id = created(&dispatch).await;
    assert_eq!(seen(&dispatch, &id).await.status(), TaskStatus::InputRequired);
    let denied = call_statelessly(&dispatch, &stateless::signed_in("alice")).await;
    assert!(stateless::text(&denied.expect("a result")).contains("denies every call"));
    assert_eq!(deploys.ran(), 0);
    // A process whose only caller is the operator needs no approval.
    let dispatch = host(&store, deploys.confirmed_by(ConfirmBy::Operator));
    dispatch.enforce(Policy::default().for_operator_alone());
    let reply = dispatch.call(&local_caller(), plain_call("deploy")).await.expect("runs");
    assert!(stateless::text(&reply).contains("deployed"));
}

#[tokio::test]
async fn an_approval_survives_its_host_and_another_component_asks_again() {
    for is_leaving in [false, true] {
        let (store, deploys) = (memory(), Deploys::default());
        let node = Arc::new(store.node());
        let first = host(&node, deploys.confirmed_by(ConfirmBy::Operator));
        let id = created(&first).await;
        let shown = seen(&first, &id).await;
        if is_leaving {
            first.drain(Duration::from_secs(5), DrainMode::HandOver).await;
        } else {
            node.kill();
        }
        let next = Arc::new(store.node());
        let second = host(&next, deploys.confirmed_by(ConfirmBy::Operator));
        second.recover_now().await;
        eventually("the wait on the next host", || second.load().approvals == 1).await;
        assert_eq!(seen(&second, &id).await.status(), TaskStatus::InputRequired);
        next.kill();
        let changed = deploys.tool(native("deploy").confirm(ConfirmBy::Operator).digest("11"));
        let third = host(&Arc::new(store.node()), changed);
        third.recover_now().await;
        eventually("the wait for another component", || third.load().approvals == 1).await;
        let refused = decide(&third, &shown, ApprovalDecision::Approve).await;
        assert!(matches!(refused, Err(Fault::NotDecided(_))), "{refused:?}");
        let shown = seen(&third, &id).await;
        decide(&third, &shown, ApprovalDecision::Approve).await.expect("in time");
        assert!(ended(&third, &id).await.contains("deployed"));
        assert_eq!(deploys.ran(), 1);
    }
}
