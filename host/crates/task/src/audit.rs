//! Audit entries (T-43), and the port to the place where they wait for their export.
//!
//! An entry never has arguments, results, the content of a guest's question or of its answer, tokens,
//! or the id of a session, which is the only credential of an anonymous client. Of a client's own texts
//! it has only names, shortened.

pub(crate) mod action;
mod doubt;
mod permission;

use crate::approval::{CONFIRM_KEY, Decision};
use crate::error::{AskError, StoreError};
use crate::event::Event;
use crate::id::{Digest, Owner, SessionId, TaskId};
use crate::task::{Outcome, Summary, Task};
use crate::wire::visible::clip;
use async_trait::async_trait;
use serde::Serialize;
use sha2::{Digest as _, Sha256};
use std::sync::Arc;

/// The longest name of a tool, a prompt, a resource, a rule or a question
/// (characters).
const MAX_NAME: usize = 128;
/// The longest name of a principal (characters).
const MAX_PRINCIPAL: usize = 512;
/// The name of the user of this machine.
pub(crate) const LOCAL: &str = "local";
/// The name of the issuer of the tokens in the configuration.
pub const TOKENS: &str = "token";

pub use action::Action;
pub(crate) use doubt::decider;

/// The actor of an action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct By {
    /// The actor; `None` for the client whose task it is.
    principal: Option<String>,
    session: Option<SessionId>,
    /// The login to the console.
    console: Option<Arc<str>>,
    why: Option<&'static str>,
}

impl By {
    /// The host, of its own accord or for a run.
    #[must_use]
    pub fn host() -> Self {
        Self { principal: Some("host".to_owned()), session: None, console: None, why: None }
    }

    /// The client whose task it is, other than by a request of its own.
    #[must_use]
    pub const fn client() -> Self {
        Self { principal: None, session: None, console: None, why: None }
    }

    /// A principal, in this session if there is one.
    #[must_use]
    pub fn principal(name: &str, session: Option<SessionId>) -> Self {
        Self { principal: Some(clip(name, MAX_PRINCIPAL)), session, console: None, why: None }
    }

    /// The same actor, by this login to the console.
    #[must_use]
    pub fn at_console(self, login: Option<Arc<str>>) -> Self {
        Self { console: login, ..self }
    }

    /// The same actor, with a reason.
    #[must_use]
    pub fn because(self, why: &'static str) -> Self {
        Self { why: Some(why), ..self }
    }
}

/// A line of the audit log, without its id and its time, which the store gives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Entry {
    /// The action.
    pub action: Action,
    /// By whom.
    pub principal: String,
    /// The owner of the task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// The fingerprint of the session; see [`fingerprint`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The login to the console.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub console: Option<Arc<str>>,
    /// The task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskId>,
    /// The tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// The prompt that was refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// The resource that was refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    /// The component that the tool came from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<Digest>,
    /// The plugin that a permission was given or refused to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plugin: Option<String>,
    /// The kind of object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permission: Option<String>,
    /// The request that was under way: its method, and its URL without the query.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
    /// The decision about that request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decision: Option<&'static str>,
    /// The state that the task has now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<&'static str>,
    /// The guest's name for the question.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub question: Option<String>,
    /// The method that the question is asked by.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<&'static str>,
    /// The reason: a word or a sentence of the host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The rule that denied it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// The JSON-RPC code of an error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<i32>,
    /// The number of requests, tasks or entries that this one stands for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
}

impl Entry {
    /// An entry about no task.
    #[must_use]
    pub fn new(action: Action, by: &By) -> Self {
        Self {
            action,
            principal: by.principal.clone().unwrap_or_else(|| "anonymous".to_owned()),
            owner: None,
            session: by.session.as_ref().map(fingerprint),
            console: by.console.clone(),
            task: None,
            tool: None,
            prompt: None,
            resource: None,
            digest: None,
            plugin: None,
            permission: None,
            request: None,
            decision: None,
            status: None,
            question: None,
            method: None,
            reason: by.why.map(str::to_owned),
            rule: None,
            code: None,
            count: None,
        }
    }

