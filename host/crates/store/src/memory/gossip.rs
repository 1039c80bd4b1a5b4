//! Words between hosts that share a store in memory.

use super::MemoryStore;
use async_trait::async_trait;
use tokio::sync::broadcast;
use toolyard_task::gossip::{Gossip, Heard, LONGEST};

impl Gossip for MemoryStore {
    fn tell(&self, word: String) {
        if word.len() <= LONGEST {
            // Nobody may be listening.
            drop(self.shared.words.send((self.handle, word)));
        }
    }

    fn hear(&self) -> Box<dyn Heard> {
        Box::new(Words { handle: self.handle, words: self.shared.words.subscribe() })
    }
}

struct Words {
    handle: u64,
    words: broadcast::Receiver<(u64, String)>,
}

#[async_trait]
impl Heard for Words {
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
