//! Audit entries in memory.

use super::{MemoryStore, State};
use crate::audit_lines::{self, Lines};
use async_trait::async_trait;
use std::collections::VecDeque;
use toolyard_task::StoreError;
use toolyard_task::audit::{AuditStore, Batch, Entry};
use toolyard_task::wire::Timestamp;

/// Entries that have not been exported yet.
#[derive(Default)]
pub(super) struct AuditRows {
    /// Whether entries are exported; otherwise the store keeps none.
    pub(super) on: bool,
    rows: VecDeque<(u64, Lines)>,
    last: u64,
}

impl AuditRows {
    fn push(&mut self, lines: Lines) {
        if !lines.is_empty() {
            self.last += 1;
            self.rows.push_back((self.last, lines));
        }
    }

    /// The total length of all rows.
    fn length(&self) -> u64 {
        self.rows.iter().map(|(_, lines)| lines.text().len() as u64).sum()
    }
}

impl State {
    /// Writes these entries with the change that they belong to.
    pub(super) fn keep(&mut self, at: Timestamp, entries: &[Entry]) -> Result<(), StoreError> {
        let bodies = audit_lines::bodies(self.audit.on, entries)?;
        let mut lines = Lines::default();
        bodies.iter().for_each(|body| lines.push(at, body));
        self.audit.push(lines);
        Ok(())
    }
}

#[async_trait]
impl AuditStore for MemoryStore {
    fn note(&self, entry: Entry) {
        let Ok(mut state) = self.state() else { return };
        if state.audit.on
            && let Some(body) = audit_lines::body_or_log(&entry)
        {
            let mut lines = Lines::default();
            lines.push(self.shared.clock.now(), &body);
            state.audit.push(lines);
        }
        self.shared.written.notify_one();
    }

    async fn pending(&self, limit: u32) -> Result<Vec<Batch>, StoreError> {
        let state = self.state()?;
        let rows = state.audit.rows.iter().take(limit as usize);
        let batches =
            rows.map(|(number, lines)| audit_lines::batch(&self.shared.name, *number, lines.text()));
        Ok(batches.collect())
    }

    async fn exported(&self, up_to: u64) -> Result<(), StoreError> {
        self.state()?.audit.rows.retain(|(number, _)| *number > up_to);
        Ok(())
    }

    async fn trim(&self, bytes: u64) -> Result<u64, StoreError> {
        let mut state = self.state()?;
        let now = self.shared.clock.now();
        let mut lost = 0;
        while state.audit.length() > bytes {
            let Some((_, lines)) = state.audit.rows.pop_front() else { break };
            lost += lines.stands_for();
        }
        if lost > 0 {
            let mut lines = Lines::default();
            lines.push_lost(now, lost, "not_exported_in_time");
            state.audit.push(lines);
        }
        Ok(lost)
    }

    async fn written(&self) {
        self.shared.written.notified().await;
    }
}

/// A random name for a store: eight hexadecimal digits.
pub(super) fn name() -> String {
    let secret = crate::refusal::secret().unwrap_or_else(|error| {
        tracing::error!(
            event = "audit.name_not_random",
            error = &error as &dyn std::error::Error,
            "cannot choose a random name for the audit entries of this store"
        );
        [0; 32]
    });
    secret.iter().take(4).map(|byte| format!("{byte:02x}")).collect()
}
