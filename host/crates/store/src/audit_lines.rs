//! The format of audit entries: one JSON object a line. A store keeps the lines of one transaction
//! together, under one number, and omits the ids: they follow from the number and the position, and
//! are added when the lines are read.

use crate::codec::CodecError;
use std::fmt::Write as _;
use toolyard_task::audit::{Batch, Entry};
use toolyard_task::wire::Timestamp;

/// The lines of one transaction.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    text: String,
    stands_for: u64,
}

impl Lines {
    /// Adds an entry, as [`body`] wrote it.
    pub(crate) fn push(&mut self, at: Timestamp, body: &str) {
        // The JSON object has at least one member, so its opening brace can be removed.
        let members = body.strip_prefix('{').unwrap_or(body);
        let written = writeln!(self.text, "{{\"at\":\"{at}\",{members}");
        written.expect("a string takes everything");
        self.stands_for += 1;
    }

    /// Adds an entry that reports how many are missing.
    pub(crate) fn push_lost(&mut self, at: Timestamp, count: u64, why: &'static str) {
        if let Some(body) = body_or_log(&Entry::lost(count, why)) {
            self.push(at, &body);
        }
        // The missing entries stay counted even if this line is dropped later.
        self.stands_for += count;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// The number of its entries, including those that it reports as lost.
    pub(crate) const fn stands_for(&self) -> u64 {
        self.stands_for
    }
}

/// An entry without its id and its time.
pub(crate) fn body(entry: &Entry) -> Result<String, CodecError> {
    Ok(serde_json::to_string(entry)?)
}

/// An entry without its id and its time. One that cannot be encoded is logged and lost.
pub(crate) fn body_or_log(entry: &Entry) -> Option<String> {
    let encoded = body(entry);
    if let Err(error) = &encoded {
        tracing::error!(
            event = "audit.entry_not_encoded",
            error = error as &dyn std::error::Error,
            "cannot encode audit entry"
        );
    }
    encoded.ok()
}

/// The bodies of these entries, if entries are kept at all.
pub(crate) fn bodies(wanted: bool, entries: &[Entry]) -> Result<Vec<String>, CodecError> {
    if wanted { entries.iter().map(body).collect() } else { Ok(Vec::new()) }
}

/// The batch that was written under this number. The id of a line consists of the store's name, the
/// number, and the position in the batch.
pub(crate) fn batch(store: &str, number: u64, text: &str) -> Batch {
    Batch { number, lines: named(&format!("{store}-{number}"), text) }
}

/// The lines of this text, with ids that begin with this prefix.
pub(crate) fn named(name: &str, text: &str) -> Vec<String> {
    let line = |(place, line): (usize, &str)| {
        let members = line.strip_prefix('{').unwrap_or(line);
        format!("{{\"id\":\"{name}-{place}\",{members}")
    };
    text.lines().enumerate().map(line).collect()
}
