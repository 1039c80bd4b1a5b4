//! The port for broadcasts to the other hosts that share a store. A message is sent once and not
//! stored; a host that does not listen misses it. Facts that must hold are in the store.

use async_trait::async_trait;

/// The longest message, in bytes. It fits into a notification of PostgreSQL (8000) when it is
/// encrypted as well.
pub const MAX_MESSAGE_BYTES: usize = 5_500;

/// The way to the other hosts. If there are none, messages are dropped.
pub trait Broadcast: Send + Sync + 'static {
    /// Sends to all other hosts. A message is lost if it is longer than [`MAX_MESSAGE_BYTES`], or if
    /// the way is full or broken.
    fn send(&self, message: String) {
        drop(message);
    }

    /// The messages of other hosts from now on.
    fn subscribe(&self) -> Box<dyn BroadcastReceiver> {
        Box::new(Silence)
    }
}

/// The receiving end.
#[async_trait]
pub trait BroadcastReceiver: Send {
    /// The next message; `None` when the store has shut down. Safe to drop while it waits.
    async fn next(&mut self) -> Option<String>;
}

/// A receiver that receives nothing.
struct Silence;

#[async_trait]
impl BroadcastReceiver for Silence {
    async fn next(&mut self) -> Option<String> {
        None
    }
}
