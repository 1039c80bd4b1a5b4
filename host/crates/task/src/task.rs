//! The record of a task.

use crate::approval::Approval;
use crate::error::AskError;
use crate::id::{Digest, Incarnation, Owner, SessionId, TaskId};
use crate::wire::{QuestionKind, RawJson, RequestedTtl, RpcError, TaskStatus, TaskView, Timestamp};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// How long a task that was ended by its ttl is still shown (milliseconds).
pub const EXPIRED_KEPT_MS: u64 = 60_000;

/// The generation of protocol that a task was created under.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Era {
    /// Sessions and `tasks/result` (2025-11-25), or the command line.
    #[serde(rename = "2025")]
    Sessions,
    /// Stateless, with the tasks extension (2026-07-28).
    #[serde(rename = "2026")]
    Stateless,
}

/// The run that may still write to a task. A later incarnation or attempt shuts out the earlier one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fence {
    /// The host process.
    pub incarnation: Incarnation,
    /// The attempt, from 1.
    pub attempt: u32,
}

/// The outcome of a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The tool gave a result: a `CallToolResult`, byte for byte.
    Result {
        /// The `isError` of the result.
        is_error: bool,
        /// The object.
        result: RawJson,
    },
    /// The call ended with a JSON-RPC error.
    Error(RpcError),
    /// The task was cancelled.
    Cancelled,
    /// The ttl of the task passed while it was live.
    Expired,
}

/// A question to the client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    /// The guest's name for it.
    pub key: String,
    /// The kind of question.
    pub kind: QuestionKind,
    /// The params of the request, independent of any revision.
    pub params: RawJson,
    /// The attempt that asked.
    pub attempt: u32,
    /// When it stops waiting.
    pub deadline: Timestamp,
    /// Every request that it was sent in. An answer to any of them counts, but only the first answer
    /// (IR-7).
    pub sent: Vec<Sent>,
    /// The task that the client runs for it, if any.
    pub client_task: Option<String>,
    /// The answer, or the reason why there is none.
    pub answer: Option<Result<RawJson, AskError>>,
    /// How often it was asked again because the answer did not fit (26T-22).
    #[serde(default)]
    pub asked_again: u32,
}

/// The attempt of superseded questions. Real ones begin at 1.
const SUPERSEDED: u32 = 0;

impl Question {
    /// The run that asked it has handed its state over to another one, which asks again.
    pub(crate) const fn supersede(&mut self) {
        self.attempt = SUPERSEDED;
    }

    /// Whether its answer counts no more, because its run has handed its state over.
    #[must_use]
    pub const fn is_superseded(&self) -> bool {
        self.attempt == SUPERSEDED
    }

    /// The key of the question for clients that answer by key: never the same for two requests (26T-18). No key
    /// of a guest contains a space.
    #[must_use]
    pub fn wire_key(&self) -> Cow<'_, str> {
        match self.asked_again {
            0 => Cow::Borrowed(&self.key),
            times => Cow::Owned(format!("{} ({})", self.key, times + 1)),
        }
    }
}

/// A request that carried a question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sent {
    /// The JSON-RPC id of the request.
    pub id: String,
    /// The session that was asked; only its answer counts. `None` on stdio.
    pub session: Option<SessionId>,
}

/// A plain call of a client that knows no tasks, which goes on as a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bridged {
    /// How long the call had run before it became the task (milliseconds).
    pub waited_ms: u64,
    /// Whether its caller has been told neither of the task nor of its outcome. An equal call of the
    /// same owner joins such a task and does not run a second time.
    pub undelivered: bool,
}

/// The state of a task whose runs are recorded, so that another run continues where the last one was.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resume {
    /// Entries of the journal when the task was last claimed or parked.
    pub reached: u64,
    /// How many runs in a row lost their host while they repeated what was recorded.
    pub stalled: u32,
    /// Whether the journal stays after the end of the task, by the operator's setting at its creation.
    #[serde(default, skip_serializing_if = "JournalRetention::is_keep")]
    pub retention: JournalRetention,
    /// Present while the task is parked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parked: Option<Parked>,
    /// Whether the task failed because its runs could not continue, and not by its tool. The operator may have it
    /// continued ([`Event::Retried`](crate::Event::Retried)).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_stuck: bool,
}

/// Whether the journal of a task stays after the end of the task.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JournalRetention {
    /// The journal, as long as the task.
    #[default]
    Keep,
    /// The journal, if the task failed.
    Failed,
    /// Nothing.
    Drop,
}

impl JournalRetention {
    /// Whether the journal of a task with this status stays.
    #[must_use]
    pub fn keeps(self, status: TaskStatus) -> bool {
        match self {
            Self::Keep => true,
            Self::Failed => status == TaskStatus::Failed,
            Self::Drop => false,
        }
    }

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    fn is_keep(&self) -> bool {
        *self == Self::Keep
    }
}

