//! The pairs of a query or of a form.

/// The pairs of a query or of a form.
pub(crate) type Pairs = Vec<(String, String)>;

/// All values of this name.
pub(crate) fn values<'a>(pairs: &'a Pairs, name: &str) -> impl Iterator<Item = &'a str> {
    pairs.iter().filter(move |(known, _)| known == name).map(|(_, value)| value.as_str())
}

/// The first value of this name.
pub(crate) fn value<'a>(pairs: &'a Pairs, name: &str) -> Option<&'a str> {
    values(pairs, name).next()
}

/// The pairs that this text encodes.
pub(crate) fn pairs(text: &[u8]) -> Pairs {
    form_urlencoded::parse(text).into_owned().collect()
}
