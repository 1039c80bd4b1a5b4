//! The number of the format of journals.

/// The format that this version writes. It rises with each change that an older version cannot read.
pub const FORMAT: u32 = 1;
