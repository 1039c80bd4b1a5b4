//! Schedules turns to compute. A guest that computes for longer than a tick needs a turn for each
//! further tick. The number of concurrent turns equals the number of threads that run guests.
//!
//! The next turn is assigned by stride scheduling: each account has a pass, which advances by the
//! time that its runs computed, divided by its weight. The account with the lowest pass goes first.
//! So an account with a hundred runs and an account with one run get the same time, and a guest
//! that has just begun does not wait.
//!
//! Code that depends on wasmtime, and the reasons why a guest yields, do not belong here.

use parking_lot::Mutex;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use toolyard_task::tool::CpuShare;

/// Assigns turns.
pub(crate) struct CpuScheduler {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The number of free turns.
    free: u32,
    /// The pass of the account that got the last turn. New accounts start here, so that an account
    /// saves up no time while it is absent.
    now: u64,
    accounts: HashMap<Arc<str>, Account>,
    /// Accounts with waiting runs, by pass.
    order: BinaryHeap<Reverse<(u64, Arc<str>)>>,
}

#[derive(Default)]
struct Account {
    pass: u64,
    /// The number of its runs, whether they compute or wait.
    runs: u32,
    waiting: VecDeque<Arc<Mutex<TurnState>>>,
}

/// The state of a run.
#[derive(Default)]
enum TurnState {
    /// The run needs no turn, because it has only just begun to compute or waits in the host.
    #[default]
    Away,
    /// The run waits for a turn.
    Waiting(Waker),
    /// The run was assigned a turn and has not started it yet.
    Called,
    /// The run computes.
    Computing,
}

impl TurnState {
    fn has_turn(&self) -> bool {
        matches!(self, Self::Called | Self::Computing)
    }
}

/// A run in the scheduler. Dropping it releases its turn.
pub(crate) struct ScheduledRun {
    scheduler: Arc<CpuScheduler>,
    share: CpuShare,
    turn_state: Arc<Mutex<TurnState>>,
}

impl CpuScheduler {
    /// Creates a scheduler with this many concurrent turns.
    pub fn new(turns: u32) -> Arc<Self> {
        Arc::new(Self { state: Mutex::new(State { free: turns.max(1), ..State::default() }) })
    }

    /// Registers a run.
    pub fn runner(self: &Arc<Self>, share: CpuShare) -> ScheduledRun {
        let mut state = self.state.lock();
        let now = state.now;
        let account = state.accounts.entry(share.account.clone()).or_default();
        if account.runs == 0 {
            account.pass = account.pass.max(now);
        }
        account.runs += 1;
        drop(state);
        ScheduledRun { scheduler: self.clone(), share, turn_state: Arc::default() }
    }

    /// Changes the state and wakes the runs that get a turn.
    fn update(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.state.lock();
        change(&mut state);
        let called = state.call();
        drop(state);
        called.into_iter().for_each(Waker::wake);
    }
}

impl State {
    /// Charges an account for the computing time of one of its runs.
    fn charge(&mut self, share: &CpuShare, time: Duration) {
        if let Some(account) = self.accounts.get_mut(&share.account) {
            let stride = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX) / u64::from(share.weight.max(1));
            account.pass = account.pass.saturating_add(stride.max(1));
        }
    }

    fn line_up(&mut self, share: &CpuShare, turn_state: &Arc<Mutex<TurnState>>) {
        let Some(account) = self.accounts.get_mut(&share.account) else { return };
        account.waiting.push_back(turn_state.clone());
        if account.waiting.len() == 1 {
            self.order.push(Reverse((account.pass, share.account.clone())));
        }
    }

    /// Assigns the free turns to waiting runs. Returns the wakers of these runs.
    fn call(&mut self) -> Vec<Waker> {
        let mut called = Vec::new();
        while self.free > 0 {
            let Some(Reverse((pass, name))) = self.order.pop() else { break };
            let Some(account) = self.accounts.get_mut(&name) else { continue };
            if account.waiting.is_empty() {
                continue;
            }
            if account.pass > pass {
                // The account was charged since it entered the queue.
                self.order.push(Reverse((account.pass, name)));
                continue;
            }
            let Some(turn_state) = account.waiting.pop_front() else { continue };
            if !account.waiting.is_empty() {
                self.order.push(Reverse((account.pass, name)));
            }
            let mut turn_state = turn_state.lock();
            // A run that is no longer waiting was dropped.
            if let TurnState::Waiting(waker) = std::mem::replace(&mut *turn_state, TurnState::Called) {
                self.now = self.now.max(pass);
                self.free -= 1;
                called.push(waker);
            } else {
                *turn_state = TurnState::Away;
            }
        }
        called
    }
}

impl ScheduledRun {
    /// Charges the time computed since the last turn and waits for the next one. Always yields
    /// once, so that others can run.
    pub fn turn(&self, computed: Duration) -> impl Future<Output = ()> + Send + 'static {
        Turn {
            scheduler: self.scheduler.clone(),
            share: self.share.clone(),
            turn_state: self.turn_state.clone(),
            computed: Some(computed),
        }
    }

    /// Releases the turn of a guest that waits in the host.
    pub fn rest(&self) {
        let mut turn_state = self.turn_state.lock();
        if matches!(*turn_state, TurnState::Computing) {
            *turn_state = TurnState::Away;
            drop(turn_state);
            self.scheduler.update(|state| state.free += 1);
        }
    }
}

impl Drop for ScheduledRun {
    fn drop(&mut self) {
        let had = std::mem::take(&mut *self.turn_state.lock());
        self.scheduler.update(|state| {
            if let Some(account) = state.accounts.get_mut(&self.share.account) {
                account.waiting.retain(|turn_state| !Arc::ptr_eq(turn_state, &self.turn_state));
                account.runs -= 1;
                if account.runs == 0 {
                    state.accounts.remove(&self.share.account);
                }
            }
            state.free += u32::from(had.has_turn());
        });
    }
}

/// Waits for a turn.
struct Turn {
    scheduler: Arc<CpuScheduler>,
    share: CpuShare,
    turn_state: Arc<Mutex<TurnState>>,
    /// The time to charge; taken at the first poll.
    computed: Option<Duration>,
}

impl Future for Turn {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Some(computed) = self.computed.take() else {
            let mut turn_state = self.turn_state.lock();
            return match &mut *turn_state {
                TurnState::Called => {
                    *turn_state = TurnState::Computing;
                    Poll::Ready(())
                }
                TurnState::Waiting(waker) => {
                    waker.clone_from(cx.waker());
                    Poll::Pending
                }
                TurnState::Away | TurnState::Computing => Poll::Ready(()),
            };
        };
        // Even if a turn is free, it starts at the next poll, so that other tasks of this thread
        // can run.
        let had = std::mem::replace(&mut *self.turn_state.lock(), TurnState::Waiting(cx.waker().clone()));
        self.scheduler.update(|state| {
            state.free += u32::from(had.has_turn());
            state.charge(&self.share, computed);
            state.line_up(&self.share, &self.turn_state);
        });
        Poll::Pending
    }
}

#[cfg(test)]
mod tests;
