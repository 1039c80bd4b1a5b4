//! Encrypting all tasks of a store again with the newest key, or decrypting them: the part
//! that every store shares. Each store walks its tasks in a file of its own.

use crate::codec::CodecError;
use crate::encryption::{Column, KeyId, Sealing, record_sealed_with, sealed_with};
use toolyard_task::TaskId;
use toolyard_task::store::StoreError;

/// Tasks that are written in one transaction, at most, and the bytes after which there are
/// enough of them: hosts wait for no longer than that takes.
pub(crate) const ROWS: usize = 64;
pub(crate) const ENOUGH: usize = 1 << 20;

/// How values are to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SealWith {
    /// Encrypted with the newest key.
    Newest,
    /// Not encrypted.
    Nothing,
}

impl SealWith {
    /// How it writes, in a store that has these keys.
    pub(crate) fn sealing(self, keys: &Sealing) -> Sealing {
        match self {
            Self::Newest => keys.clone(),
            Self::Nothing => Sealing::default(),
        }
    }
}

/// The result of a re-encryption.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ReencryptionReport {
    /// Tasks that were looked at.
    pub seen: u64,
    /// Tasks that were written again.
    pub written: u64,
    /// Tasks that cannot be read, and stay as they are.
    pub unreadable: Vec<TaskId>,
    /// Other keys that are needed still: by these tasks, or because another process
    /// seals with them.
    pub needed: Vec<KeyId>,
}

impl ReencryptionReport {
    /// Another transaction came to this.
    pub(crate) fn add(&mut self, step: Self) {
        self.seen += step.seen;
        self.written += step.written;
        self.unreadable.extend(step.unreadable);
    }
}

/// The values of a task that may be sealed.
pub(crate) struct StoredValues {
    pub(crate) record: String,
    pub(crate) arguments: Option<Vec<u8>>,
    pub(crate) outcome: Option<Vec<u8>>,
}

impl StoredValues {
    fn others(&self) -> impl Iterator<Item = &Vec<u8>> {
        [&self.arguments, &self.outcome].into_iter().flatten()
    }

    /// Bytes of them.
    #[cfg(feature = "sqlite")]
    pub(crate) fn length(&self) -> usize {
        self.record.len() + self.others().map(Vec::len).sum::<usize>()
    }

    /// Whether all of them are. The heads of values say as much as the values do.
    pub(crate) fn are_sealed_with(&self, key: Option<KeyId>) -> bool {
        record_sealed_with(&self.record) == key && self.others().all(|value| sealed_with(value) == key)
    }

    /// The values as they are to be written; `None` if they are so already, or cannot be
    /// read, which is logged. Counts the task in `done`.
    pub(crate) fn anew(
        self,
        id: TaskId,
        from: &Sealing,
        to: &Sealing,
        done: &mut ReencryptionReport,
    ) -> Option<Self> {
        if self.are_sealed_with(to.key()) {
            return None;
        }
        match self.resealed(id, from, to) {
            Ok(values) => {
                done.written += 1;
                Some(values)
            }
            Err(error) => {
                let error = StoreError::Corrupt(error.into());
                tracing::error!(
                    event = "task.not_reencrypted", task = %id, error = &error as &dyn std::error::Error,
                    "cannot encrypt task again"
                );
                done.unreadable.push(id);
                None
            }
        }
    }

    fn resealed(self, id: TaskId, from: &Sealing, to: &Sealing) -> Result<Self, CodecError> {
        let anew = |column, value: Option<Vec<u8>>| -> Result<_, CodecError> {
            let Some(value) = value else { return Ok(None) };
            let plain = from.open(id, column, value)?;
            Ok(Some(to.bytes(id, column, plain)?.into_owned()))
        };
        let record = from.open_record(id, &self.record)?.into_owned();
        Ok(Self {
            record: to.record(id, record)?,
            arguments: anew(Column::Arguments, self.arguments)?,
            outcome: anew(Column::Outcome, self.outcome)?,
        })
    }
}
