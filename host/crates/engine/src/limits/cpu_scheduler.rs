//! Turns to compute. A guest that computes for longer than a tick needs a turn for
//! each further tick; there are as many turns at once as threads that run guests.
//! Whose turn is next is decided by stride: each account has a pass, which moves on
//! by the time that its runs computed, divided by its weight, and the account with
//! the lowest pass goes first. So one account's hundred runs and another's single run
//! get the same time, and a guest that only just began waits for nobody.
//!
//! What may not live here: wasmtime, and why a guest yields.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use toolyard_task::tool::Share;

/// Hands out turns.
pub(crate) struct CpuScheduler {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Turns that nobody has.
    free: u32,
    /// The pass of whoever was let through last: newcomers begin here, so that an
    /// account that was away has saved up nothing.
    now: u64,
    accounts: HashMap<Arc<str>, Account>,
    /// Accounts that have somebody waiting, by their pass.
    order: BinaryHeap<Reverse<(u64, Arc<str>)>>,
}

#[derive(Default)]
struct Account {
    pass: u64,
    /// Runs of it that are here: computing or waiting.
    runs: u32,
    waiting: VecDeque<Arc<Mutex<TurnState>>>,
}

/// Where a run stands.
#[derive(Default)]
enum TurnState {
    /// It needs no turn: it has only just begun to compute, or waits in the host.
    #[default]
    Away,
    /// In line.
    Waiting(Waker),
    /// It has been given a turn that it has not taken up yet.
    Called,
    /// It computes.
    Computing,
}

/// One run at the gate. What it has is given back when this is dropped.
pub(crate) struct ScheduledRun {
    scheduler: Arc<CpuScheduler>,
    share: Share,
    turn_state: Arc<Mutex<TurnState>>,
}

impl CpuScheduler {
    /// A gate with so many turns at once.
    pub fn new(turns: u32) -> Arc<Self> {
        Arc::new(Self { state: Mutex::new(State { free: turns.max(1), ..State::default() }) })
    }

    /// A run that comes to the gate for the first time.
    pub fn runner(self: &Arc<Self>, share: Share) -> ScheduledRun {
        let mut state = self.lock();
        let now = state.now;
        let account = state.accounts.entry(share.account.clone()).or_default();
        if account.runs == 0 {
            account.pass = account.pass.max(now);
        }
        account.runs += 1;
        drop(state);
        ScheduledRun { scheduler: self.clone(), share, turn_state: Arc::default() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // What is left after a panic is at worst unfair.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn lock(turn_state: &Mutex<TurnState>) -> MutexGuard<'_, TurnState> {
    turn_state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl State {
    /// Charges an account for time in which one of its runs computed.
    fn charge(&mut self, share: &Share, time: Duration) {
        if let Some(account) = self.accounts.get_mut(&share.account) {
            let stride = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX) / u64::from(share.weight.max(1));
            account.pass = account.pass.saturating_add(stride.max(1));
        }
    }

    fn line_up(&mut self, share: &Share, turn_state: &Arc<Mutex<TurnState>>) {
        let Some(account) = self.accounts.get_mut(&share.account) else { return };
        account.waiting.push_back(turn_state.clone());
        if account.waiting.len() == 1 {
            self.order.push(Reverse((account.pass, share.account.clone())));
        }
    }

    /// Gives the free turns to those who wait. Returns whom to wake.
    fn call(&mut self) -> Vec<Waker> {
        let mut called = Vec::new();
        while self.free > 0 {
            let Some(Reverse((pass, name))) = self.order.pop() else { break };
            let Some(account) = self.accounts.get_mut(&name) else { continue };
            if account.waiting.is_empty() {
                continue;
            }
            if account.pass > pass {
                // It has computed since it lined up.
                self.order.push(Reverse((account.pass, name)));
                continue;
            }
            let Some(turn_state) = account.waiting.pop_front() else { continue };
            if !account.waiting.is_empty() {
                self.order.push(Reverse((account.pass, name)));
            }
            let mut turn_state = lock(&turn_state);
            // Who is no longer waiting has gone away.
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
    /// Waits for the next turn, after having computed for so long since the last.
    /// Others are let run in any case.
    pub fn turn(&self, computed: Duration) -> impl Future<Output = ()> + Send + 'static {
        Turn {
            scheduler: self.scheduler.clone(),
            share: self.share.clone(),
            turn_state: self.turn_state.clone(),
            computed: Some(computed),
        }
    }

    /// The guest waits in the host: it needs no turn now.
    pub fn rest(&self) {
        let mut turn_state = lock(&self.turn_state);
        if matches!(*turn_state, TurnState::Computing) {
            *turn_state = TurnState::Away;
            drop(turn_state);
            self.scheduler.free_one();
        }
    }
}

impl CpuScheduler {
    fn free_one(&self) {
        let mut state = self.lock();
        state.free += 1;
        let called = state.call();
        drop(state);
        called.into_iter().for_each(Waker::wake);
    }
}

impl Drop for ScheduledRun {
    fn drop(&mut self) {
        let had = std::mem::take(&mut *lock(&self.turn_state));
        let mut state = self.scheduler.lock();
        if let Some(account) = state.accounts.get_mut(&self.share.account) {
            account.waiting.retain(|turn_state| !Arc::ptr_eq(turn_state, &self.turn_state));
            account.runs -= 1;
            if account.runs == 0 {
                state.accounts.remove(&self.share.account);
            }
        }
        if matches!(had, TurnState::Called | TurnState::Computing) {
            state.free += 1;
        }
        let called = state.call();
        drop(state);
        called.into_iter().for_each(Waker::wake);
    }
}

/// The wait for a turn.
struct Turn {
    scheduler: Arc<CpuScheduler>,
    share: Share,
    turn_state: Arc<Mutex<TurnState>>,
    /// What is to be charged; taken at the first poll.
    computed: Option<Duration>,
}

impl Future for Turn {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Some(computed) = self.computed.take() else {
            let mut turn_state = lock(&self.turn_state);
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
        // Even if the turn comes at once it is taken up at the next poll, so that
        // whatever else waits for this thread is let run.
        let had = std::mem::replace(&mut *lock(&self.turn_state), TurnState::Waiting(cx.waker().clone()));
        let mut state = self.scheduler.lock();
        if matches!(had, TurnState::Computing | TurnState::Called) {
            state.free += 1;
        }
        state.charge(&self.share, computed);
        state.line_up(&self.share, &self.turn_state);
        let called = state.call();
        drop(state);
        called.into_iter().for_each(Waker::wake);
        Poll::Pending
    }
}

#[cfg(test)]
mod tests;
