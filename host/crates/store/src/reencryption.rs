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

    /// The values of a row of this task in the new form; `None` if they already have it or cannot be read. Counts a task
    /// in `done`.
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
        done.written += u64::from(anew.record.is_some());
        Some(anew)
    }

    fn values_anew(&self, id: TaskId, values: StoredValues) -> Result<StoredValues, CodecError> {
        let StoredValues { record, others: [one, other], columns } = values;
        let anew =
            |column, value: Option<Vec<u8>>| value.map(|value| self.value(id, column, value)).transpose();
        let record_anew =
            |record: String| self.to.record(id, self.from.open_record(id, &record)?.into_owned());
        Ok(StoredValues {
            record: record.map(record_anew).transpose()?,
            others: [anew(columns[0], one)?, anew(columns[1], other)?],
            columns,
        })
    }
}

/// The values of a row that may be sealed.
pub(crate) struct StoredValues {
    /// The record of a task; `None` in a row with a body.
    pub(crate) record: Option<String>,
    /// The arguments and the outcome of a task, or a body.
    pub(crate) others: [Option<Vec<u8>>; 2],
    columns: [Column; 2],
}

impl StoredValues {
    /// The values of a task.
    pub(crate) fn of_task(record: String, arguments: Option<Vec<u8>>, outcome: Option<Vec<u8>>) -> Self {
        let columns = [Column::Arguments, Column::Outcome];
        Self { record: Some(record), others: [arguments, outcome], columns }
    }

    /// The body of an event or a chunk.
    pub(crate) fn of_body(column: Column, body: Vec<u8>) -> Self {
        Self { record: None, others: [Some(body), None], columns: [column; 2] }
    }

    /// Their total length, in bytes.
    pub(crate) fn length(&self) -> usize {
        let others: usize = self.others.iter().flatten().map(Vec::len).sum();
        self.record.as_ref().map_or(0, String::len) + others
    }

    /// Whether all of them are. The heads of values say as much as the values do.
    pub(crate) fn are_sealed_with(&self, key: Option<KeyId>) -> bool {
        self.record.as_ref().is_none_or(|record| record_sealed_with(record) == key)
            && self.others.iter().flatten().all(|value| sealed_with(value) == key)
    }
}
