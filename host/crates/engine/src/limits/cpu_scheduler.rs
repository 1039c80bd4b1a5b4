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
pub(crate) struct Gate {
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
    waiting: VecDeque<Arc<Mutex<Seat>>>,
}

/// Where a run stands.
#[derive(Default)]
enum Seat {
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
pub(crate) struct Runner {
    gate: Arc<Gate>,
    share: Share,
    seat: Arc<Mutex<Seat>>,
}

impl Gate {
    /// A gate with so many turns at once.
    pub fn new(turns: u32) -> Arc<Self> {
        Arc::new(Self { state: Mutex::new(State { free: turns.max(1), ..State::default() }) })
    }

    /// A run that comes to the gate for the first time.
    pub fn runner(self: &Arc<Self>, share: Share) -> Runner {
        let mut state = self.lock();
        let now = state.now;
        let account = state.accounts.entry(share.account.clone()).or_default();
        if account.runs == 0 {
            account.pass = account.pass.max(now);
        }
        account.runs += 1;
        drop(state);
        Runner { gate: self.clone(), share, seat: Arc::default() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // What is left after a panic is at worst unfair.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn lock(seat: &Mutex<Seat>) -> MutexGuard<'_, Seat> {
    seat.lock().unwrap_or_else(PoisonError::into_inner)
}

impl State {
    /// Charges an account for time in which one of its runs computed.
    fn charge(&mut self, share: &Share, time: Duration) {
        if let Some(account) = self.accounts.get_mut(&share.account) {
            let stride = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX) / u64::from(share.weight.max(1));
            account.pass = account.pass.saturating_add(stride.max(1));
        }
    }

    fn line_up(&mut self, share: &Share, seat: &Arc<Mutex<Seat>>) {
        let Some(account) = self.accounts.get_mut(&share.account) else { return };
        account.waiting.push_back(seat.clone());
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
            let Some(seat) = account.waiting.pop_front() else { continue };
            if !account.waiting.is_empty() {
                self.order.push(Reverse((account.pass, name)));
            }
            let mut seat = lock(&seat);
            // Who is no longer waiting has gone away.
            if let Seat::Waiting(waker) = std::mem::replace(&mut *seat, Seat::Called) {
                self.now = self.now.max(pass);
                self.free -= 1;
                called.push(waker);
            } else {
                *seat = Seat::Away;
            }
        }
        called
    }
}

impl Runner {
    /// Waits for the next turn, after having computed for so long since the last.
    /// Others are let run in any case.
    pub fn turn(&self, computed: Duration) -> impl Future<Output = ()> + Send + 'static {
        Turn {
            gate: self.gate.clone(),
            share: self.share.clone(),
            seat: self.seat.clone(),
            computed: Some(computed),
        }
    }

    /// The guest waits in the host: it needs no turn now.
    pub fn rest(&self) {
        let mut seat = lock(&self.seat);
        if matches!(*seat, Seat::Computing) {
            *seat = Seat::Away;
            drop(seat);
            self.gate.free_one();
        }
    }
}

impl Gate {
    fn free_one(&self) {
        let mut state = self.lock();
        state.free += 1;
        let called = state.call();
        drop(state);
        called.into_iter().for_each(Waker::wake);
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        let had = std::mem::take(&mut *lock(&self.seat));
        let mut state = self.gate.lock();
        if let Some(account) = state.accounts.get_mut(&self.share.account) {
            account.waiting.retain(|seat| !Arc::ptr_eq(seat, &self.seat));
            account.runs -= 1;
            if account.runs == 0 {
                state.accounts.remove(&self.share.account);
            }
        }
        if matches!(had, Seat::Called | Seat::Computing) {
            state.free += 1;
        }
        let called = state.call();
        drop(state);
        called.into_iter().for_each(Waker::wake);
    }
}

/// The wait for a turn.
struct Turn {
    gate: Arc<Gate>,
    share: Share,
    seat: Arc<Mutex<Seat>>,
    /// What is to be charged; taken at the first poll.
    computed: Option<Duration>,
}

impl Future for Turn {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Some(computed) = self.computed.take() else {
            let mut seat = lock(&self.seat);
            return match &mut *seat {
                Seat::Called => {
                    *seat = Seat::Computing;
                    Poll::Ready(())
                }
                Seat::Waiting(waker) => {
                    waker.clone_from(cx.waker());
                    Poll::Pending
                }
                Seat::Away | Seat::Computing => Poll::Ready(()),
            };
        };
        // Even if the turn comes at once it is taken up at the next poll, so that
        // whatever else waits for this thread is let run.
        let had = std::mem::replace(&mut *lock(&self.seat), Seat::Waiting(cx.waker().clone()));
        let mut state = self.gate.lock();
        if matches!(had, Seat::Computing | Seat::Called) {
            state.free += 1;
        }
        state.charge(&self.share, computed);
        state.line_up(&self.share, &self.seat);
        let called = state.call();
        drop(state);
        called.into_iter().for_each(Waker::wake);
        Poll::Pending
    }
}

#[cfg(test)]
mod tests;
