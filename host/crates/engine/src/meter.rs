//! The processor time of one run, and the decision at each epoch tick.

use crate::host::Run;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use toolyard_task::RunContext;
use toolyard_task::tool::Spent;
use wasmtime::{Store, StoreContextMut, UpdateDeadline};

use crate::epoch::TICK;

/// How long a run has been polled, readable from inside the poll.
pub(crate) struct Meter {
    born: Instant,
    /// Nanoseconds of the polls that are over.
    spent: AtomicU64,
    /// When the present poll began, in nanoseconds after `born`.
    entered: AtomicU64,
    budget: Duration,
    over: AtomicBool,
    /// The linear memory at the end, in bytes; 0 before.
    memory: AtomicU64,
}

impl Meter {
    pub fn new(budget: Duration) -> Self {
        Self {
            born: Instant::now(),
            spent: AtomicU64::new(0),
            entered: AtomicU64::new(0),
            budget,
            over: AtomicBool::new(false),
            memory: AtomicU64::new(0),
        }
    }

    /// When the run began.
    pub fn born(&self) -> Instant {
        self.born
    }

    /// Whether the run was interrupted because its budget was spent.
    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// Notes how much linear memory the run had at its end.
    pub fn had(&self, bytes: u64) {
        self.memory.store(bytes, Ordering::Relaxed);
    }

    /// What the run has taken, between two polls.
    pub fn spent(&self) -> Spent {
        let memory = self.memory.load(Ordering::Relaxed);
        Spent {
            cpu: Duration::from_nanos(self.spent.load(Ordering::Relaxed)),
            wall: self.born.elapsed(),
            memory: (memory > 0).then_some(memory),
        }
    }

    pub fn enter(&self) {
        self.entered.store(self.now(), Ordering::Relaxed);
    }

    pub fn leave(&self) {
        self.spent.fetch_add(self.in_this_poll(), Ordering::Relaxed);
    }

    fn in_this_poll(&self) -> u64 {
        self.now().saturating_sub(self.entered.load(Ordering::Relaxed))
    }

    fn now(&self) -> u64 {
        self.born.elapsed().as_nanos() as u64
    }

    /// Whether the budget is spent; remembered if so.
    fn check(&self, in_this_poll: u64) -> bool {
        let spent = Duration::from_nanos(self.spent.load(Ordering::Relaxed).saturating_add(in_this_poll));
        let over = spent >= self.budget;
        if over {
            self.over.store(true, Ordering::Relaxed);
        }
        over
    }
}

/// Makes the store's guest look up at each tick: stopped or out of processor
/// time, it is interrupted; else it lets others run.
pub(crate) fn arm(store: &mut Store<Run>, meter: &Arc<Meter>, context: &Arc<dyn RunContext>) {
    let meter = meter.clone();
    let context = context.clone();
    store.epoch_deadline_callback(move |_: StoreContextMut<'_, Run>| {
        let in_this_poll = meter.in_this_poll();
        if context.stopped() || meter.check(in_this_poll) {
            return Ok(UpdateDeadline::Interrupt);
        }
        if in_this_poll < TICK.as_nanos() as u64 {
            // The tick came soon after the poll began: a quick call shall end in
            // its first poll wherever the ticks fall.
            return Ok(UpdateDeadline::Continue(1));
        }
        Ok(UpdateDeadline::YieldCustom(1, Box::pin(tokio::task::yield_now())))
    });
    store.set_epoch_deadline(1);
}