    /// An entry about this task.
    #[must_use]
    pub fn about(action: Action, task: &Task, by: &By) -> Self {
        let owner = name_of(&task.owner);
        let session = by.session.as_ref().or(task.session.as_ref());
        Self {
            principal: by.principal.clone().unwrap_or_else(|| owner.clone()),
            owner: Some(owner),
            session: session.map(fingerprint),
            task: Some(task.id),
            tool: Some(short(&task.tool)),
            digest: Some(task.digest.clone()),
            status: Some(task.status().as_str()),
            ..Self::new(action, by)
        }
    }

    /// The creation of a task.
    #[must_use]
    pub fn created(task: &Task, by: &By) -> Self {
        Self::about(Action::Created, task, by)
    }

    /// A new task waits for an approval.
    #[must_use]
    pub fn approval_asked(task: &Task) -> Option<Self> {
        task.open_approval().map(|_| Self::about(Action::ApprovalAsked, task, &By::host()))
    }

    /// An ended task was removed before its ttl had passed, because this limit was reached.
    #[must_use]
    pub fn discarded(task: &Summary, limit: &'static str) -> Self {
        let by = By::host().because(limit);
        Self {
            owner: Some(name_of(&task.owner)),
            task: Some(task.id),
            tool: Some(short(&task.tool)),
            digest: Some(task.digest.clone()),
            status: Some(task.status.as_str()),
            ..Self::new(Action::Discarded, &by)
        }
    }

    /// The outcome of a task is handed out.
    #[must_use]
    pub fn retrieved(task: &Task, by: &By) -> Self {
        Self::about(Action::Retrieved, task, by).with_end(task)
    }

    /// The entries of a change, for the commit that makes it.
    #[must_use]
    pub fn changed(event: &Event, after: &Task, by: &By) -> Vec<Self> {
        let entry = event.row().audit.map(|action| Self::about(action, after, by));
        match (event, entry) {
            (Event::Asked { questions, .. }, Some(entry)) => questions
                .iter()
                .map(|question| Self {
                    question: Some(short(&question.key)),
                    method: Some(question.kind.method()),
                    ..entry.clone()
                })
                .collect(),
            (Event::AskedAgain { key, .. }, Some(entry)) => {
                let method = after.questions.iter().find(|question| question.key == *key);
                let method = method.map(|question| question.kind.method());
                let reason = Some("does not fit".to_owned());
                vec![Self { question: Some(short(key)), reason, method, ..entry }]
            }
            (Event::Answered { key, answer }, Some(entry)) => {
                let code = match answer {
                    Err(AskError::Refused(error)) => Some(error.code),
                    _ => None,
                };
                let reason = Some(AskError::name_of(answer).to_owned());
                let mut entries = vec![Self { question: Some(short(key)), reason, code, ..entry }];
                if key == CONFIRM_KEY {
                    entries.extend(Self::decided(after, by));
                }
                entries
            }
            (Event::Decided { decision, .. }, _) => {
                let note = match decision {
                    Decision::Deny { note } => note.as_deref(),
                    Decision::Approve => None,
                };
                let entries = Self::decided(after, by).into_iter();
                entries
                    .map(|entry| match (note, entry.action) {
                        (Some(note), Action::ApprovalRefused) => entry.for_reason(note),
                        _ => entry,
                    })
                    .collect()
            }
            (Event::ApprovalExpired, Some(entry)) => {
                vec![entry, Self::about(Action::Ended, after, by).with_end(after)]
            }
            (Event::Finished { .. } | Event::Stuck { .. }, Some(entry)) => vec![entry.with_end(after)],
            (Event::Claimed { .. }, Some(entry)) => {
                std::iter::once(entry).chain(Self::approval_asked(after)).collect()
            }
            (_, entry) => entry.into_iter().collect(),
        }
    }

    /// A call was approved, or was denied and has ended with that. Neither, if it still waits.
    fn decided(after: &Task, by: &By) -> Vec<Self> {
        let about = |action| Self::about(action, after, by);
        match &after.approval {
            _ if !after.is_live() => {
                vec![about(Action::ApprovalRefused), about(Action::Ended).with_end(after)]
            }
            Some(approval) if !approval.is_open() => vec![about(Action::ApprovalGiven)],
            _ => Vec::new(),
        }
    }

