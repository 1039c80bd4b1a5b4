//! Parses large messages and begins their requests outside the threads that serve clients, one at a time per
//! client.
//!
//! Parsing eight megabytes of JSON takes tens of milliseconds without a pause, and the thread serves no other
//! client meanwhile.

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::{Arc, Weak};
use std::task::Poll;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use toolyard_dispatch::RateKey;

/// A message above this size is large, in bytes.
pub(super) const LARGE_BYTES: usize = 64 << 10;
/// How many are parsed at once, for all clients.
const MAX_READING: usize = 4;
/// Senders are forgotten if there are more than this.
const MAX_SENDERS: usize = 64;

/// The semaphores that order the parsing of large messages.
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
    /// Runs the work on a large message up to its first wait on a separate thread, and the rest where this
    /// future is awaited. Dropping the future ends the work, but not during the first part.
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
                // Polls it again, so that from now on it wakes this task.
                work.await
            }
            // As if the work had panicked in place.
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                // The runtime shuts down, and this task with it.
                Err(_) => std::future::pending().await,
            },
        }
    }

    fn sender(&self, key: &RateKey) -> Arc<Semaphore> {
        let mut senders = self.senders.lock();
        if let Some(sender) = senders.get(key).and_then(Weak::upgrade) {
            return sender;
        }
        if senders.len() >= MAX_SENDERS {
            senders.retain(|_, sender| sender.strong_count() > 0);
        }
        let sender = Arc::new(Semaphore::new(1));
        senders.insert(key.clone(), Arc::downgrade(&sender));
        sender
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt as _;
    use futures_util::future::join_all;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    /// How many of twelve messages were read at once, from so many senders.
    async fn at_once(senders: u8) -> usize {
        let (messages, now, most) =
            (LargeMessages::default(), Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let begun = (0..12).map(|number| {
            let (messages, now, most) = (&messages, now.clone(), most.clone());
            let sender = RateKey::Peer(std::net::IpAddr::from([192, 0, 2, number % senders]));
            async move {
                let read = async move {
                    most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    std::thread::sleep(Duration::from_millis(20));
                    now.fetch_sub(1, Ordering::SeqCst);
                };
                messages.begin(&sender, read.boxed()).await;
            }
        });
        join_all(begun).await;
        most.load(Ordering::SeqCst)
    }

    #[tokio::test]
    async fn few_large_messages_are_read_at_once_and_one_of_each_sender() {
        assert_eq!(at_once(1).await, 1);
        assert!(at_once(12).await <= MAX_READING);
    }
}
