//! The fingerprint that tells one background host (`stdio --detach`) from another.

use super::value::LogFormat;
use super::{Config, StoreChoice};
use toolyard_detach::fingerprint;

impl Config {
    /// The fingerprint of all settings that a client may notice. It leaves out the destinations of logs and
    /// spans, and the settings that only the network uses.
    pub fn fingerprint(&self) -> String {
        let plugins = self.plugins.canonicalize().unwrap_or_else(|_| self.plugins.clone());
        let mut limits = self.limits.clone();
        // The background host itself starts without this setting.
        limits.detach = false;
        limits.log_format = LogFormat::Text;
        limits.log_rate = 0;
        let Self {
            store, schema, rules, weights, require_digest, signers, name, title, instructions, ..
        } = self;
        let address = match store {
            StoreChoice::Postgres(address) => address.reveal(),
            StoreChoice::Sqlite | StoreChoice::Memory => "",
        };
        let kept = (store, address, schema);
        let version = env!("CARGO_PKG_VERSION");
        let loaded = (require_digest, signers);
        let shown = (name, title, instructions);
        fingerprint(&format!("{:?}", (version, plugins, kept, &limits, rules, weights, loaded, shown)))
    }
}

#[cfg(test)]
mod tests {
    use crate::config::{Config, Flags};
    use std::ffi::OsString;
    use toolyard_detach::host_name;

    fn named(set: &[&str], plugins: &str, secret: Option<&str>) -> String {
        let set = set.iter().map(|pair| (*pair).to_owned()).collect();
        let flags = Flags { plugins: Some(plugins.into()), data: Some("d".into()), set, ..Flags::default() };
        let config = Config::read(&flags, None).expect("a configuration");
        host_name(&config.fingerprint(), &[("KEY".to_owned(), secret.map(OsString::from))].into())
    }

    #[test]
    fn a_host_is_another_one_if_the_result_of_a_task_may_differ() {
        let one = named(&[], "p", Some("x"));
        assert_eq!(one.len(), 16);
        for set in ["stdio.detach=true", "log=debug", "log.format=json", "admin.listen=127.0.0.1:1"] {
            assert_eq!(named(&[set], "p", Some("x")), one, "{set}");
        }
        for set in ["guest.memory=1MiB", "questions.wait=1s"] {
            assert_ne!(named(&[set], "p", Some("x")), one, "{set}");
        }
        for other in [named(&[], "q", Some("x")), named(&[], "p", Some("y")), named(&[], "p", None)] {
            assert_ne!(other, one);
        }
    }
}