/// A task that waits and belongs to no host. It has no run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parked {
    /// When a host must continue the task, by the store's clock. `None`: only an answer makes it due.
    pub wake: Option<Timestamp>,
}

/// A task. Its status is computed from the other fields and never stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// The id of the task.
    pub id: TaskId,
    /// The owner.
    pub owner: Owner,
    /// The session that created it, if any.
    pub session: Option<SessionId>,
    /// The generation of protocol that it was created under.
    pub era: Era,
    /// The capabilities of the creating client: an object.
    pub client_capabilities: RawJson,
    /// The tool.
    pub tool: String,
    /// The component that the tool came from.
    pub digest: Digest,
    /// The arguments of the call.
    #[serde(skip, default = "RawJson::empty_object")]
    pub arguments: RawJson,
    /// The caller's token for progress notifications.
    pub progress_token: Option<RawJson>,
    /// The requested ttl.
    pub requested_ttl: RequestedTtl,
    /// The actual ttl, in milliseconds from its creation.
    pub ttl_ms: u64,
    /// How often to ask, in milliseconds.
    pub poll_interval_ms: u64,
    /// When it was created, by the store's clock.
    pub created_at: Timestamp,
    /// When it last changed, by the store's clock.
    pub updated_at: Timestamp,
    /// The status message of the guest or the host.
    pub status_message: Option<String>,
    /// The number of changes, from 1.
    pub version: u64,
    /// The run that may write.
    pub fence: Fence,
    /// When a guest began to work on it in this attempt; before that it waits for its
    /// turn.
    pub started_at: Option<Timestamp>,
    /// Whether its guest has said that effects begin; then it is never run again.
    pub effects: bool,
    /// Whether it may be run again if its host is gone, by the operator's setting at its creation.
    #[serde(default)]
    pub rerun: bool,
    /// Present if its runs are recorded in a journal. Then the component never changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resume: Option<Resume>,
    /// Why it resumes no more, if its runs were recorded before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unresumable: Option<String>,
    /// Present if its caller knows no tasks, so that the host tools replace the task methods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bridged: Option<Bridged>,
    /// The approval that it waits for or was given, if the operator wants its call confirmed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<Box<Approval>>,
    /// The questions to the client.
    pub questions: Vec<Question>,
    /// The outcome. Once a task has one, only [`Bridged::undelivered`] still changes, unless the operator has the task
    /// continued.
    #[serde(skip)]
    pub outcome: Option<Outcome>,
}

