//! Reloads the configuration while the host serves: at SIGHUP, and when the file changes. The whole configuration is
//! checked first; one that is not valid changes nothing.

use crate::assemble::policy;
use crate::config::{Config, Flags};
use crate::start_checks;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::os::unix::fs::MetadataExt as _;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use toolyard_console::Console;
use toolyard_transport::Server;

/// How often the host looks whether the file changed.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// The prefixes of the settings that a running host takes over. The tables `[auth]`, `[http]`, `[[rules]]`,
/// `[[weights]]` and `[[console.users]]` count too.
const RELOADED: [&str; 2] = ["rates.", "auth."];

/// The outcomes of reloads, for the metrics.
#[derive(Debug, Clone, Default)]
pub struct ReloadMetrics(Family<[(&'static str, &'static str); 1], Counter>);

const RELOADED_OUTCOME: [(&str, &str); 1] = [("outcome", "reloaded")];
const REJECTED_OUTCOME: [(&str, &str); 1] = [("outcome", "rejected")];

impl ReloadMetrics {
    /// Registers them.
    pub fn register(&self, registry: &mut Registry) {
        for outcome in [RELOADED_OUTCOME, REJECTED_OUTCOME] {
            drop(self.0.get_or_create(&outcome));
        }
        registry.register(
            "toolyard_config_reloads",
            "Reloads of the configuration, by outcome; a rejected one changes nothing",
            self.0.clone(),
        );
    }
}

/// The configuration in force, and the parts of the host that follow it.
pub struct Reload {
    /// The flags and the address of the command, which override the file.
    pub flags: Flags,
    /// The address of the command line.
    pub listen: Option<String>,
    /// The configuration that the host started with. Settings that need a restart are still those.
    pub started: Config,
    /// The configuration that was read last. Settings that are reloaded are those.
    pub config: Config,
    /// Whether the configuration came from a file at the start.
    pub had_file: bool,
    /// The server whose access changes.
    pub server: Arc<Server>,
    /// The console, if there is one.
    pub console: Option<Arc<Console>>,
    /// Makes the plugins read their secrets again.
    pub secrets: Arc<Notify>,
    /// The metrics.
    pub metrics: ReloadMetrics,
}

/// The metadata by which a change of the file is noticed; `None` if there is no file.
type Stamp = Option<(u64, i64, i64, u64)>;

impl Reload {
    /// Follows the file and the signal until `stop` is cancelled.
    pub async fn follow(mut self, hangup: Arc<Notify>, stop: CancellationToken) {
        let mut last = self.stamp();
        let mut changed = false;
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = hangup.notified() => {
                    self.secrets.notify_one();
                    // Before the file is read, so that a change while it is read is noticed.
                    (last, changed) = (self.stamp(), false);
                    self.reload("signal");
                }
                () = tokio::time::sleep(LOOK_EVERY) => {
                    let now = self.stamp();
                    // An editor may still be writing, so the file must have been unchanged for a while.
                    if now == last && changed {
                        self.reload("file");
                        changed = false;
                    } else if now != last {
                        (last, changed) = (now, true);
                    }
                }
            }
        }
    }

    fn stamp(&self) -> Stamp {
        let found = std::fs::metadata(&self.config.file).ok()?;
        Some((found.len(), found.mtime(), found.mtime_nsec(), found.ino()))
    }

    /// Reads the configuration.
    ///
    /// # Errors
    /// It is not valid, or it would let everybody in by mistake: without the file there are no tokens either.
    fn read(&self) -> anyhow::Result<Config> {
        if self.had_file && !self.config.file.exists() {
            anyhow::bail!("the file {} is gone", self.config.file.display());
        }
        let mut config = Config::read(&self.flags, self.listen.as_deref())?;
        config.limits.audit_to.or_file();
        start_checks::check(&config)?;
        let is_open = |config: &Config| config.auth.tokens.is_empty() && config.auth.issuers.is_empty();
        if is_open(&config) && !is_open(&self.config) {
            anyhow::bail!(
                "[auth] has neither tokens nor issuers any more, so that everybody would be let in; if that is meant, \
                 restart the host"
            );
        }
        Ok(config)
    }

    /// Reads the configuration again, and puts into force what a running host can take over.
    fn reload(&mut self, cause: &'static str) {
        let read = self.read().and_then(|config| policy(&config).map(|policy| (config, policy)));
        let (config, policy) = match read {
            Ok(read) => read,
            Err(error) => {
                self.metrics.0.get_or_create(&REJECTED_OUTCOME).inc();
                tracing::error!(
                    event = "config.rejected", cause, error = %format!("{error:#}"),
                    "the configuration is not valid; the one before stays in force"
                );
                return;
            }
        };
        let changes = changes(&self.started, &self.config, &config);
        let access = self.server.access.current();
        if self.config.auth != config.auth || differ(&self.config.allowed_names, &config.allowed_names) {
            let auth = access.auth.with_settings(config.auth.clone(), config.shown_name());
            self.server.access.replace(auth, config.allowed_names.clone());
        }
        drop(access);
        if let Some(console) =
            self.console.as_ref().filter(|_| self.config.console.users != config.console.users)
        {
            console.set_users(config.console.users.clone());
        }
        let concerns_policy = |key: &str| key.starts_with("rates.") || matches!(key, "rules" | "weights");
        if changes.iter().any(|change| concerns_policy(&change.key)) {
            self.server.dispatch.enforce(policy);
        }
        self.metrics.0.get_or_create(&RELOADED_OUTCOME).inc();
        tracing::info!(event = "config.reloaded", cause, changes = changes.len(), "configuration reloaded");
        config.warn_of_dropped_keys();
        for Change { key, before, after, is_reloaded } in &changes {
            if *is_reloaded {
                tracing::info!(event = "config.changed", key, before, after, "setting changed");
            } else {
                tracing::warn!(
                    event = "config.restart_needed",
                    key,
                    before,
                    after,
                    "setting changes with the next start of the host"
                );
            }
        }
        self.config = config;
    }
}

