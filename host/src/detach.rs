//! Tasks that outlive the pipe (`toolyard stdio --detach`): the background host that runs
//! them, one for each data folder and configuration, found by a socket in that folder.
//! The relay's side is [`reach`], the host's own is [`door`], and [`place`] is where they
//! meet.

pub mod door;
pub mod log;
pub mod place;
pub mod reach;

use crate::config::{Config, StoreChoice};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// How the background host ends if another one has its place.
pub const TAKEN: u8 = 75;

/// The first line of a connection, from the background host.
#[derive(Debug, Serialize, Deserialize)]
pub struct Greeting {
    /// The version of the program that serves here.
    pub toolyard: String,
    /// Its process.
    pub process: u32,
    /// Why this connection is not served.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

/// What tells one configuration from another: whatever a task could come out differently
/// by. Where logs and spans go, and what is for HTTP alone, is not among it.
pub fn settings(config: &Config) -> String {
    let plugins = config.plugins.canonicalize().unwrap_or_else(|_| config.plugins.clone());
    let mut limits = config.limits.clone();
    // The host itself is started without.
    limits.detach = false;
    let Config { store, schema, rules, weights, require_digest, .. } = config;
    let address = match store {
        StoreChoice::Postgres(address) => address.reveal(),
        StoreChoice::Sqlite | StoreChoice::Memory => "",
    };
    let kept = (store, address, schema);
    let version = env!("CARGO_PKG_VERSION");
    hash(&format!("{:?}", (version, plugins, kept, &limits, rules, weights, require_digest)))
}

/// The name of the background host for these settings and the variables of the
/// environment that manifests have asked for: with another secret it is another host.
pub fn name(settings: &str, variables: &crate::system::Variables) -> String {
    hash(&format!("{:?}", (settings, variables)))
}

/// Short enough for the name of a file, long enough to be met by chance never.
fn hash(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Flags;
    use std::ffi::OsString;

    fn named(set: &[&str], plugins: &str, secret: Option<&str>) -> String {
        let set = set.iter().map(|pair| (*pair).to_owned()).collect();
        let flags = Flags { plugins: Some(plugins.into()), data: Some("d".into()), set, ..Flags::default() };
        let config = Config::read(&flags, None).expect("a configuration");
        name(&settings(&config), &[("KEY".to_owned(), secret.map(OsString::from))].into())
    }

    #[test]
    fn a_host_is_another_one_by_whatever_a_task_could_come_out_differently_by() {
        let one = named(&[], "p", Some("x"));
        assert_eq!(one.len(), 16);
        for same in [
            named(&["stdio.detach=true"], "p", Some("x")),
            named(&["log=debug"], "p", Some("x")),
            named(&["admin.listen=127.0.0.1:1"], "p", Some("x")),
        ] {
            assert_eq!(same, one);
        }
        for other in [
            named(&["guest.memory=1MiB"], "p", Some("x")),
            named(&["detach.linger=1s"], "p", Some("x")),
            named(&[], "q", Some("x")),
            named(&[], "p", Some("y")),
            named(&[], "p", None),
        ] {
            assert_ne!(other, one);
        }
    }
}
