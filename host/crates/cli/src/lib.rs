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
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrongUsage(pub String);

impl std::fmt::Display for WrongUsage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for WrongUsage {}
