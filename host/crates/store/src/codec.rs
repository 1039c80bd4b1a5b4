//! The stored format of a task: its record as JSON, which any tool can read; its arguments
//! unchanged; its outcome as one letter followed by the bytes of the result, so that a result of
//! megabytes is neither escaped nor scanned.

use crate::key_id::KeyId;
use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use toolyard_task::session::Session;
use toolyard_task::store::CreateError;
use toolyard_task::task::{Bridged, Summary, Task};
use toolyard_task::wire::{RawJson, RpcError, TaskStatus, Timestamp};
use toolyard_task::{Digest, Outcome, Owner, StoreError, TaskId};

const RESULT: u8 = b'r';
const TOOL_ERROR: u8 = b'e';
const RPC_ERROR: u8 = b'j';
const CANCELLED: u8 = b'c';
const EXPIRED: u8 = b'x';

/// Why bytes are not valid in this format.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CodecError {
    #[error("the record is not the JSON it should be")]
    Json(#[from] serde_json::Error),
    #[error("the outcome begins with {0:?}, which means nothing")]
    Outcome(Option<u8>),
    #[error("{0} is not the number of a status")]
    Status(i64),
    #[error("an id or a key has {0} bytes")]
    Length(usize),
    #[error("{0} is not the number of a kind of event")]
    Event(i16),
    #[error("the body of an event is not the JSON it should be")]
    Body(#[source] toolyard_task::wire::RawJsonError),
    #[error("the lines are not UTF-8")]
    NotText,
    #[error("it is the record of another task, {0}")]
    OtherTask(TaskId),
    #[error("it is encrypted with the key {0}, which is not among those of this process")]
    NoKey(KeyId),
    #[error("it is not what was encrypted here with the key {0}")]
    Forged(KeyId),
    #[error("it is neither plain nor encrypted")]
    NotSealed,
    #[error("it is too long to be encrypted")]
    TooLong,
    #[error("the number of a chunk is out of its bounds")]
    TooManyChunks,
    #[error("chunk {0} of the journal is missing")]
    MissingChunk(u32),
    #[error("a chunk of the journal is damaged")]
    Chunk(#[source] toolyard_journal::DecodeError),
    #[error("the bytes of the component have another digest")]
    OtherComponent,
    #[error("cannot get a nonce from the operating system: {0}")]
    NoChance(getrandom::Error),
}

impl From<CodecError> for StoreError {
    fn from(error: CodecError) -> Self {
        Self::Corrupt(error.into())
    }
}

impl From<CodecError> for CreateError {
    fn from(error: CodecError) -> Self {
        Self::Store(error.into())
    }
}

/// A session or a grant as JSON, or a task without its arguments and its outcome.
pub(crate) fn encode(record: &impl Serialize) -> Result<String, CodecError> {
    Ok(serde_json::to_string(record)?)
}

/// The session or grant of a record that [`encode`] wrote.
pub(crate) fn decode<T: DeserializeOwned>(record: &str) -> Result<T, CodecError> {
    Ok(serde_json::from_str(record)?)
}

/// The record of a stored session with the values that its client can set, taken from `set`.
pub(crate) fn remembered(record: &str, set: &Session) -> Result<String, CodecError> {
    let stored = decode(record)?;
    let (log_level, subscriptions) = (set.log_level.clone(), set.subscriptions.clone());
    encode(&Session { log_level, subscriptions, task_aware: set.task_aware, ..stored })
}

pub(crate) fn outcome(outcome: &Outcome) -> Result<Vec<u8>, CodecError> {
    let (letter, body) = match outcome {
        Outcome::Result { is_error: false, result } => (RESULT, result.bytes()),
        Outcome::Result { is_error: true, result } => (TOOL_ERROR, result.bytes()),
        Outcome::Error(error) => (RPC_ERROR, serde_json::to_vec(error)?.into()),
        Outcome::Cancelled => (CANCELLED, Bytes::new()),
        Outcome::Expired => (EXPIRED, Bytes::new()),
    };
    let mut text = Vec::with_capacity(1 + body.len());
    text.push(letter);
    text.extend_from_slice(&body);
    Ok(text)
}

/// The task that these three parts encode.
pub(crate) fn task(record: &str, arguments: Vec<u8>, outcome: Option<Vec<u8>>) -> Result<Task, CodecError> {
    let mut task: Task = serde_json::from_str(record)?;
    task.arguments = json(arguments.into())?;
    task.outcome = outcome.map(read_outcome).transpose()?;
    Ok(task)
}

fn read_outcome(text: Vec<u8>) -> Result<Outcome, CodecError> {
    let text = Bytes::from(text);
    let letter = text.first().copied();
    let body = text.slice(text.len().min(1)..);
    match letter {
        Some(RESULT) => Ok(Outcome::Result { is_error: false, result: json(body)? }),
        Some(TOOL_ERROR) => Ok(Outcome::Result { is_error: true, result: json(body)? }),
        Some(RPC_ERROR) => Ok(Outcome::Error(serde_json::from_slice::<RpcError>(&body)?)),
        Some(CANCELLED) => Ok(Outcome::Cancelled),
        Some(EXPIRED) => Ok(Outcome::Expired),
        other => Err(CodecError::Outcome(other)),
    }
}

/// The JSON that was written. It is validated, because the file has no checksums, and the contents
/// of a damaged page must not be passed on as JSON.
fn json(text: Bytes) -> Result<RawJson, CodecError> {
    serde_json::from_slice::<&RawValue>(&text)?;
    Ok(RawJson::trusted(text))
}

/// The fields of a record that a listing needs; the decoder skips the rest.
#[derive(Deserialize)]
struct Listed {
    owner: Owner,
    tool: String,
    digest: Digest,
    status_message: Option<String>,
    ttl_ms: u64,
    poll_interval_ms: u64,
    #[serde(default)]
    bridged: Option<Bridged>,
    started_at: Option<Timestamp>,
}

/// The columns that a summary needs in addition to a record.
pub(crate) struct Columns {
    pub(crate) id: TaskId,
    pub(crate) status: i64,
    pub(crate) created: i64,
    pub(crate) updated: i64,
}

pub(crate) fn summary(columns: &Columns, record: &str) -> Result<Summary, CodecError> {
    let listed: Listed = serde_json::from_str(record)?;
    Ok(Summary {
        id: columns.id,
        owner: listed.owner,
        tool: listed.tool,
        digest: listed.digest,
        status: read_status(columns.status)?,
        status_message: listed.status_message,
        created_at: Timestamp(columns.created),
        updated_at: Timestamp(columns.updated),
        ttl_ms: listed.ttl_ms,
        poll_interval_ms: listed.poll_interval_ms,
        bridged: listed.bridged,
        has_started: listed.started_at.is_some(),
    })
}

/// The number by which a status is indexed. The live ones come first, so that one comparison
/// selects them.
pub(crate) const fn status(status: TaskStatus) -> i64 {
    match status {
        TaskStatus::Working => 1,
        TaskStatus::InputRequired => 2,
        TaskStatus::Completed => 3,
        TaskStatus::Failed => 4,
        TaskStatus::Cancelled => 5,
    }
}

/// The largest number of a live status. The schema repeats it, since a partial index is only used
/// if the query contains the same literal condition.
pub(crate) const LAST_LIVE: i64 = 2;

/// When a parked task is due, as a column; `i64::MAX` if only an answer makes it due. `None` if it is not
/// parked.
pub(crate) fn wake(task: &Task) -> Option<i64> {
    task.parked().map(|parked| parked.wake.map_or(i64::MAX, |wake| wake.0))
}

/// Among so many of the parked tasks that have been due for longest, owners take turns. More than `tasks.live` admits
/// by default: one owner must not fill it.
pub(crate) const IN_TURNS: i64 = 65_536;

/// All statuses.
pub(crate) const STATUSES: [TaskStatus; 5] = [
    TaskStatus::Working,
    TaskStatus::InputRequired,
    TaskStatus::Completed,
    TaskStatus::Failed,
    TaskStatus::Cancelled,
];

pub(crate) fn read_status(number: i64) -> Result<TaskStatus, CodecError> {
    STATUSES.into_iter().find(|known| status(*known) == number).ok_or(CodecError::Status(number))
}

#[cfg(test)]
mod tests;
