//! What the clients of a run share: which tasks there are, what they did and heard, and
//! where the hosts are.

use crate::history::{Call, Form, Moment, Op, State, Status};
use serde_json::Value;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use tokio::sync::{RwLock, watch};

/// What a task is like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Over in milliseconds; must not run twice.
    Quick,
    /// Outlives every host; must not run twice.
    Long,
    /// Takes a moment, and may be run again.
    Again,
    /// Asks; must not run twice.
    Asks,
    /// Asks, and may be run again.
    AsksAgain,
}

impl Kind {
    pub const fn tool(self) -> &'static str {
        if self.may_run_again() { "again" } else { "once" }
    }

    pub const fn may_run_again(self) -> bool {
        matches!(self, Self::Again | Self::AsksAgain)
    }

    pub const fn asks(self) -> bool {
        matches!(self, Self::Asks | Self::AsksAgain)
    }
}

/// A process that is a host, and where it is. Ports come again, numbers do not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seat {
    pub number: u32,
    pub port: u16,
}

/// A task whose creation was acknowledged.
#[derive(Debug, Clone)]
pub(crate) struct Made {
    pub id: String,
    /// The number of the host that acknowledged it.
    pub at: u32,
    /// What its effects are counted under.
    pub key: String,
    pub person: usize,
    pub kind: Kind,
    /// Whether its runs are counted outside.
    pub sends: bool,
    /// The last state that was seen, once it is over.
    pub over: Option<(Status, Option<String>)>,
}

/// What happened since the last look at it.
#[derive(Debug, Default)]
struct Life {
    calls: Vec<Call>,
    /// Tasks that are certain to go on: nobody has cancelled or answered them.
    live: HashSet<usize>,
    finished: usize,
}

#[derive(Default)]
struct Inner {
    made: Vec<Made>,
    by_id: HashMap<String, usize>,
    life: Life,
    counts: BTreeMap<&'static str, u64>,
    odd: Vec<String>,
    serial: u64,
}

pub(crate) struct Board {
    /// Where the hosts are; changed when one goes, or comes.
    pub seats: watch::Sender<Vec<Seat>>,
    /// Held by who makes a step. All rest while it is taken for writing.
    pub turn: RwLock<()>,
    began: Instant,
    inner: Mutex<Inner>,
}

impl Board {
    pub fn new(seats: Vec<Seat>) -> Self {
        Self {
            seats: watch::channel(seats).0,
            turn: RwLock::default(),
            began: Instant::now(),
            inner: Mutex::default(),
        }
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

    /// Something that must not be, which no rule has a name for.
    pub fn odd(&self, what: String) {
        self.lock().odd.push(what);
    }

    pub fn has_odd(&self) -> bool {
        !self.lock().odd.is_empty()
    }

    pub fn take_odd(&self) -> Vec<String> {
        std::mem::take(&mut self.lock().odd)
    }

    /// A number that nobody else has.
    pub fn serial(&self) -> u64 {
        let mut inner = self.lock();
        inner.serial += 1;
        inner.serial
    }

    pub fn log(&self, who: u32, task: &str, sent: Moment, answered: Option<Moment>, op: Op) {
        let call = Call { who, task: task.to_owned(), sent, answered, op };
        self.lock().life.calls.push(call);
    }

    pub fn created(&self, made: Made) {
        let mut inner = self.lock();
        let number = inner.made.len();
        if made.kind == Kind::Long || made.kind.asks() {
            inner.life.live.insert(number);
        }
        inner.by_id.insert(made.id.clone(), number);
        inner.made.push(made);
    }

    /// Somebody is about to do what may end it.
    pub fn touched(&self, id: &str) {
        let mut inner = self.lock();
        if let Some(number) = inner.by_id.get(id).copied() {
            inner.life.live.remove(&number);
        }
    }

    /// Logs how a task was shown, as either generation shows it.
    pub fn saw(&self, who: u32, sent: Moment, task: &Value) {
        let answered = self.now();
        let id = task["taskId"].as_str().unwrap_or_default();
        let text = |member: &str| task[member].as_str().map(str::to_owned);
        // T-18 and 26T-13: of a tool that failed, one says so and the other that it is done.
        let status = match (task["status"].as_str(), &task["result"]["isError"]) {
            (Some("completed"), Value::Bool(true)) => Some(Status::Failed),
            (status, _) => status.and_then(Status::named),
        };
        let (Some(status), Some(created), Some(updated)) = (status, text("createdAt"), text("lastUpdatedAt"))
        else {
            return self.odd(format!("no task: {task}"));
        };
        let message = text("statusMessage");
        let mut inner = self.lock();
        let op = Op::Saw(State { status, created, updated, message: message.clone() });
        inner.life.calls.push(Call { who, task: id.to_owned(), sent, answered: Some(answered), op });
        if !status.is_terminal() {
            return;
        }
        let Some(number) = inner.by_id.get(id).copied() else { return };
        inner.life.live.remove(&number);
        if inner.made[number].over.is_none() {
            inner.made[number].over = Some((status, message));
            inner.life.finished += 1;
        }
    }

    pub fn result(&self, who: u32, id: &str, sent: Moment, form: Form, (bytes, by_tool): (String, bool)) {
        self.log(who, id, sent, Some(self.now()), Op::Result { form, bytes, by_tool });
    }

    /// Tasks that are certain to go on unless their host was lost, and tasks that ended since
    /// the last look.
    pub fn standing(&self) -> (usize, usize) {
        let inner = self.lock();
        (inner.life.live.len(), inner.life.finished)
    }

    pub fn all(&self) -> Vec<Made> {
        self.lock().made.clone()
    }

    pub fn len(&self) -> usize {
        self.lock().made.len()
    }

    /// The `n`th of the last so many, counted round.
    pub fn nth(&self, n: u64, last: usize) -> Option<Made> {
        let inner = self.lock();
        let from = &inner.made[inner.made.len().saturating_sub(last)..];
        from.get(n as usize % from.len().max(1)).cloned()
    }

    /// Tasks that nobody has seen end.
    pub fn unsettled(&self) -> Vec<Made> {
        self.lock().made.iter().filter(|made| made.over.is_none()).cloned().collect()
    }

    pub fn is_over(&self, id: &str) -> bool {
        let inner = self.lock();
        inner.by_id.get(id).is_some_and(|number| inner.made[*number].over.is_some())
    }

    /// Those of them that this host acknowledged.
    pub fn unsettled_of(&self, host: u32) -> Vec<Made> {
        let mut unsettled = self.unsettled();
        unsettled.retain(|made| made.at == host);
        unsettled
    }

    /// Tasks that were made after so many others.
    pub fn made_after(&self, others: usize) -> Vec<Made> {
        self.lock().made[others..].to_vec()
    }

    /// The calls since the last time, every one of which is over: the only host is dead.
    pub fn next_life(&self) -> Vec<Call> {
        std::mem::take(&mut self.lock().life).calls
    }

    /// The same where every client rests, and tasks go on.
    pub fn next_round(&self) -> Vec<Call> {
        let life = &mut self.lock().life;
        life.finished = 0;
        std::mem::take(&mut life.calls)
    }
}
