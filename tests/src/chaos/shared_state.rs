//! The shared state of the clients of a run: the tasks, the calls and their answers, and the addresses of the
//! hosts.

use super::sagas::SagaResult;
use crate::history::{Call, Form, Moment, Op, State, Status};
use serde_json::Value;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use tokio::sync::{RwLock, watch};

/// The behaviour of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Ends in milliseconds; must not run twice.
    Quick,
    /// Outlives every host; must not run twice.
    Long,
    /// Takes a moment, and may be run again.
    Again,
    /// Ends in milliseconds with an error of the tool; must not run twice.
    Fails,
    /// Ends in milliseconds with an error of the protocol; must not run twice.
    FailsInProtocol,
    /// Asks a question; must not run twice.
    Asks,
    /// Asks a question, and may be run again.
    AsksAgain,
    /// Has effects in several steps, asks a question, and resumes; a request in doubt is sent again.
    Saga,
    /// The same without a question; a request in doubt ends it.
    StrictSaga,
}

impl Kind {
    pub const fn tool(self) -> &'static str {
        match self {
            Self::Again | Self::AsksAgain => "again",
            Self::Saga => "chances",
            Self::StrictSaga => "strict_chances",
            _ => "once",
        }
    }

    pub const fn asks(self) -> bool {
        matches!(self, Self::Asks | Self::AsksAgain | Self::Saga)
    }

    pub const fn resumes(self) -> bool {
        matches!(self, Self::Saga | Self::StrictSaga)
    }
}

/// A host process, and its port. The ports are reused, the numbers are not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HostAddress {
    pub number: u32,
    pub port: u16,
}

/// A task whose creation was acknowledged.
#[derive(Debug, Clone)]
pub(crate) struct CreatedTask {
    pub id: String,
    /// The number of the host that acknowledged it.
    pub at: u32,
    /// The key under which the sink counts its effects.
    pub key: String,
    pub principal: usize,
    pub kind: Kind,
    /// Whether the sink counts its runs.
    pub sends: bool,
    /// Its terminal status and message, once a client has seen them.
    pub over: Option<(Status, Option<String>)>,
}

/// The events since the last check.
#[derive(Debug, Default)]
struct Interval {
    calls: Vec<Call>,
    /// Tasks that are certainly live: no client has cancelled or answered them.
    live: HashSet<usize>,
    finished: usize,
}

#[derive(Default)]
struct Inner {
    made: Vec<CreatedTask>,
    by_id: HashMap<String, usize>,
    /// The results of sagas, by the id of the task.
    sagas: HashMap<String, SagaResult>,
    interval: Interval,
    counts: BTreeMap<&'static str, u64>,
    unexpected: Vec<String>,
    serial: u64,
}

pub(crate) struct SharedState {
    /// The addresses of the hosts; changes when a host starts or ends.
    pub addresses: watch::Sender<Vec<HostAddress>>,
    /// Each client holds it for reading during a step. Taking it for writing pauses all clients.
    pub turn: RwLock<()>,
    began: Instant,
    inner: Mutex<Inner>,
}

