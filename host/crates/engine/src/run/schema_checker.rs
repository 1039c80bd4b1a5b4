//! Checks values that would occupy a thread that serves clients for too long. The checks run on
//! their own threads, in the turns of their account, and within the time and memory of a run.

use crate::limits::account_slots::AccountSlots;
use crate::limits::cpu_scheduler::CpuScheduler;
use crate::limits::epoch::TICK;
use crate::limits::failure::Failure;
use crate::limits::run_budget::RunBudget;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use toolyard_schema::{Budget, Halt, NODE_BYTES, Schema, Verdict, nodes_of};
use toolyard_task::tool::CheckOrder;
use toolyard_task::wire::RawJson;

/// The maximum number of concurrent checks. Each has a thread, and most of them wait for a turn.
const MAX_CHECKS: usize = 16;

/// Runs long checks.
pub(crate) struct SchemaChecker {
    scheduler: Arc<CpuScheduler>,
    budget: Arc<RunBudget>,
    /// Each account runs at most one check at a time.
    slots: AccountSlots,
}

/// Stops the check when the waiting future is dropped.
struct StopOnDrop(Arc<AtomicBool>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Memory that was reserved for a check.
struct Drawn<'a> {
    budget: &'a RunBudget,
    bytes: u64,
}

impl Drop for Drawn<'_> {
    fn drop(&mut self) {
        self.budget.give_back(self.bytes);
    }
}

impl SchemaChecker {
    pub fn new(scheduler: Arc<CpuScheduler>, budget: Arc<RunBudget>) -> Self {
        Self { scheduler, budget, slots: AccountSlots::new(MAX_CHECKS, 1) }
    }

    /// Checks a value with at most `time` of computing. Dropping the future stops the check. `None` if the caller has
    /// cancelled or disconnected.
    pub async fn check(
        &self,
        schema: Arc<Schema>,
        value: RawJson,
        order: CheckOrder,
        time: Duration,
    ) -> Result<Option<Verdict>, Failure> {
        let Some(slot) = self.slots.take(&order.share.account).await else { return Ok(None) };
        let dropped = Arc::new(AtomicBool::new(false));
        let _stop = StopOnDrop(dropped.clone());
        let (scheduler, budget, handle) = (self.scheduler.clone(), self.budget.clone(), Handle::current());
        let checking = tokio::task::spawn_blocking(move || {
            let checked = check(
                &schema,
                &value,
                &budget,
                time,
                || dropped.load(Ordering::Relaxed) || (order.stopped)(),
                {
                    let runner = scheduler.runner(order.share.clone());
                    move |computed| handle.block_on(runner.turn(computed))
                },
            );
            drop(slot);
            checked
        });
        // The task neither panics nor is aborted. A runtime that shuts down ends its runs too.
        checking.await.unwrap_or(Ok(None))
    }
}

fn check(
    schema: &Schema,
    value: &RawJson,
    budget: &RunBudget,
    time: Duration,
    stopped: impl Fn() -> bool,
    turn: impl Fn(Duration),
) -> Result<Option<Verdict>, Failure> {
    if stopped() {
        return Ok(None);
    }
    let bytes = nodes_of(value.as_str()) * NODE_BYTES;
    if !budget.draw(bytes) {
        return Err(Failure::NoMemory);
    }
    let _drawn = Drawn { budget, bytes };
    let mut computed = Duration::ZERO;
    let mut charged = Duration::ZERO;
    let mut began = Instant::now();
    let mut look = || {
        if stopped() {
            return Err(Halt::Stopped);
        }
        let now = computed + began.elapsed();
        if now >= time {
            return Err(Halt::Spent);
        }
        if now - charged >= TICK {
            turn(now - charged);
            (computed, charged, began) = (now, now, Instant::now());
        }
        Ok(())
    };
    match schema.check(value, &mut Budget::looked_after(&mut look)) {
        Ok(verdict) => Ok(Some(verdict)),
        Err(Halt::Stopped) => Ok(None),
        Err(Halt::Spent | Halt::TooDeep) => Err(Failure::Cpu),
    }
}
