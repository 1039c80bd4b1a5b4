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
    /// The change of the values of a store with these keys to this form.
    pub(crate) fn rekeying(self, keys: &Sealing) -> Rekeying {
        let to = match self {
            Self::Newest => keys.clone(),
            Self::Nothing => Sealing::default(),
        };
        Rekeying { from: keys.clone(), to }
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

    /// The value of this task in the new form; `None` if it cannot be read, which is logged.
    fn read<T>(&mut self, id: TaskId, read: Result<T, CodecError>) -> Option<T> {
        match read {
            Ok(value) => Some(value),
            Err(error) => {
                let error = StoreError::from(error);
                tracing::error!(
                    event = "task.not_reencrypted", task = %id, error = &error as &dyn std::error::Error,
                    "cannot encrypt task again"
                );
                if self.unreadable.last() != Some(&id) {
                    self.unreadable.push(id);
                }
                None
            }
        }
    }
}

/// The keys with which values are sealed, before and after.
#[derive(Clone)]
pub(crate) struct Rekeying {
    pub(crate) from: Sealing,
    pub(crate) to: Sealing,
}

impl Rekeying {
    fn value(&self, id: TaskId, column: Column, value: Vec<u8>) -> Result<Vec<u8>, CodecError> {
        let plain = self.from.open(id, column, value)?;
        Ok(self.to.bytes(id, column, plain)?.into_owned())
    }

    /// The body of an event or a chunk in the new form; `None` if it already has it or cannot be read.
    pub(crate) fn body(
        &self,
        id: TaskId,
        column: Column,
        body: Vec<u8>,
        done: &mut ReencryptionReport,
    ) -> Option<Vec<u8>> {
        let is_current = sealed_with(&body) == self.to.key();
        if is_current { None } else { done.read(id, self.value(id, column, body)) }
    }

    /// The values of a task in the new form; `None` if they already have it or cannot be read. Counts the task in
    /// `done`.
    pub(crate) fn values(
        &self,
        id: TaskId,
        values: StoredValues,
        done: &mut ReencryptionReport,
    ) -> Option<StoredValues> {
        if values.are_sealed_with(self.to.key()) {
            return None;
        }
        let anew = done.read(id, self.values_anew(id, values))?;
        done.written += 1;
        Some(anew)
    }

    fn values_anew(&self, id: TaskId, values: StoredValues) -> Result<StoredValues, CodecError> {
        let anew =
            |column, value: Option<Vec<u8>>| value.map(|value| self.value(id, column, value)).transpose();
        let record = self.from.open_record(id, &values.record)?.into_owned();
        Ok(StoredValues {
            record: self.to.record(id, record)?,
            arguments: anew(Column::Arguments, values.arguments)?,
            outcome: anew(Column::Outcome, values.outcome)?,
        })
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
    pub(crate) fn length(&self) -> usize {
        self.record.len() + self.others().map(Vec::len).sum::<usize>()
    }

    /// Whether all of them are. The heads of values say as much as the values do.
    pub(crate) fn are_sealed_with(&self, key: Option<KeyId>) -> bool {
        record_sealed_with(&self.record) == key && self.others().all(|value| sealed_with(value) == key)
    }
}
