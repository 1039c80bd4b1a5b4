//! The processor time of one run, and the decision at each epoch tick.

use crate::limits::cpu_scheduler::{CpuScheduler, ScheduledRun};
use crate::limits::epoch::TICK;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use toolyard_task::RunContext;
use toolyard_task::tool::RunUsage;
use wasmtime::{Store, StoreContextMut, UpdateDeadline};

/// No poll is under way.
const NO_POLL: u64 = u64::MAX;

/// How long a run has been polled. It can be read during a poll.
pub(crate) struct CpuMeter {
    born: Instant,
    /// Nanoseconds of the completed polls.
    spent: AtomicU64,
    /// When the current poll began, in nanoseconds after `born`; [`NO_POLL`] between two polls.
    entered: AtomicU64,
    /// In nanoseconds.
    budget: AtomicU64,
    over: AtomicBool,
    /// The linear memory at the end of the run, in bytes; 0 until then.
    memory: AtomicU64,
    /// The processor time already charged by the CPU scheduler, in nanoseconds.
    charged: AtomicU64,
    /// The entry of the run in the CPU scheduler, from its first long poll on.
    runner: OnceLock<ScheduledRun>,
}

impl CpuMeter {
    pub fn new(budget: Duration) -> Self {
        Self {
            born: Instant::now(),
            spent: AtomicU64::new(0),
            entered: AtomicU64::new(NO_POLL),
            budget: AtomicU64::new(nanos(budget)),
            over: AtomicBool::new(false),
            memory: AtomicU64::new(0),
            charged: AtomicU64::new(0),
            runner: OnceLock::new(),
        }
    }

    /// Changes the budget.
    pub fn set_budget(&self, budget: Duration) {
        self.budget.store(nanos(budget), Ordering::Relaxed);
    }

    /// The processor time of the run, the current poll included.
    pub fn spent_now(&self) -> Duration {
        Duration::from_nanos(self.computed(self.in_this_poll()))
    }

    /// When the run began.
    pub fn born(&self) -> Instant {
        self.born
    }

    /// Whether the run was interrupted because its budget was spent.
    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// Records how much linear memory the run had at its end.
    pub fn had(&self, bytes: u64) {
        self.memory.store(bytes, Ordering::Relaxed);
    }

    /// The resources that the run has used. To be called between two polls.
    pub fn spent(&self) -> RunUsage {
        let memory = self.memory.load(Ordering::Relaxed);
        RunUsage {
            cpu: Duration::from_nanos(self.spent.load(Ordering::Relaxed)),
            wall: self.born.elapsed(),
            memory: (memory > 0).then_some(memory),
        }
    }

    pub fn enter(&self) {
        self.entered.store(self.now(), Ordering::Relaxed);
    }

    /// Ends a poll and returns its duration.
    pub fn leave(&self) -> Duration {
        let took = self.in_this_poll();
        self.entered.store(NO_POLL, Ordering::Relaxed);
        self.spent.fetch_add(took, Ordering::Relaxed);
        Duration::from_nanos(took)
    }

    /// Releases the turn of a guest that waits in the host.
    pub fn rest(&self) {
        if let Some(runner) = self.runner.get() {
            runner.rest();
        }
    }

    /// Takes the computing time that has not been charged yet.
    fn charge(&self, in_this_poll: u64) -> Duration {
        let computed = self.computed(in_this_poll);
        let charged = self.charged.swap(computed, Ordering::Relaxed);
        Duration::from_nanos(computed.saturating_sub(charged))
    }

    /// The guest's total computing time, in nanoseconds.
    fn computed(&self, in_this_poll: u64) -> u64 {
        self.spent.load(Ordering::Relaxed).saturating_add(in_this_poll)
    }

    fn in_this_poll(&self) -> u64 {
        // Between two polls this is zero.
        self.now().saturating_sub(self.entered.load(Ordering::Relaxed))
    }

    fn now(&self) -> u64 {
        self.born.elapsed().as_nanos() as u64
    }

    /// Whether the budget is spent. Records it if so.
    fn check(&self, in_this_poll: u64) -> bool {
        let over = self.computed(in_this_poll) >= self.budget.load(Ordering::Relaxed);
        if over {
            self.over.store(true, Ordering::Relaxed);
        }
        over
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Checks the store's guest at each tick. A guest that was stopped or has no processor time left is
/// interrupted. Any other guest waits for its next turn.
pub(crate) fn arm<T: 'static>(
    store: &mut Store<T>,
    scheduler: &Arc<CpuScheduler>,
    meter: &Arc<CpuMeter>,
    context: &Arc<dyn RunContext>,
) {
    let scheduler = scheduler.clone();
    let meter = meter.clone();
    let context = context.clone();
    store.epoch_deadline_callback(move |_: StoreContextMut<'_, T>| {
        let in_this_poll = meter.in_this_poll();
        if context.stopped() || meter.check(in_this_poll) {
            return Ok(UpdateDeadline::Interrupt);
        }
        if in_this_poll < TICK.as_nanos() as u64 {
            // The tick came soon after the poll began. A quick call should end in its first poll
            // wherever the ticks fall.
            return Ok(UpdateDeadline::Continue(1));
        }
        let runner = meter.runner.get_or_init(|| scheduler.runner(context.share()));
        Ok(UpdateDeadline::YieldCustom(1, Box::pin(runner.turn(meter.charge(in_this_poll)))))
    });
    store.set_epoch_deadline(1);
}
