//! The memory of large messages. A message counts until no part of it is held. If it contains the arguments
//! of a call, that may last as long as the call.

use bytes::Bytes;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use toolyard_dispatch::{Fault, RETRY_AFTER_MS};

/// Messages up to this size (bytes) are not counted: the limits on connections and requests bound them, and
/// nearly every call has one.
pub(crate) const UNCOUNTED: usize = 64 << 10;

/// The bytes of large messages that the host may hold at once.
pub struct MessageBudget {
    most: usize,
    per_principal: usize,
    state: Mutex<BudgetState>,
}

#[derive(Default)]
struct BudgetState {
    bytes: usize,
    principals: HashMap<Arc<str>, usize>,
}

/// The setting of the limit that a message exceeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BudgetExceeded(&'static str);

impl BudgetExceeded {
    /// The fault that its sender gets.
    pub(crate) fn fault(self) -> Fault {
        let what = "large messages that are still under way take all the memory that is set for them";
        Fault::Busy { what: what.to_owned(), limit: self.0, retry_after_ms: RETRY_AFTER_MS }
    }
}

/// Bytes that count until this is dropped.
pub(crate) struct MessageReservation {
    budget: Arc<MessageBudget>,
    principal: Arc<str>,
    bytes: usize,
}

impl MessageBudget {
    /// A budget of `most` bytes in all and `per_principal` bytes for one principal (`wire.body-bytes`,
    /// `wire.body-bytes-per-principal`).
    #[must_use]
    pub fn new(most: usize, per_principal: usize) -> Arc<Self> {
        Arc::new(Self { most, per_principal, state: Mutex::default() })
    }

    fn take(&self, principal: &Arc<str>, bytes: usize) -> Result<(), BudgetExceeded> {
        let mut state = self.lock();
        let own = state.principals.get(principal).copied().unwrap_or_default();
        if own + bytes > self.per_principal {
            return Err(BudgetExceeded("wire.body-bytes-per-principal"));
        }
        if state.bytes + bytes > self.most {
            return Err(BudgetExceeded("wire.body-bytes"));
        }
        state.bytes += bytes;
        state.principals.insert(principal.clone(), own + bytes);
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, BudgetState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl MessageReservation {
    pub fn none(budget: &Arc<MessageBudget>, principal: Arc<str>) -> Self {
        Self { budget: budget.clone(), principal, bytes: 0 }
    }

    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Raises the counted total to this many bytes.
    pub fn grow_to(&mut self, bytes: usize) -> Result<(), BudgetExceeded> {
        if bytes > self.bytes {
            self.budget.take(&self.principal, bytes - self.bytes)?;
            self.bytes = bytes;
        }
        Ok(())
    }

    /// The message, which counts until the last part that shares its memory is dropped.
    pub fn keep(self, bytes: impl AsRef<[u8]> + Send + 'static) -> Bytes {
        Bytes::from_owner(LargeMessage { bytes, _reservation: self })
    }
}

impl Drop for MessageReservation {
    fn drop(&mut self) {
        if self.bytes == 0 {
            return;
        }
        let mut state = self.budget.lock();
        state.bytes -= self.bytes;
        if let Some(own) = state.principals.get_mut(&self.principal) {
            *own -= self.bytes;
            if *own == 0 {
                state.principals.remove(&self.principal);
            }
        }
    }
}

struct LargeMessage<T> {
    bytes: T,
    _reservation: MessageReservation,
}

impl<T: AsRef<[u8]>> AsRef<[u8]> for LargeMessage<T> {
    fn as_ref(&self) -> &[u8] {
        self.bytes.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_messages_are_counted_for_each_principal_and_in_all_until_they_are_gone() {
        let budget = MessageBudget::new(100, 60);
        let hold = |principal: &str, bytes| {
            let mut counted = MessageReservation::none(&budget, principal.into());
            counted.grow_to(bytes).map(|()| counted)
        };
        let exceeded =
            |held: Result<MessageReservation, BudgetExceeded>| held.map(drop).expect_err("no room").0;
        let mine = hold("me", 50).expect("room");
        assert_eq!(exceeded(hold("me", 20)), "wire.body-bytes-per-principal");
        let other = hold("other", 40).expect("another has its own share");
        assert_eq!(exceeded(hold("third", 20)), "wire.body-bytes");
        let bytes = mine.keep(vec![1, 2, 3]);
        let part = bytes.slice(1..2);
        drop(bytes);
        assert_eq!(budget.lock().bytes, 90, "a part holds it all");
        drop(part);
        drop(other);
        assert!(budget.lock().principals.is_empty() && budget.lock().bytes == 0);
    }
}
