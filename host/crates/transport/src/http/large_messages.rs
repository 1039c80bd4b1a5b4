//! Reads large messages and begins their requests away from the threads that serve clients, one at
//! a time for each client that sends them.
//!
//! Reading eight megabytes of JSON takes tens of milliseconds in one piece, and a thread serves no
//! other client meanwhile.

use futures_util::future::BoxFuture;
use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::Poll;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use toolyard_dispatch::RateKey;

/// A message above this size is large, in bytes.
pub(super) const LARGE_BYTES: usize = 64 << 10;
/// How many are read at once, by all clients.
const MAX_READING: usize = 4;
/// Senders are forgotten when there are more than this.
const SENDERS_KEPT: usize = 64;

/// The turns in which large messages are read.
pub(super) struct LargeMessages {
    all: Semaphore,
    senders: Mutex<HashMap<RateKey, Weak<Semaphore>>>,
}

impl Default for LargeMessages {
    fn default() -> Self {
        Self { all: Semaphore::new(MAX_READING), senders: Mutex::default() }
    }
}

impl LargeMessages {
    /// Runs the work on a large message up to its first wait on a thread of its own, and the
    /// rest where this is awaited. Dropping it ends the work, but not within the first part.
    pub async fn begin<T: Send + 'static>(&self, sender: &RateKey, mut work: BoxFuture<'static, T>) -> T {
        let of_sender = self.sender(sender);
        // Neither is ever closed.
        let turns = (of_sender.acquire().await, self.all.acquire().await);
        let runtime = Handle::current();
        let reading = tokio::task::spawn_blocking(move || {
            let first = runtime.block_on(poll_fn(|context| Poll::Ready(work.as_mut().poll(context))));
            (first, work)
        });
        match reading.await {
            Ok((Poll::Ready(done), _)) => done,
            Ok((Poll::Pending, work)) => {
                drop(turns);
                // Polled again, so that it wakes this task from now on.
                work.await
            }
            // As if it had been done in place.
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                // The runtime shuts down, and with it this task.
                Err(_) => std::future::pending().await,
            },
        }
    }

    fn sender(&self, key: &RateKey) -> Arc<Semaphore> {
        let mut senders = self.senders.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sender) = senders.get(key).and_then(Weak::upgrade) {
            return sender;
        }
        if senders.len() >= SENDERS_KEPT {
            senders.retain(|_, sender| sender.strong_count() > 0);
        }
        let sender = Arc::new(Semaphore::new(1));
        senders.insert(key.clone(), Arc::downgrade(&sender));
        sender
    }
}
