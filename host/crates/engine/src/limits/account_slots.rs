//! Slots for concurrent work, bounded in total and for each account.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::{Arc, Weak};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Unused accounts are removed each time the number of accounts reaches the map's capacity, from
/// this number on.
const ACCOUNTS_KEPT: usize = 64;

pub(crate) struct AccountSlots {
    all: Arc<Semaphore>,
    for_each_account: usize,
    accounts: Mutex<HashMap<Arc<str>, Weak<Semaphore>>>,
}

/// A slot of an account, and one of the total. Dropping it frees both.
pub(crate) type AccountSlot = [OwnedSemaphorePermit; 2];

impl AccountSlots {
    pub fn new(in_total: usize, for_each_account: usize) -> Self {
        Self { all: Arc::new(Semaphore::new(in_total)), for_each_account, accounts: Mutex::default() }
    }

    /// Waits for a slot of this account and for one of the total.
    pub async fn take(&self, account: &Arc<str>) -> Option<AccountSlot> {
        // The semaphores are never closed.
        let own = self.account(account).acquire_owned().await.ok()?;
        Some([own, self.all.clone().acquire_owned().await.ok()?])
    }

    fn account(&self, account: &Arc<str>) -> Arc<Semaphore> {
        let mut accounts = self.accounts.lock();
        if accounts.len() >= ACCOUNTS_KEPT && accounts.len() == accounts.capacity() {
            accounts.retain(|_, account| account.strong_count() > 0);
        }
        if let Some(known) = accounts.get(account).and_then(Weak::upgrade) {
            return known;
        }
        let new = Arc::new(Semaphore::new(self.for_each_account));
        accounts.insert(account.clone(), Arc::downgrade(&new));
        new
    }
}
