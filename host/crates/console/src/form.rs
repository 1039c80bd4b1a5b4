//! The pairs of a query or of a form.

/// The pairs of a query or of a form.
pub(crate) type Pairs = Vec<(String, String)>;

/// The first value of this name.
pub(crate) fn value<'a>(pairs: &'a Pairs, name: &str) -> Option<&'a str> {
    pairs.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
}

/// The pairs that this text encodes.
pub(crate) fn pairs(text: &[u8]) -> Pairs {
    form_urlencoded::parse(text).into_owned().collect()
}