    /// The loss of this many entries.
    #[must_use]
    pub fn lost(count: u64, why: &'static str) -> Self {
        Self { count: Some(count), ..Self::new(Action::Lost, &By::host().because(why)) }
    }

    /// The same about this tool.
    #[must_use]
    pub fn of_tool(self, name: &str) -> Self {
        Self { tool: Some(short(name)), ..self }
    }

    /// The same about this prompt.
    #[must_use]
    pub fn of_prompt(self, name: &str) -> Self {
        Self { prompt: Some(short(name)), ..self }
    }

    /// The same about this resource.
    #[must_use]
    pub fn of_resource(self, uri: &str) -> Self {
        Self { resource: Some(short(uri)), ..self }
    }

    /// The same by this rule.
    #[must_use]
    pub fn by_rule(self, rule: &str) -> Self {
        Self { rule: Some(short(rule)), ..self }
    }

    /// The same for this reason.
    #[must_use]
    pub fn for_reason(self, reason: &str) -> Self {
        Self { reason: Some(short(reason)), ..self }
    }

    fn with_end(self, task: &Task) -> Self {
        let (reason, code) = match &task.outcome {
            Some(Outcome::Result { is_error: true, .. }) => (Some("tool_error"), None),
            Some(Outcome::Error(error)) => (Some("error"), Some(error.code)),
            Some(Outcome::Result { is_error: false, .. } | Outcome::Cancelled | Outcome::Expired) | None => {
                (None, None)
            }
        };
        Self { reason: reason.map(str::to_owned).or(self.reason), code, ..self }
    }
}

fn short(name: &str) -> String {
    clip(name, MAX_NAME)
}

/// An owner, written like a principal: the session of an anonymous client is left out.
#[must_use]
pub fn name_of(owner: &Owner) -> String {
    match owner {
        Owner::Local => LOCAL.to_owned(),
        Owner::Session(_) | Owner::Anyone => "anonymous".to_owned(),
        Owner::Subject { issuer, subject } => clip(&subject_name(issuer, subject), MAX_PRINCIPAL),
    }
}

/// `token:NAME` for a token of the configuration, else `ISSUER#SUBJECT`: the URL of an issuer has no
/// fragment, so no two subjects look the same.
#[must_use]
pub fn subject_name(issuer: &str, subject: &str) -> String {
    let between = if issuer == TOKENS { ':' } else { '#' };
    format!("{issuer}{between}{subject}")
}

/// An identifier of a session that is useless as a credential: the first 16 hexadecimal digits of
/// the SHA-256 of its id, which has 122 random bits.
#[must_use]
pub fn fingerprint(session: &SessionId) -> String {
    let hash = Sha256::digest(session.0.as_bytes());
    hash.iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

/// The entries of one commit that are not exported yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    /// The number of the batch, which grows and is never reused.
    pub number: u64,
    /// A JSON object per line, each with its id and its time.
    pub lines: Vec<String>,
}

/// The entries that wait for their export. The entries of a change come with the change, through
/// [`crate::TaskStore`]. A store without auditing keeps none.
#[async_trait]
pub trait AuditStore: Send + Sync + 'static {
    /// Accepts an entry that belongs to no change. Does not wait: the entry is written with the
    /// next commit, or soon. The buffer is bounded; an entry says how many were lost.
    fn note(&self, entry: Entry);

    /// The oldest batches that were not exported.
    async fn pending(&self, limit: u32) -> Result<Vec<Batch>, StoreError>;

    /// Forgets the batches up to this number, because they are safe elsewhere. There is no batch 0. All entries that
    /// were accepted before are written when it returns.
    async fn exported(&self, up_to: u64) -> Result<(), StoreError>;

    /// Drops the oldest entries that were not exported, until the rest is no longer than this. An entry
    /// says how many are lost. Returns their number.
    async fn trim(&self, bytes: u64) -> Result<u64, StoreError>;

    /// Returns when something was written through this same object since the last call. Safe to drop
    /// while it waits.
    async fn written(&self);
}

#[cfg(test)]
mod tests;
