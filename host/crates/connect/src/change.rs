//! The change of one entry of a configuration file.

use crate::value::Value;

/// The change of one entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change<'a> {
    /// The entry gets these keys.
    Set {
        /// The keys with their values.
        fields: &'a [(&'static str, Value)],
        /// Keys that must not be beside them.
        dropped: &'a [&'static str],
    },
    /// The entry is taken out.
    Remove,
}
