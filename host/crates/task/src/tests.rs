//! A task and a question for the tests of the modules.

use crate::id::{Digest, Incarnation, Owner, TaskId};
use crate::task::{Era, Fence, Question, Task};
use crate::wire::{QuestionKind, RawJson, RequestedTtl, Timestamp};
use uuid::Uuid;

pub fn task() -> Task {
    Task {
        id: TaskId(Uuid::from_u128(1)),
        owner: Owner::Local,
        session: None,
        era: Era::Sessions,
        client_capabilities: RawJson::empty_object(),
        tool: "example.sleep".into(),
        digest: Digest(String::new()),
        arguments: RawJson::empty_object(),
        progress_token: None,
        requested_ttl: RequestedTtl::Absent,
        ttl_ms: 1_000,
        poll_interval_ms: 1_000,
        created_at: Timestamp(0),
        updated_at: Timestamp(0),
        status_message: None,
        version: 1,
        fence: Fence { incarnation: Incarnation(1), attempt: 1 },
        started_at: None,
        effects: false,
        rerun: false,
        resume: None,
        bridged: None,
        unresumable: None,
        approval: None,
        questions: Vec::new(),
        outcome: None,
    }
}

pub fn question(key: &str) -> Question {
    Question {
        key: key.into(),
        kind: QuestionKind::Form,
        params: RawJson::empty_object(),
        attempt: 1,
        deadline: Timestamp(1),
        sent: Vec::new(),
        client_task: None,
        answer: None,
        asked_again: 0,
    }
}
