//! Checks values that would occupy a thread that serves clients for too long. The checks run on
//! their own threads, in the turns of their account, and within the time and memory of a run.

use crate::limits::cpu_scheduler::CpuScheduler;
use crate::limits::epoch::TICK;
use crate::limits::run_budget::RunBudget;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use toolyard_schema::{Budget, Halt, NODE_BYTES, Schema, Verdict, nodes_of};
use toolyard_task::tool::CheckOrder;
use toolyard_task::wire::RawJson;

/// The maximum number of concurrent checks. Each has a thread, and most of them wait for a turn.
const MAX_CHECKS: usize = 16;
/// Unused accounts are removed each time the number of accounts reaches the map's capacity, from
/// this number on.
const ACCOUNTS_KEPT: usize = 64;

/// Runs long checks.
pub(crate) struct SchemaChecker {
    scheduler: Arc<CpuScheduler>,
    budget: Arc<RunBudget>,
    all: Arc<Semaphore>,
    /// The turn of each account, which runs at most one check at a time.
    accounts: Mutex<HashMap<Arc<str>, Weak<Semaphore>>>,
}

/// The outcome of a long check.
pub(crate) enum CheckEnd {
    Verdict(Verdict),
    /// The caller has cancelled or disconnected.
    Stopped,
    /// The time ran out.
    Spent,
    /// Too little memory is left for the value.
    NoMemory,
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
        Self { scheduler, budget, all: Arc::new(Semaphore::new(MAX_CHECKS)), accounts: Mutex::default() }
    }

    /// Checks a value with at most `time` of computing. Dropping the future stops the check.
    pub async fn check(
        &self,
        schema: Arc<Schema>,
        value: RawJson,
        order: CheckOrder,
        time: Duration,
    ) -> CheckEnd {
        let Some(place) = self.place(&order).await else { return CheckEnd::Stopped };
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
            drop(place);
            checked
        });
        // The task neither panics nor is aborted. A runtime that shuts down ends its runs too.
        checking.await.unwrap_or(CheckEnd::Stopped)
    }

    /// Waits for a slot of this account and for one of the total.
    async fn place(&self, order: &CheckOrder) -> Option<[OwnedSemaphorePermit; 2]> {
        let account = {
            let mut accounts = self.accounts.lock();
            if accounts.len() >= ACCOUNTS_KEPT && accounts.len() == accounts.capacity() {
                accounts.retain(|_, account| account.strong_count() > 0);
            }
            match accounts.get(&order.share.account).and_then(Weak::upgrade) {
                Some(account) => account,
                None => {
                    let account = Arc::new(Semaphore::new(1));
                    accounts.insert(order.share.account.clone(), Arc::downgrade(&account));
                    account
                }
            }
        };
        // The semaphores are never closed.
        Some([account.acquire_owned().await.ok()?, self.all.clone().acquire_owned().await.ok()?])
    }
}

fn check(
    schema: &Schema,
    value: &RawJson,
    budget: &RunBudget,
    time: Duration,
    stopped: impl Fn() -> bool,
    turn: impl Fn(Duration),
) -> CheckEnd {
    if stopped() {
        return CheckEnd::Stopped;
    }
    let bytes = nodes_of(value.as_str()) * NODE_BYTES;
    if !budget.draw(bytes) {
        return CheckEnd::NoMemory;
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
        Ok(verdict) => CheckEnd::Verdict(verdict),
        Err(Halt::Stopped) => CheckEnd::Stopped,
        Err(Halt::Spent | Halt::TooDeep) => CheckEnd::Spent,
    }
}
