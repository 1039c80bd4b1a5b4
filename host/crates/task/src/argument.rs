//! An argument of a call as its guest reads it, for the access rules.

use std::borrow::Cow;

/// A value in the arguments of a call. Borrows from the JSON text where it was read from
/// one.
#[derive(Debug, Clone, PartialEq)]
pub enum ArgumentValue<'a> {
    /// `null`, or an option without a value.
    Null,
    /// A truth value.
    Bool(bool),
    /// A number of the JSON grammar, which the guest reads in its own way.
    Number(Cow<'a, str>),
    /// A number of the JSON grammar that the guest gets as exactly this value.
    Exact(String),
    /// A text; also the name of an enum or variant case.
    Text(Cow<'a, str>),
    /// Bytes, which a client may write as base64 or as an array of numbers.
    Bytes(Vec<u8>),
    /// An array.
    List(Vec<ArgumentValue<'a>>),
    /// Members of an object, in their order. In a map, a name may occur twice.
    Object(Vec<(Cow<'a, str>, ArgumentValue<'a>)>),
}