/// The phase of a task, which says who may change it. Its state as clients see it is [`Task::status`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase<'a> {
    /// The task waits for an approval of its call.
    Approval(&'a Approval),
    /// The task waits for its turn, so that any host which has its component may run it.
    Waiting,
    /// A guest has worked on it since then.
    Running(Timestamp),
    /// The task waits, and no host runs it. [`TaskStore::wakeable`](crate::TaskStore::wakeable) finds it when it is
    /// due.
    Parked(Parked),
    /// The task has ended.
    Ended(&'a Outcome),
}

impl Task {
    /// The phase of the task.
    #[must_use]
    pub fn phase(&self) -> Phase<'_> {
        let parked = self.resume.and_then(|resume| resume.parked);
        let approval = self.approval.as_deref().filter(|approval| approval.is_open());
        match (&self.outcome, parked, approval, self.started_at) {
            (Some(outcome), ..) => Phase::Ended(outcome),
            (None, Some(parked), ..) => Phase::Parked(parked),
            (None, None, Some(approval), _) => Phase::Approval(approval),
            (None, None, None, Some(since)) => Phase::Running(since),
            (None, None, None, None) => Phase::Waiting,
        }
    }

    /// The state of the task, by the rules of 2025-11-25 (T-17, T-18).
    #[must_use]
    pub fn status(&self) -> TaskStatus {
        match &self.outcome {
            None if self.asks() => TaskStatus::InputRequired,
            None => TaskStatus::Working,
            Some(Outcome::Result { is_error: false, .. }) => TaskStatus::Completed,
            Some(Outcome::Result { is_error: true, .. } | Outcome::Error(_) | Outcome::Expired) => {
                TaskStatus::Failed
            }
            Some(Outcome::Cancelled) => TaskStatus::Cancelled,
        }
    }

    /// Whether it waits for an approval, or for an answer to a question.
    fn asks(&self) -> bool {
        self.open_approval().is_some() || self.questions.iter().any(|question| question.answer.is_none())
    }

    /// The approval that it waits for.
    #[must_use]
    pub fn open_approval(&self) -> Option<&Approval> {
        match self.phase() {
            Phase::Approval(approval) => Some(approval),
            _ => None,
        }
    }

    /// The questions that wait for an answer.
    pub fn open_questions(&self) -> impl Iterator<Item = &Question> {
        let live = self.is_live();
        self.questions.iter().filter(move |question| live && question.answer.is_none())
    }

    /// The question that the request of this id carried.
    #[must_use]
    pub fn question_sent_as(&self, request_id: &str) -> Option<(&Question, &Sent)> {
        self.questions.iter().find_map(|question| {
            question.sent.iter().find(|sent| sent.id == request_id).map(|sent| (question, sent))
        })
    }

    /// Whether it can still change.
    #[must_use]
    pub const fn is_live(&self) -> bool {
        self.outcome.is_none()
    }

    /// Whether its caller knows no tasks, and has been told neither of this task nor of its outcome.
    #[must_use]
    pub fn is_undelivered(&self) -> bool {
        self.bridged.is_some_and(|bridged| bridged.undelivered)
    }

    /// Whether it waits for its turn.
    #[must_use]
    pub fn waits(&self) -> bool {
        self.phase() == Phase::Waiting
    }

    /// Present while it is parked.
    #[must_use]
    pub fn parked(&self) -> Option<Parked> {
        match self.phase() {
            Phase::Parked(parked) => Some(parked),
            _ => None,
        }
    }

    /// The run that may append to its journal. `None` if it has no journal, is parked, or has ended.
    #[must_use]
    pub fn journal_fence(&self) -> Option<Fence> {
        let is_free = matches!(self.phase(), Phase::Parked(_) | Phase::Ended(_));
        (self.resume.is_some() && !is_free).then_some(self.fence)
    }

    /// Whether it has ended, and its journal does not stay. The operator may still need that of a stuck task.
    #[must_use]
    pub fn drops_journal(&self) -> bool {
        let drops = |resume: Resume| !resume.is_stuck && !resume.retention.keeps(self.status());
        !self.is_live() && self.resume.is_some_and(drops)
    }

    /// Whether a guest has ever begun to work on it.
    #[must_use]
    pub const fn has_begun(&self) -> bool {
        self.started_at.is_some() || self.fence.attempt > 1
    }

    /// The moment when its ttl passes.
    #[must_use]
    pub const fn expires_at(&self) -> Timestamp {
        self.created_at.plus(self.ttl_ms)
    }

    /// The time of the next duty without a request. A live task ends at its ttl, and an ended one
    /// is removed then. A task that its ttl ended is shown a while longer, so that it does not
    /// vanish silently (T-21).
    #[must_use]
    pub fn due_at(&self) -> Timestamp {
        match &self.outcome {
            Some(Outcome::Expired) => self.updated_at.plus(EXPIRED_KEPT_MS),
            _ => self.expires_at(),
        }
    }

    /// Whether it has ended and its time has passed, so that it reads as unknown.
    #[must_use]
    pub fn is_gone(&self, now: Timestamp) -> bool {
        !self.is_live() && now >= self.due_at()
    }

    /// The task as 2025-11-25 shows it.
    #[must_use]
    pub fn view(&self) -> TaskView {
        Summary::of(self).view()
    }
}

/// The part of a task that a listing needs, without its arguments and its outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// The id of the task.
    pub id: TaskId,
    /// The owner.
    pub owner: Owner,
    /// The tool.
    pub tool: String,
    /// The component.
    pub digest: Digest,
    /// The state of the task.
    pub status: TaskStatus,
    /// The status message of the guest or the host.
    pub status_message: Option<String>,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// The ttl of the task in milliseconds.
    pub ttl_ms: u64,
    /// How often to ask, in milliseconds.
    pub poll_interval_ms: u64,
    /// Present if its caller knows no tasks.
    pub bridged: Option<Bridged>,
    /// Whether a guest has begun to work on it in this attempt.
    pub has_started: bool,
}

impl Summary {
    /// The summary of a task.
    #[must_use]
    pub fn of(task: &Task) -> Self {
        Self {
            id: task.id,
            owner: task.owner.clone(),
            tool: task.tool.clone(),
            digest: task.digest.clone(),
            status: task.status(),
            status_message: task.status_message.clone(),
            created_at: task.created_at,
            updated_at: task.updated_at,
            ttl_ms: task.ttl_ms,
            poll_interval_ms: task.poll_interval_ms,
            bridged: task.bridged,
            has_started: task.started_at.is_some(),
        }
    }

    /// The task as 2025-11-25 shows it.
    #[must_use]
    pub fn view(&self) -> TaskView {
        TaskView {
            id: self.id.to_string(),
            status: self.status,
            status_message: self.status_message.clone(),
            created_at: self.created_at,
            last_updated_at: self.updated_at,
            ttl_ms: self.ttl_ms,
            poll_interval_ms: self.poll_interval_ms,
        }
    }
}