/// A difference between two configurations.
#[derive(Debug, PartialEq, Eq)]
struct Change {
    key: String,
    before: String,
    after: String,
    is_reloaded: bool,
}

/// A table: its key, whether two configurations differ in it, the number of its entries, and whether a running host takes
/// it over.
type Table = (&'static str, fn(&Config, &Config) -> bool, fn(&Config) -> usize, bool);

const TABLES: [Table; 9] = [
    ("auth.tokens", |a, b| a.auth.tokens != b.auth.tokens, |of| of.auth.tokens.len(), true),
    ("auth.issuers", |a, b| a.auth.issuers != b.auth.issuers, |of| of.auth.issuers.len(), true),
    ("http", |a, b| differ(&a.allowed_names, &b.allowed_names), |_| 1, true),
    ("rules", |a, b| differ(&a.rules, &b.rules), |of| of.rules.len(), true),
    ("weights", |a, b| differ(&a.weights, &b.weights), |of| of.weights.len(), true),
    ("console.users", |a, b| a.console.users != b.console.users, |of| of.console.users.len(), true),
    ("bridge.clients", |a, b| differ(&a.bridge, &b.bridge), |_| 1, false),
    ("secret-commands", |a, b| a.secret_commands != b.secret_commands, |of| of.secret_commands.len(), false),
    ("plugins.signers", |a, b| differ(&a.signers, &b.signers), |of| of.signers.rules.len(), false),
];

/// The differences of a new configuration: from the last one in the settings that are reloaded, and in the others from that
/// of the start.
fn changes(started: &Config, last: &Config, new: &Config) -> Vec<Change> {
    let values = |config: &Config| -> BTreeMap<&'static str, String> {
        config.settings().into_iter().map(|setting| (setting.key, setting.value)).collect()
    };
    let (at_start, in_force, wanted) = (values(started), values(last), values(new));
    let keys: BTreeSet<&str> =
        [&at_start, &in_force, &wanted].into_iter().flat_map(|of| of.keys().copied()).collect();
    let mut changes = Vec::new();
    for key in keys {
        let is_reloaded = RELOADED.iter().any(|prefix| key.starts_with(prefix));
        let text = |values: &BTreeMap<&str, String>| values.get(key).cloned().unwrap_or_default();
        let before = text(if is_reloaded { &in_force } else { &at_start });
        let after = text(&wanted);
        if before != after {
            changes.push(Change { key: key.to_owned(), before, after, is_reloaded });
        }
    }
    for (key, differs, count, is_reloaded) in TABLES {
        let old = if is_reloaded { last } else { started };
        if differs(old, new) {
            let entries = |config| format!("{} entries", count(config));
            changes.push(Change {
                key: key.to_owned(),
                before: entries(old),
                after: entries(new),
                is_reloaded,
            });
        }
    }
    changes
}

/// Whether two values differ, by everything that their debug form shows.
fn differ<T: Debug>(one: &T, other: &T) -> bool {
    format!("{one:?}") != format!("{other:?}")
}
