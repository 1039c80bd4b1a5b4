//! Broadcasts between hosts that share a store in memory.

use super::MemoryStore;
use async_trait::async_trait;
use tokio::sync::broadcast;
use toolyard_task::broadcast::{Broadcast, BroadcastReceiver, MAX_MESSAGE_BYTES};

impl Broadcast for MemoryStore {
    fn send(&self, message: String) {
        if message.len() <= MAX_MESSAGE_BYTES {
            // There may be no receiver.
            drop(self.shared.words.send((self.handle, message)));
        }
    }

    fn subscribe(&self) -> Box<dyn BroadcastReceiver> {
        Box::new(BroadcastFeed { handle: self.handle, words: self.shared.words.subscribe() })
    }
}

struct BroadcastFeed {
    handle: u64,
    words: broadcast::Receiver<(u64, String)>,
}

#[async_trait]
impl BroadcastReceiver for BroadcastFeed {
    async fn next(&mut self) -> Option<String> {
        loop {
            match self.words.recv().await {
                Ok((from, word)) if from != self.handle => return Some(word),
                Ok(_) | Err(broadcast::error::RecvError::Lagged(_)) => {}
                Err(broadcast::error::RecvError::Closed) => return None,
            }
        }
    }
}
