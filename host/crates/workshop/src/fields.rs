//! Strict parsing of tables that people write: an unknown key is refused, and the error names the nearest
//! known key.

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

    /// A text.
    ///
    /// # Errors
    /// If the value has another type.
    pub fn text(&mut self, key: &str) -> Result<Option<String>, String> {
        self.typed(key, "a text", |value| match value {
            Value::String(text) => Some(text),
            _ => None,
        })
    }

    /// A truth value.
    ///
    /// # Errors
    /// If the value has another type.
    pub fn truth(&mut self, key: &str) -> Result<Option<bool>, String> {
        self.typed(key, "true or false", |value| value.as_bool())
    }

    /// A whole number.
    ///
    /// # Errors
    /// If the value has another type.
    pub fn integer(&mut self, key: &str) -> Result<Option<i64>, String> {
        self.typed(key, "a whole number", |value| value.as_integer())
    }

    /// A list of texts; empty if the key is absent.
    ///
    /// # Errors
    /// If the value has another type.
    pub fn texts(&mut self, key: &str) -> Result<Vec<String>, String> {
        let texts = self.typed(key, "a list of texts", |value| match value {
            Value::Array(items) => items
                .into_iter()
                .map(|item| match item {
                    Value::String(text) => Some(text),
                    _ => None,
                })
                .collect(),
            _ => None,
        })?;
        Ok(texts.unwrap_or_default())
    }

    /// A table; empty if the key is absent.
    ///
    /// # Errors
    /// If the value has another type.
    pub fn table(&mut self, key: &str) -> Result<Option<Table>, String> {
        self.typed(key, "a table", |value| match value {
            Value::Table(table) => Some(table),
            _ => None,
        })
    }

    fn typed<T>(
        &mut self,
        key: &str,
        expected: &str,
        read: impl FnOnce(Value) -> Option<T>,
    ) -> Result<Option<T>, String> {
        let Some(value) = self.table.remove(key) else { return Ok(None) };
        let kind = value.type_str();
        match read(value) {
            Some(read) => Ok(Some(read)),
            None => Err(format!("`{}`: expected {expected}, not {}", self.key(key), article(kind))),
        }
    }
}

/// The type of a TOML value, with its article.
fn article(kind: &str) -> String {
    match kind {
        "string" => "a text".to_owned(),
        "array" => "a list, or one of something else".to_owned(),
        "integer" => "an integer".to_owned(),
        other => format!("a {other}"),
    }
}
