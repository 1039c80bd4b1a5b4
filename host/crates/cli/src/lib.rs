//! The shared code of all commands of the program: output to a terminal, reading files that a person names,
//! suggestions for misspelled words, and errors of wrong usage.

pub mod nearest;
pub mod output;
pub mod read;
pub mod replace;

/// The exit code of a command that Ctrl-C ended.
pub const INTERRUPTED: u8 = 130;

/// The command was used wrongly; the program ends with exit code 2. The text is the whole message, without
/// the name of the program.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct WrongUsage(pub String);

/// Returns from a function with the error [`WrongUsage`], whose text is given as to `format!`.
#[macro_export]
macro_rules! bail_usage {
    ($($text:tt)*) => {
        return Err($crate::WrongUsage(format!($($text)*)).into())
    };
}
