//! The port through which a run stores its journal, and gets the one that it repeats.

use async_trait::async_trait;
use toolyard_journal::Chunk;
pub use toolyard_journal::{DecidedBy, Divergence, DoubtDecision};

/// Why a run cannot go on with its journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum JournalLost {
    /// Another run has the task by now, or the task has ended. This run must stop.
    #[error("another run has taken over the task")]
    Fenced,
    /// The store did not answer while this host may still run the task.
    #[error("the store does not take the journal")]
    Unavailable,
}

/// The journal of one run of a task that can resume.
#[async_trait]
pub trait RunJournal: Send + Sync + 'static {
    /// The chunks that earlier runs have stored, in their order. Empty for a run that begins.
    async fn past(&self) -> Result<Vec<Chunk>, JournalLost>;

    /// The most bytes that the journal may have.
    fn limit(&self) -> u64;

    /// Whether the journals of the owner's tasks have all bytes that they may have, so that this one is given up.
    fn is_full(&self) -> bool {
        false
    }

    /// Queues a chunk. Chunks are stored in the order of the calls.
    fn push(&self, chunk: Chunk);

    /// Takes the last chunk of a run that ends. It is stored in the commit of the end of its task.
    fn end(&self, last: Chunk);

    /// Waits until all chunks that were pushed before are durable.
    async fn flush(&self) -> Result<(), JournalLost>;

    /// The journal has reached its limit or cannot go on. The run goes on without one.
    fn give_up(&self, reason: String);

    /// Waits until this time (milliseconds since 1970). The run may be dropped meanwhile, to be repeated when the
    /// time has come. Everything that it depends on must be durable before.
    async fn sleep_until(&self, time_ms: u64);

    /// The run needs memory that its host does not have now. It may be dropped meanwhile, to be repeated later. Returns
    /// whether it may try again; a run that is no task may not.
    async fn wait_for_memory(&self) -> bool {
        false
    }

    /// Replaces the journal by these chunks, the beginning of another run of the task, which then takes the place of
    /// this one. Returns only if that fails.
    async fn continue_with(&self, begin: Chunk) -> JournalLost;

    /// The run has repeated everything that was recorded, and goes on.
    fn live(&self) {}

    /// Counts the requests that are under way. A run with one is not dropped to wait.
    fn set_requests(&self, under_way: u32);

    /// A request was under way when an earlier run lost its host, and it is decided what happens to it. The decision
    /// is durable, and not carried out yet. `request` has the method and the URL without its query.
    async fn doubt(&self, request: &str, decision: DoubtDecision, by: DecidedBy<'_>);

    /// The run did not repeat what was recorded, so the task fails. The difference is for the operator: it may contain
    /// what the guest wrote.
    fn diverged(&self, difference: &Divergence);

    /// The run ends because it cannot continue with its journal. The task fails, and the operator may have it continued.
    fn stuck(&self) {}
}
