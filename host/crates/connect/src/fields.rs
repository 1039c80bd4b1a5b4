//! The keys of one entry of a configuration file.

use crate::value::Value;

/// The keys of an entry, and the keys that must not be beside them.
pub struct Fields {
    pub set: Vec<(&'static str, Value)>,
    pub dropped: Vec<&'static str>,
}

impl Fields {
    /// Whether an entry has these keys already.
    pub fn has(&self, entry: &Value) -> bool {
        self.set.iter().all(|(key, value)| entry.get(key) == Some(value))
            && self.dropped.iter().all(|key| entry.get(key).is_none())
    }
}
