use super::*;
use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;
use proptest::sample::select;
use toolyard_task::approval::{Approval, ApprovedBy, ConfirmBy};
use toolyard_task::task::{Era, JournalRetention, Parked, Question, Resume, Sent};
use toolyard_task::wire::{QuestionKind, RequestedTtl};
use toolyard_task::{AskError, Fence, Incarnation, SessionId};
use uuid::Uuid;

/// JSON is kept exactly: spacing, order, escapes and odd numbers must survive. `null` is omitted
/// where it means "absent" (progress tokens, error data).
fn json() -> impl Strategy<Value = RawJson> {
    prop_oneof![
        Just("{}".to_owned()),
        Just(r#"{ "b" : 1.00, "a":1e400 ,"a": -0 }"#.to_owned()),
        Just(r#"["\u0000\ud834\udd1e", true , [ [] ] ]"#.to_owned()),
        any::<String>().prop_map(|text| serde_json::to_string(&text).expect("a string")),
        vec(any::<String>(), 0..4).prop_map(|texts| serde_json::to_string(&texts).expect("strings")),
    ]
    .prop_map(RawJson::trusted)
}

fn error() -> impl Strategy<Value = RpcError> {
    let parts = (any::<i32>(), any::<String>(), of(json()));
    parts.prop_map(|(code, message, data)| RpcError { code, message, data })
}

fn time() -> impl Strategy<Value = Timestamp> {
    any::<i64>().prop_map(Timestamp)
}

fn session() -> impl Strategy<Value = SessionId> {
    "[0-9a-f]{32}".prop_map(|id| SessionId(id.into()))
}

fn owner() -> impl Strategy<Value = Owner> {
    prop_oneof![
        Just(Owner::Local),
        session().prop_map(Owner::Session),
        (any::<String>(), any::<String>()).prop_map(|(issuer, subject)| Owner::Subject { issuer, subject }),
    ]
}

fn any_outcome() -> impl Strategy<Value = Outcome> {
    prop_oneof![
        (any::<bool>(), json()).prop_map(|(is_error, result)| Outcome::Result { is_error, result }),
        error().prop_map(Outcome::Error),
        Just(Outcome::Cancelled),
        Just(Outcome::Expired),
    ]
}

fn ask_error() -> impl Strategy<Value = AskError> {
    prop_oneof![
        any::<String>().prop_map(AskError::Unsupported),
        Just(AskError::TimedOut),
        error().prop_map(AskError::Refused),
        any::<String>().prop_map(AskError::Invalid),
        Just(AskError::TooLate),
        Just(AskError::Cancelled),
    ]
}

fn question() -> impl Strategy<Value = Question> {
    let sent = (any::<String>(), of(session())).prop_map(|(id, session)| Sent { id, session });
    let kinds = vec![QuestionKind::Form, QuestionKind::Url, QuestionKind::Sampling, QuestionKind::Roots];
    (
        (any::<String>(), select(kinds), json(), any::<u32>(), time(), any::<u32>()),
        vec(sent, 0..3),
        of(any::<String>()),
        of(prop_oneof![json().prop_map(Ok), ask_error().prop_map(Err)]),
    )
        .prop_map(|((key, kind, params, attempt, deadline, asked_again), sent, client_task, answer)| {
            Question { key, kind, params, attempt, deadline, sent, client_task, answer, asked_again }
        })
}

fn approval() -> impl Strategy<Value = Approval> {
    let by = select(vec![ConfirmBy::Operator, ConfirmBy::Person, ConfirmBy::Either]);
    let given = of(select(vec![ApprovedBy::Operator, ApprovedBy::Person]));
    let parts = ("[0-9a-f]{64}", by, of(any::<String>()), any::<u64>(), of(time()), given);
    parts.prop_map(|(fingerprint, by, message, wait_ms, asked_again, given)| {
        let login = None;
        Approval { fingerprint, by, message, wait_ms, asked_again, login, given }
    })
}

fn resume() -> impl Strategy<Value = Resume> {
    let retention = select(vec![JournalRetention::Keep, JournalRetention::Failed, JournalRetention::Drop]);
    let parts = (any::<u64>(), any::<u32>(), any::<bool>(), retention, of(of(time())));
    parts.prop_map(|(reached, stalled, is_stuck, retention, parked)| {
        let parked = parked.map(|wake| Parked { wake });
        Resume { reached, stalled, retention, parked, is_stuck }
    })
}

fn any_task() -> impl Strategy<Value = Task> {
    let requested = prop_oneof![
        Just(RequestedTtl::Absent),
        Just(RequestedTtl::Unlimited),
        any::<u64>().prop_map(RequestedTtl::Milliseconds),
    ];
    (
        (any::<u128>(), owner(), of(session()), any::<bool>(), json(), any::<String>(), "[0-9a-f]{64}"),
        (json(), of(json()), requested, any::<u64>(), any::<u64>(), of(resume())),
        (time(), time(), of(any::<String>()), any::<u64>(), any::<u64>(), any::<u32>()),
        (of(time()), any::<bool>(), any::<bool>(), vec(question(), 0..3), of(any_outcome()), of(approval())),
    )
        .prop_map(|(who, asked, when, rest)| Task {
            id: TaskId(Uuid::from_u128(who.0)),
            owner: who.1,
            session: who.2,
            era: if who.3 { Era::Sessions } else { Era::Stateless },
            client_capabilities: who.4,
            tool: who.5,
            digest: Digest(who.6),
            arguments: asked.0,
            progress_token: asked.1,
            requested_ttl: asked.2,
            ttl_ms: asked.3,
            poll_interval_ms: asked.4,
            created_at: when.0,
            updated_at: when.1,
            status_message: when.2,
            version: when.3,
            fence: Fence { incarnation: Incarnation(when.4), attempt: when.5 },
            started_at: rest.0,
            effects: rest.1,
            rerun: rest.2,
            resume: asked.5,
            bridged: None,
            unresumable: None,
            approval: rest.5.map(Box::new),
            questions: rest.3,
            outcome: rest.4,
        })
}

proptest! {
    #[test]
    fn what_is_written_reads_back_to_the_letter(original in any_task()) {
        let text = encode(&original).expect("encodes");
        let ended = original.outcome.as_ref().map(|ended| outcome(ended).expect("encodes"));
        let back = task(&text, original.arguments.as_bytes().to_vec(), ended).expect("decodes");
        prop_assert_eq!(&back, &original);
        let (id, status) = (original.id, status(original.status()));
        let columns = Columns { id, status, created: original.created_at.0, updated: original.updated_at.0 };
        prop_assert_eq!(summary(&columns, &text).expect("decodes"), Summary::of(&original));
        prop_assert_eq!(status <= LAST_LIVE, original.is_live());
    }

    #[test]
    fn what_was_not_written_by_us_is_refused_without_panic(text in any::<String>(), tail in vec(any::<u8>(), 0..40)) {
        let _ = task(&text, Vec::new(), None);
        let _ = read_outcome(tail);
    }
}

#[test]
fn damage_has_a_name() {
    assert!(matches!(read_outcome(Vec::new()), Err(CodecError::Outcome(None))));
    assert!(matches!(read_outcome(b"z{}".to_vec()), Err(CodecError::Outcome(Some(b'z')))));
    assert!(matches!(read_outcome(b"j{".to_vec()), Err(CodecError::Json(_))));
    assert!(matches!(read_status(0), Err(CodecError::Status(0))));
    assert!(matches!(read_status(6), Err(CodecError::Status(6))));
}
