//! Strict parsing of tables that people write: an unknown key is refused, and the error names the nearest
//! known key.

use serde::de::DeserializeOwned;
use toml::{Table, Value};
use toolyard_cli::nearest::nearest;

/// A table whose keys are all known. Errors name the full key.
pub struct Fields {
    at: String,
    table: Table,
}

impl Fields {
    /// The table at this key; the empty key is the file itself.
    ///
    /// # Errors
    /// The first unknown key, and the known key that is most similar to it.
    pub fn new(at: &str, table: Table, known: &[&str]) -> Result<Self, String> {
        let fields = Self { at: at.to_owned(), table };
        match fields.table.keys().find(|key| !known.contains(&key.as_str())) {
            None => Ok(fields),
            Some(key) => {
                let nearest = nearest(key, known.iter().copied()).map_or_else(
                    || format!("known are {}", known.join(", ")),
                    |nearest| format!("did you mean `{}`?", fields.key(nearest)),
                );
                Err(format!("unknown key `{}`; {nearest}", fields.key(key)))
            }
        }
    }

    /// The full form of this key.
    pub fn key(&self, key: &str) -> String {
        if self.at.is_empty() { key.to_owned() } else { format!("{}.{key}", self.at) }
    }

    /// Removes and returns the value at this key.
    pub fn take(&mut self, key: &str) -> Option<Value> {
        self.table.remove(key)
    }

    /// The value at this key; `None` if the key is absent.
    ///
    /// # Errors
    /// If the value has another type.
    pub fn read<T: DeserializeOwned>(&mut self, key: &str) -> Result<Option<T>, String> {
        let value = self.table.remove(key).map(Value::try_into);
        value
            .transpose()
            .map_err(|error: toml::de::Error| format!("`{}`: {}", self.key(key), error.message()))
    }
}
