//! Metrics of a store on a disk.
//!
//! No label value comes from a client: all values are the constants below.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use std::time::Instant;

const OPERATION: &str = "operation";
const READ: &str = "read";
const WRITE: &str = "write";
const COMMIT: &str = "commit";
const REASON: &str = "reason";
/// Why messages from the database are refused.
pub(crate) const REASONS: [&str; 3] = ["plain", "forged", "replayed"];

/// Seconds: from a read of cached pages to the longest wait for a locked file.
const SECONDS: [f64; 12] = [0.00005, 0.0001, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 10.0];
/// The number of operations in one commit.
const SIZES: [f64; 10] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0];

type Labels = [(&'static str, &'static str); 1];

/// The metrics of one store.
pub(crate) struct Metrics {
    /// Reads, including the time that the caller waits.
    pub read: OperationMetrics,
    /// Writes, including the time that the caller waits.
    pub write: OperationMetrics,
    /// Transactions of the writer.
    pub commit: OperationMetrics,
    batch: Histogram,
    durations: Family<Labels, Histogram, fn() -> Histogram>,
    failures: Family<Labels, Counter>,
    refused: Family<Labels, Counter>,
}

/// The metrics of one kind of operation.
pub(crate) struct OperationMetrics {
    duration: Histogram,
    failures: Counter,
}

impl OperationMetrics {
    /// Counts an operation that began at `began` and ends now.
    pub fn ended(&self, began: Instant, done: bool) {
        self.duration.observe(began.elapsed().as_secs_f64());
        if !done {
            self.failures.inc();
        }
    }
}

impl Default for Metrics {
    fn default() -> Self {
        let durations: Family<Labels, Histogram, fn() -> Histogram> =
            Family::new_with_constructor(|| Histogram::new(SECONDS));
        let failures = Family::<Labels, Counter>::default();
        let operation = |name| {
            let labels = [(OPERATION, name)];
            OperationMetrics {
                duration: durations.get_or_create_owned(&labels),
                failures: failures.get_or_create_owned(&labels),
            }
        };
        let (read, write, commit) = (operation(READ), operation(WRITE), operation(COMMIT));
        let refused = Family::<Labels, Counter>::default();
        for reason in REASONS {
            drop(refused.get_or_create_owned(&[(REASON, reason)]));
        }
        Self { read, write, commit, batch: Histogram::new(SIZES), durations, failures, refused }
    }
}

impl Metrics {
    /// Counts the operations that shared a commit.
    pub fn shared(&self, operations: usize) {
        self.batch.observe(operations as f64);
    }

    /// Counts a refused message from the database, by one of [`REASONS`].
    pub fn refused(&self, reason: &'static str) {
        self.refused.get_or_create_owned(&[(REASON, reason)]).inc();
    }

    pub fn register(&self, registry: &mut Registry) {
        registry.register_with_unit(
            "toolyard_store_duration",
            "Time of the store's operations: reads and writes as callers wait for them, commits as the disk takes",
            Unit::Seconds,
            self.durations.clone(),
        );
        registry.register(
            "toolyard_store_failures",
            "Operations of the store that failed",
            self.failures.clone(),
        );
        registry.register(
            "toolyard_store_messages_refused",
            "Messages on the channel of the hosts that no host of the deployment has sealed, or that were heard before",
            self.refused.clone(),
        );
        registry.register(
            "toolyard_store_commit_operations",
            "Operations that shared one commit",
            self.batch.clone(),
        );
    }
}