impl SharedState {
    pub fn new(addresses: Vec<HostAddress>) -> Self {
        let addresses = watch::channel(addresses).0;
        Self { addresses, turn: RwLock::default(), began: Instant::now(), inner: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn now(&self) -> Moment {
        self.began.elapsed().as_nanos() as Moment
    }

    pub fn count(&self, what: &'static str) {
        *self.lock().counts.entry(what).or_default() += 1;
    }

    pub fn counts(&self) -> BTreeMap<&'static str, u64> {
        self.lock().counts.clone()
    }

    /// Reports an invalid observation that no rule has a name for.
    pub fn unexpected(&self, what: String) {
        self.lock().unexpected.push(what);
    }

    pub fn take_unexpected(&self) -> Vec<String> {
        std::mem::take(&mut self.lock().unexpected)
    }

    /// A unique number.
    pub fn serial(&self) -> u64 {
        let mut inner = self.lock();
        inner.serial += 1;
        inner.serial
    }

    pub fn log(&self, task: &str, sent: Moment, answered: Option<Moment>, op: Op) {
        let call = Call { task: task.to_owned(), sent, answered, op };
        self.lock().interval.calls.push(call);
    }

    pub fn created(&self, made: CreatedTask) {
        let mut inner = self.lock();
        let number = inner.made.len();
        if made.kind == Kind::Long || made.kind.asks() {
            inner.interval.live.insert(number);
        }
        inner.by_id.insert(made.id.clone(), number);
        inner.made.push(made);
    }

    /// Marks a task before a client does something that may end it.
    pub fn touched(&self, id: &str) {
        let mut inner = self.lock();
        if let Some(number) = inner.by_id.get(id).copied() {
            inner.interval.live.remove(&number);
        }
    }

    /// Logs the state that an answer of either generation showed.
    pub fn saw(&self, sent: Moment, task: &Value) {
        let answered = self.now();
        let id = task["taskId"].as_str().unwrap_or_default();
        let text = |member: &str| task[member].as_str().map(str::to_owned);
        // T-18 and 26T-13: if the tool failed, a session reports a failed task, and 2026-07-28 a completed
        // one.
        let status = match (task["status"].as_str(), &task["result"]["isError"]) {
            (Some("completed"), Value::Bool(true)) => Some(Status::Failed),
            (status, _) => status.and_then(Status::named),
        };
        let (Some(status), Some(created), Some(updated)) = (status, text("createdAt"), text("lastUpdatedAt"))
        else {
            return self.unexpected(format!("no task: {task}"));
        };
        let message = text("statusMessage");
        let mut inner = self.lock();
        let op = Op::Saw(State { status, created, updated, message: message.clone() });
        inner.interval.calls.push(Call { task: id.to_owned(), sent, answered: Some(answered), op });
        if !status.is_terminal() {
            return;
        }
        let Some(number) = inner.by_id.get(id).copied() else { return };
        inner.interval.live.remove(&number);
        if inner.made[number].over.is_none() {
            inner.made[number].over = Some((status, message));
            inner.interval.finished += 1;
        }
    }

    pub fn result(&self, id: &str, sent: Moment, form: Form, (bytes, by_tool): (String, bool)) {
        let mut inner = self.lock();
        let kind = inner.by_id.get(id).map(|number| inner.made[*number].kind);
        if let Some(kind) = kind.filter(|kind| by_tool && kind.resumes())
            && !inner.sagas.contains_key(id)
        {
            match SagaResult::read(kind, &bytes) {
                Ok(result) => inner.sagas.extend(result.map(|result| (id.to_owned(), result))),
                Err(error) => inner.unexpected.push(format!("the result of {id}: {error}: {bytes}")),
            }
        }
        drop(inner);
        self.log(id, sent, Some(self.now()), Op::Result { form, bytes, by_tool });
    }

    pub fn saga_results(&self) -> HashMap<String, SagaResult> {
        self.lock().sagas.clone()
    }

    /// The number of tasks that are certainly live unless their host was lost, and of tasks that ended since
    /// the last check.
    pub fn live_and_finished(&self) -> (usize, usize) {
        let inner = self.lock();
        (inner.interval.live.len(), inner.interval.finished)
    }

    pub fn all(&self) -> Vec<CreatedTask> {
        self.lock().made.clone()
    }

    pub fn len(&self) -> usize {
        self.lock().made.len()
    }

    /// The `n`th of the last `last` tasks, modulo their number.
    pub fn nth(&self, n: u64, last: usize) -> Option<CreatedTask> {
        let inner = self.lock();
        let from = &inner.made[inner.made.len().saturating_sub(last)..];
        from.get(n as usize % from.len().max(1)).cloned()
    }

    /// Tasks whose end no client has seen.
    pub fn unsettled(&self) -> Vec<CreatedTask> {
        self.lock().made.iter().filter(|made| made.over.is_none()).cloned().collect()
    }

    pub fn is_over(&self, id: &str) -> bool {
        let inner = self.lock();
        inner.by_id.get(id).is_some_and(|number| inner.made[*number].over.is_some())
    }

    /// The unsettled tasks that this host acknowledged.
    pub fn unsettled_of(&self, host: u32) -> Vec<CreatedTask> {
        let mut unsettled = self.unsettled();
        unsettled.retain(|made| made.at == host);
        unsettled
    }

    /// The tasks after the first `others` ones.
    pub fn made_after(&self, others: usize) -> Vec<CreatedTask> {
        self.lock().made[others..].to_vec()
    }

    /// The calls since the last check, all of which have ended: the only host is dead.
    pub fn calls_until_kill(&self) -> Vec<Call> {
        std::mem::take(&mut self.lock().interval).calls
    }

    /// The same while all clients pause and tasks continue.
    pub fn calls_so_far(&self) -> Vec<Call> {
        let interval = &mut self.lock().interval;
        interval.finished = 0;
        std::mem::take(&mut interval.calls)
    }
}
