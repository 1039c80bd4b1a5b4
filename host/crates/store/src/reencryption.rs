//! Encrypts all tasks of a store again with the newest key, or decrypts them: the part that all
//! stores share. The walk over the tasks is in a separate file for each store.

use crate::codec::CodecError;
use crate::encryption::{Column, Sealing, record_sealed_with, sealed_with};
use crate::key_id::KeyId;
use toolyard_task::{StoreError, TaskId};

/// The maximum number of tasks in one transaction, and the number of bytes at which a transaction
/// is full: they bound how long hosts wait.
pub(crate) const MAX_TASKS: usize = 64;
pub(crate) const MAX_BYTES: usize = 1 << 20;

/// The form in which values are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SealWith {
    /// Encrypted with the newest key.
    Newest,
    /// Not encrypted.
    Nothing,
}

impl SealWith {
    /// How a store with these keys writes values in this form.
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
    /// Tasks that were examined.
    pub seen: u64,
    /// Tasks that were written again.
    pub written: u64,
    /// Tasks that cannot be read and stay unchanged.
    pub unreadable: Vec<TaskId>,
    /// Other keys that are still needed: by these tasks, or because another process seals with
    /// them.
    pub needed: Vec<KeyId>,
}

impl ReencryptionReport {
    /// Adds the counts of another transaction.
    pub(crate) fn add(&mut self, step: Self) {
        self.seen += step.seen;
        self.written += step.written;
        for id in step.unreadable {
            // Its events and chunks may be unreadable as well.
            if !self.unreadable.contains(&id) {
                self.unreadable.push(id);
            }
        }
    }
}

/// The body of an event or a chunk, which may be sealed.
pub(crate) struct StoredBody(pub(crate) Vec<u8>);

impl StoredBody {
    /// The body in the new form; `None` if it already has it or cannot be read, which is logged.
    pub(crate) fn anew(
        self,
        id: TaskId,
        column: Column,
        from: &Sealing,
        to: &Sealing,
        done: &mut ReencryptionReport,
    ) -> Option<Self> {
        if sealed_with(&self.0) == to.key() {
            return None;
        }
        let plain = from.open(id, column, self.0);
        match plain.and_then(|plain| Ok(to.bytes(id, column, plain)?.into_owned())) {
            Ok(body) => Some(Self(body)),
            Err(error) => {
                let error = StoreError::Corrupt(error.into());
                tracing::error!(
                    event = "task.not_reencrypted", task = %id, error = &error as &dyn std::error::Error,
                    "cannot encrypt task again"
                );
                if done.unreadable.last() != Some(&id) {
                    done.unreadable.push(id);
                }
                None
            }
        }
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

    /// Their total length, in bytes.
    #[cfg(feature = "sqlite")]
    pub(crate) fn length(&self) -> usize {
        self.record.len() + self.others().map(Vec::len).sum::<usize>()
    }

    /// Whether all of them are. The heads of values say as much as the values do.
    pub(crate) fn are_sealed_with(&self, key: Option<KeyId>) -> bool {
        record_sealed_with(&self.record) == key && self.others().all(|value| sealed_with(value) == key)
    }

    /// The values in the new form; `None` if they already have it or cannot be read, which is
    /// logged. Counts the task in `done`.
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
