//! The port to the other hosts that share a store, for what is passing: it is said once,
//! kept nowhere, and lost where nobody hears it. Nothing that must be true goes by here.

use async_trait::async_trait;

/// The longest word, in bytes. It fits into a notification of PostgreSQL (8000) when it is
/// encrypted as well.
pub const LONGEST: usize = 5_500;

/// The way to the other hosts. Where there are none, nothing is told and nothing heard.
pub trait Gossip: Send + Sync + 'static {
    /// Tells all other hosts. A word that is longer than [`LONGEST`], or comes when the
    /// way is full or broken, is lost.
    fn tell(&self, word: String) {
        drop(word);
    }

    /// What other hosts tell from now on.
    fn hear(&self) -> Box<dyn Heard> {
        Box::new(Silence)
    }
}

/// What is heard.
#[async_trait]
pub trait Heard: Send {
    /// The next word; `None` when the store has shut down. Safe to drop while it waits.
    async fn next(&mut self) -> Option<String>;
}

/// Nothing is heard.
struct Silence;

#[async_trait]
impl Heard for Silence {
    async fn next(&mut self) -> Option<String> {
        None
    }
}
