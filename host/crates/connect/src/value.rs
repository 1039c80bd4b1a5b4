//! The content of a configuration file without its layout, for JSON and for TOML.

/// A value of a configuration file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// A text.
    Text(String),
    /// A number, a truth value, a date or null, as it is written.
    Atom(String),
    /// A list.
    List(Vec<Value>),
    /// An object or a table, in the order of the file.
    Map(Vec<(String, Value)>),
}

impl Value {
    /// A list of texts.
    pub fn texts(texts: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self::List(texts.into_iter().map(|text| Self::Text(text.into())).collect())
    }

    /// The value of a key; `None` if it is missing or this value has no keys.
    pub fn get(&self, key: &str) -> Option<&Self> {
        self.entries().iter().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    /// The text of a key.
    pub fn text(&self, key: &str) -> Option<&str> {
        match self.get(key)? {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The texts in the list of a key; other elements are left out.
    pub fn list(&self, key: &str) -> Vec<&str> {
        let Some(Self::List(list)) = self.get(key) else { return Vec::new() };
        let texts = list.iter().filter_map(|value| match value {
            Self::Text(text) => Some(text.as_str()),
            _ => None,
        });
        texts.collect()
    }

    /// The keys and values; none if this value has no keys.
    pub fn entries(&self) -> &[(String, Self)] {
        match self {
            Self::Map(entries) => entries,
            _ => &[],
        }
    }

    /// Whether a key occurs more than once. Clients differ in the value that they then use.
    pub fn has_twice(&self, key: &str) -> bool {
        self.entries().iter().filter(|(name, _)| name == key).count() > 1
    }

    /// The same content without one entry of a section, and without the section if that leaves it empty.
    #[must_use]
    pub fn without(&self, section: &str, entry: &str) -> Self {
        let Self::Map(keys) = self else { return self.clone() };
        let kept = keys.iter().filter_map(|(name, value)| {
            let Self::Map(servers) = value else { return Some((name.clone(), value.clone())) };
            if name != section {
                return Some((name.clone(), value.clone()));
            }
            let servers: Vec<_> = servers.iter().filter(|(name, _)| name != entry).cloned().collect();
            (!servers.is_empty()).then(|| (name.clone(), Self::Map(servers)))
        });
        Self::Map(kept.collect())
    }
}
