//! Installs plugins: fetches them from their sources, checks them, asks for grants, and writes the plugin folder
//! and its lock file.

pub mod candidate;
pub mod fetch;
pub mod folder;
pub mod grants;
pub mod held;

/// The exit code of a command that stopped because a person has to decide.
pub const UNDECIDED: u8 = 3;

/// A person has to decide before the command can go on; the program ends with exit code 3. The text is the whole
/// message, without the name of the program.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Undecided(pub String);

/// Whether `name` can be the name of a plugin.
pub fn is_name(name: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=64).contains(&name.len()) && name.bytes().all(is_part) && !name.starts_with('-')
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_plugin_has_a_short_plain_name() {
        for name in ["fetch", "a", "csv-profile", "2048", &"x".repeat(64)] {
            assert!(super::is_name(name), "{name}");
        }
        for name in ["", "-a", "A", "a.b", "../a", "a/b", "a b", "é", &"x".repeat(65)] {
            assert!(!super::is_name(name), "{name}");
        }
    }
}
