//! Globs in rules.

use globset::{Glob, GlobMatcher};

/// A glob. It also matches its own text, so that the braces of a resource template
/// can be written as they are.
#[derive(Debug)]
pub(crate) struct Pattern {
    pub(super) text: String,
    glob: GlobMatcher,
}

impl Pattern {
    pub fn new(text: &str) -> Result<Self, String> {
        let glob = Glob::new(text).map_err(|error| error.to_string())?.compile_matcher();
        Ok(Self { text: text.to_owned(), glob })
    }

    pub fn matches(&self, name: &str) -> bool {
        self.text == name || self.glob.is_match(name)
    }
}

pub(super) fn any(patterns: &[Pattern], name: &str) -> bool {
    patterns.iter().any(|pattern| pattern.matches(name))
}
