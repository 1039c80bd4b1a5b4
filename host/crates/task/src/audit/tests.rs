use super::doubt::MAX_REQUEST;
use super::*;
use crate::apply;
use crate::grant::{Grant, Verdict};
use crate::id::{Digest, Incarnation};
use crate::permission::AccessRequest;
use crate::recovery::{Departure, NotRerun};
use crate::task::{Fence, Question};
use crate::wire::{RawJson, RpcError, Timestamp};
use serde_json::{Value, json};
use toolyard_journal::{DecidedBy, DoubtDecision};
use uuid::Uuid;

const SECRET: &str = "hush";

fn owner() -> Owner {
    Owner::Subject { issuer: "https://idp.example".into(), subject: "alice".into() }
}

fn task() -> Task {
    let secret = || RawJson::trusted(format!(r#"{{"x":"{SECRET}"}}"#));
    Task {
        id: TaskId(Uuid::from_u128(7)),
        digest: Digest("ab".into()),
        owner: owner(),
        session: Some(SessionId(SECRET.into())),
        client_capabilities: secret(),
        tool: "t".repeat(200),
        arguments: secret(),
        progress_token: Some(secret()),
        status_message: Some(SECRET.into()),
        ..crate::tests::task()
    }
}

const FENCE: Fence = Fence { incarnation: Incarnation(1), attempt: 1 };

fn question(key: &str) -> Question {
    let params = RawJson::trusted(format!(r#"{{"message":"{SECRET}"}}"#));
    Question { params, ..crate::tests::question(key) }
}

fn finished(outcome: Outcome) -> Event {
    Event::Finished { fence: FENCE, outcome, message: Some(SECRET.into()) }
}

/// T-43: each event of a task's life is recorded, without any content from clients or guests.
#[test]
fn t_43_every_change_that_matters_has_its_entries_and_none_tells_what_was_said() {
    let result = |is_error| Outcome::Result { is_error, result: RawJson::trusted(format!("\"{SECRET}\"")) };
    let error = || RpcError::internal(SECRET);
    let answered = |answer| Event::Answered { key: "q".into(), answer };
    let (from, by) = (Incarnation(1), Incarnation(2));
    let why = NotRerun::Misfit(SECRET.into());
    let orphaned = Event::Orphaned { incarnation: from, departure: Departure::Died, why };
    let claimed = Event::Claimed { from, by, digest: Digest(String::new()), reached: 0 };
    let questions = vec![question("r"), question("s")];
    let asked = ["question.asked", "question.asked"];
    /// An event, the names of its entries, and their reason and code.
    type Case<'a> = (Event, &'a [&'a str], Option<&'a str>, Option<i64>);
    let cases: [Case<'_>; 15] = [
        (Event::Started { fence: FENCE }, &[], None, None),
        (Event::Said { fence: FENCE, message: SECRET.into() }, &[], None, None),
        (Event::Effects { fence: FENCE }, &[], None, None),
        (Event::Asked { fence: FENCE, questions }, &asked, None, None),
        (answered(Ok(RawJson::trusted("\"hush\""))), &["question.answered"], Some("answered"), None),
        (answered(Err(AskError::TimedOut)), &["question.answered"], Some("timed_out"), None),
        (answered(Err(AskError::Refused(error()))), &["question.answered"], Some("refused"), Some(-32603)),
        (finished(result(false)), &["task.ended"], None, None),
        (finished(result(true)), &["task.ended"], Some("tool_error"), None),
        (finished(Outcome::Error(error())), &["task.ended"], Some("error"), Some(-32603)),
        (Event::Cancelled { message: SECRET.into() }, &["task.cancelled"], None, None),
        (Event::Expired, &["task.expired"], None, None),
        (orphaned, &["task.orphaned"], None, None),
        (claimed, &["task.claimed"], None, None),
        (Event::Released { incarnation: from }, &["task.released"], None, None),
    ];
    for (event, expected, reason, code) in cases {
        let before = Task { questions: vec![question("q")], ..task() };
        let after = apply(&before, event.clone(), Timestamp(5_000)).expect("applies").task;
        let entries = Entry::changed(&event, &after, &By::host().because("why"));
        let found: Vec<_> = entries.iter().map(|entry| serde_json::to_value(entry).expect("JSON")).collect();
        assert_eq!(found.len(), expected.len(), "{event:?}");
        for (found, action) in found.iter().zip(expected) {
            assert_eq!(found["action"], *action);
            assert_eq!(found["owner"], "https://idp.example#alice");
            assert_eq!(found["principal"], "host");
            if *action != "question.asked" {
                assert_eq!(found.get("reason").and_then(|reason| reason.as_str()), reason.or(Some("why")));
            }
            assert_eq!(found.get("code").and_then(Value::as_i64), code);
            assert_eq!(found["status"], after.status().as_str());
            assert!(found["tool"].as_str().expect("a name").chars().count() <= MAX_NAME + 1);
            assert!(!found.to_string().contains(SECRET), "{found}");
        }
    }
}

#[test]
fn a_decision_about_a_request_in_doubt_says_what_was_decided_and_why() {
    let request = format!("POST https://a.example/{}", "x".repeat(2 * MAX_REQUEST));
    let entry = |by| json!(Entry::doubt(&task(), &request, DoubtDecision::Fail, by));
    let found = entry(DecidedBy::Manifest);
    assert_eq!((&found["action"], &found["principal"]), (&json!("task.doubt"), &json!("host")));
    assert_eq!((&found["decision"], &found["reason"]), (&json!("fail"), &json!("manifest")));
    assert_eq!(found["owner"], "https://idp.example#alice");
    let text = found["request"].as_str().expect("text");
    assert!(
        text.starts_with("POST https://a.example/x") && text.chars().count() <= MAX_REQUEST + 1,
        "{text}"
    );
    let found = entry(DecidedBy::Person("bob"));
    assert_eq!((&found["principal"], &found["reason"]), (&json!("bob"), &json!("person")));
}

#[test]
fn t_43_who_did_it_stands_beside_whose_it_is() {
    let by = By::principal("operator", None).because("asked_to");
    let entry = Entry::changed(&Event::Cancelled { message: String::new() }, &task(), &by).remove(0);
    assert_eq!(entry.principal, "operator");
    assert_eq!(entry.owner.as_deref(), Some("https://idp.example#alice"));
    assert_eq!(entry.reason.as_deref(), Some("asked_to"));
    let entry = Entry::created(&task(), &By::client());
    assert_eq!(Some(entry.principal), entry.owner);
    // The log has a fingerprint of the session, which gives no access to it.
    let entry = Entry::created(&task(), &By::principal("x", Some(SessionId("a".into()))));
    assert_eq!(entry.session.as_deref(), Some("ca978112ca1bbdca"));
    assert_eq!(name_of(&Owner::Session(SessionId("a".into()))), "anonymous");
}

#[test]
fn names_of_clients_are_cut_short() {
    let entry = Entry::new(Action::DeniedByRule, &By::principal(&"p".repeat(5_000), None));
    let entry =
        entry.of_resource(&"r".repeat(5_000)).for_reason(&"y".repeat(5_000)).by_rule(&"z".repeat(5_000));
    assert!(serde_json::to_string(&entry).expect("JSON").len() < 2_000);
}

/// Each kind of entry as it is in the log, without the members that do not apply.
#[test]
fn t_43_an_entry_names_all_that_it_is_about() {
    let task = Task { tool: "render".into(), questions: vec![question("q")], ..task() };
    let by = By::principal("alice", None);
    let of = ("files.wasm", &Digest("cd".into()));
    let wanted = AccessRequest::host("https", "a.example", 443);
    let grant = Grant {
        id: crate::grant::GrantId(Uuid::from_u128(3)),
        owner: owner(),
        by: "alice".into(),
        plugin: "files.wasm".into(),
        digest: Digest("cd".into()),
        wanted: wanted.clone(),
        verdict: Verdict::Deny,
        given_at: Timestamp(0),
    };
    let again = Event::AskedAgain { fence: None, key: "q".into() };
    let asked = Event::Asked { fence: FENCE, questions: vec![question("q")] };
    let changed = |event: &Event| Entry::changed(event, &task, &by).remove(0);
    let entries = [
        Entry::created(&task, &by),
        Entry::discarded(&Summary::of(&task), "tasks.kept-bytes"),
        changed(&asked),
        changed(&again),
        Entry::verdict_given(Verdict::Allow, of, &wanted, "for this task", &by),
        Entry::revoked(&grant, &by),
        Entry::lost(5, "the disk is full"),
        Entry::new(Action::DeniedByRule, &by).of_tool("t").of_prompt("p").of_resource("r:1"),
        Entry::new(Action::DeniedByRule, &by).by_rule("night").for_reason("a rule denies it"),
    ];
    let shown: Vec<Value> = entries.iter().map(|entry| serde_json::to_value(entry).expect("JSON")).collect();
    let alice = "https://idp.example#alice";
    let mut about = json!({
        "owner": alice, "task": "00000000-0000-0000-0000-000000000007", "tool": "render", "digest": "ab",
        "status": "input_required",
    });
    let with = |entry: &Value, more: Value| {
        let mut entry = entry.clone();
        entry.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        entry
    };
    let discarded = json!({"action": "task.discarded", "principal": "host", "reason": "tasks.kept-bytes"});
    let discarded = with(&about, discarded);
    about = with(&about, json!({"principal": "alice", "session": fingerprint(&SessionId(SECRET.into()))}));
    let asks = json!({"action": "question.asked", "question": "q", "method": "elicitation/create"});
    let asks = with(&about, asks);
    let permission = json!({
        "principal": "alice", "plugin": "files.wasm", "digest": "cd", "permission": "https://a.example:443",
    });
    let given = json!({"action": "permission.given", "reason": "for this task"});
    let revoked = json!({"action": "permission.revoked", "owner": alice, "reason": "deny"});
    let expected = [
        with(&about, json!({"action": "task.created"})),
        discarded,
        asks.clone(),
        with(&asks, json!({"reason": "does not fit"})),
        with(&permission, given),
        with(&permission, revoked),
        json!({"action": "audit.lost", "principal": "host", "count": 5, "reason": "the disk is full"}),
        json!({"action": "denied.rule", "principal": "alice", "tool": "t", "prompt": "p", "resource": "r:1"}),
        json!({"action": "denied.rule", "principal": "alice", "rule": "night", "reason": "a rule denies it"}),
    ];
    assert_eq!(shown, expected);
}
