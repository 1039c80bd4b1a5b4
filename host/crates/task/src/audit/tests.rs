use super::*;
use crate::apply;
use crate::id::{Digest, Incarnation};
use crate::recovery::{Departure, NotRerun};
use crate::task::{Era, Fence, Question};
use crate::wire::{QuestionKind, RawJson, RequestedTtl, RpcError, Timestamp};
use uuid::Uuid;

const SECRET: &str = "hush";

fn owner() -> Owner {
    Owner::Subject { issuer: "https://idp.example".into(), subject: "alice".into() }
}

fn task() -> Task {
    let secret = || RawJson::trusted(format!(r#"{{"x":"{SECRET}"}}"#));
    Task {
        id: TaskId(Uuid::from_u128(7)),
        owner: owner(),
        session: Some(SessionId(SECRET.into())),
        era: Era::Sessions,
        client_capabilities: secret(),
        tool: "t".repeat(200),
        digest: Digest("ab".into()),
        arguments: secret(),
        progress_token: Some(secret()),
        requested_ttl: RequestedTtl::Absent,
        ttl_ms: 1_000,
        poll_interval_ms: 1,
        created_at: Timestamp(0),
        updated_at: Timestamp(0),
        status_message: Some(SECRET.into()),
        version: 1,
        fence: FENCE,
        started_at: None,
        effects: false,
        rerun: false,
        questions: Vec::new(),
        outcome: None,
    }
}

const FENCE: Fence = Fence { incarnation: Incarnation(1), attempt: 1 };

fn question(key: &str) -> Question {
    Question {
        key: key.into(),
        kind: QuestionKind::Form,
        params: RawJson::trusted(format!(r#"{{"message":"{SECRET}"}}"#)),
        attempt: 1,
        deadline: Timestamp(1),
        sent: Vec::new(),
        client_task: None,
        answer: None,
        asked_again: 0,
    }
}

fn finished(outcome: Outcome) -> Event {
    Event::Finished { fence: FENCE, outcome, message: Some(SECRET.into()) }
}

/// T-43: each event of a task's life, what is written of it, and nothing that was
/// said by anybody.
#[test]
fn t_43_every_change_that_matters_has_its_entries_and_none_tells_what_was_said() {
    let result = |is_error| Outcome::Result { is_error, result: RawJson::trusted(format!("\"{SECRET}\"")) };
    let answered = |answer| Event::Answered { key: "q".into(), answer };
    let orphaned = Event::Orphaned {
        incarnation: Incarnation(1),
        departure: Departure::Died,
        why: NotRerun::Misfit(SECRET.into()),
    };
    let cases = [
        (Event::Started { fence: FENCE }, vec![]),
        (Event::Said { fence: FENCE, message: SECRET.into() }, vec![]),
        (Event::Effects { fence: FENCE }, vec![]),
        (
            Event::Asked { fence: FENCE, questions: vec![question("r"), question("s")] },
            vec![("question.asked", None, None), ("question.asked", None, None)],
        ),
        (answered(Ok(RawJson::trusted("\"hush\""))), vec![("question.answered", Some("answered"), None)]),
        (answered(Err(AskError::TimedOut)), vec![("question.answered", Some("timed_out"), None)]),
        (
            answered(Err(AskError::Refused(RpcError::internal(SECRET)))),
            vec![("question.answered", Some("refused"), Some(-32603))],
        ),
        (finished(result(false)), vec![("task.ended", None, None)]),
        (finished(result(true)), vec![("task.ended", Some("tool_error"), None)]),
        (
            finished(Outcome::Error(RpcError::internal(SECRET))),
            vec![("task.ended", Some("error"), Some(-32603))],
        ),
        (Event::Cancelled { message: SECRET.into() }, vec![("task.cancelled", Some("why"), None)]),
        (Event::Expired, vec![("task.expired", Some("why"), None)]),
        (orphaned, vec![("task.orphaned", Some("why"), None)]),
        (
            Event::Claimed { from: Incarnation(1), by: Incarnation(2), digest: Digest(String::new()) },
            vec![("task.claimed", Some("why"), None)],
        ),
        (Event::Released { incarnation: Incarnation(1) }, vec![("task.released", Some("why"), None)]),
    ];
    for (event, expected) in cases {
        let before = Task { questions: vec![question("q")], ..task() };
        let after = apply(&before, event.clone(), Timestamp(5_000)).expect("applies").task;
        let entries = Entry::changed(&event, &after, &By::host().because("why"));
        let found: Vec<_> = entries.iter().map(|entry| serde_json::to_value(entry).expect("JSON")).collect();
        assert_eq!(found.len(), expected.len(), "{event:?}");
        for (found, (action, reason, code)) in found.iter().zip(expected) {
            assert_eq!(found["action"], action);
            assert_eq!(found["owner"], "https://idp.example#alice");
            assert_eq!(found["principal"], "host");
            if action != "question.asked" {
                assert_eq!(found.get("reason").and_then(|reason| reason.as_str()), reason.or(Some("why")));
            }
            assert_eq!(found.get("code").and_then(serde_json::Value::as_i64), code);
            assert_eq!(found["status"], after.status().as_str());
            assert!(found["tool"].as_str().expect("a name").chars().count() <= NAME + 1);
            assert!(!found.to_string().contains(SECRET), "{found}");
        }
    }
}

#[test]
fn t_43_who_did_it_stands_beside_whose_it_is() {
    let by = By::principal("operator", None).because("asked_to");
    let entry = Entry::changed(&Event::Cancelled { message: String::new() }, &task(), &by).remove(0);
    assert_eq!(
        (entry.principal.as_str(), entry.owner.as_deref()),
        ("operator", Some("https://idp.example#alice"))
    );
    assert_eq!(entry.reason.as_deref(), Some("asked_to"));
    let entry = Entry::created(&task(), &By::client());
    assert_eq!(Some(entry.principal), entry.owner);
    let own = SessionId("mine".into());
    let entry = Entry::created(&task(), &By::principal("x", Some(own.clone())));
    assert_eq!(entry.session, Some(fingerprint(&own)));
}

#[test]
fn t_43_a_session_is_told_by_a_fingerprint_that_opens_nothing() {
    let (one, other) = (SessionId("a".into()), SessionId("b".into()));
    assert_eq!(fingerprint(&one), "ca978112ca1bbdca");
    assert_ne!(fingerprint(&one), fingerprint(&other));
    assert_eq!(name_of(&Owner::Session(one)), "anonymous");
}

#[test]
fn names_of_clients_are_cut_short() {
    let entry = Entry::new(Action::DeniedByRule, &By::principal(&"p".repeat(5_000), None));
    let entry =
        entry.of_resource(&"r".repeat(5_000)).for_reason(&"y".repeat(5_000)).by_rule(&"z".repeat(5_000));
    assert!(serde_json::to_string(&entry).expect("JSON").len() < 2_000);
}
