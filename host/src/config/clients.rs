//! The tables of `[bridge]`: clients that know tasks, and clients with their own times. The host's built-in
//! rows come after those of the operator.

use super::limits::Limits;
use super::value::Value as _;
use anyhow::{Context as _, bail};
use serde::Deserialize;
use std::time::Duration;
use toolyard_dispatch::{BridgeSettings, BridgedClient, ClientPattern, OnClientTimeout};

/// The longest wait of a `task_wait` for clients that no row names. Many clients give up after a minute.
const MAX_WAIT: Duration = Duration::from_secs(55);

/// The clients that the host knows: name, time before a hand-off, time of a `task_wait`.
const KNOWN: [(&str, Duration, Duration); 3] = [
    // Moves a call to its own background after 120 s, and the model may then ignore the result
    // (claude-code issues 78407 and 78566).
    ("claude-code*", Duration::from_secs(100), Duration::from_secs(100)),
    // Gives up after 30 s (chat-ui issue 1992).
    ("chat-ui*", Duration::from_secs(20), Duration::from_secs(20)),
    // Gives up after 30 s (cai issue 291).
    ("cai*", Duration::from_secs(20), Duration::from_secs(20)),
];

/// The tables as written. The other keys of `[bridge]` are limits.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct BridgeTables {
    /// Names of clients that know tasks without saying so, as globs.
    #[serde(default)]
    task_clients: Vec<String>,
    /// Clients with their own times.
    #[serde(default)]
    clients: Vec<ClientRow>,
}

/// The keys of these tables.
pub const KEYS: [&str; 2] = ["bridge.task-clients", "bridge.clients"];

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct ClientRow {
    /// The client's name, as a glob: from the session, else from `User-Agent`.
    name: String,
    after: Option<String>,
    wait: Option<String>,
    on_disconnect: Option<OnClientTimeout>,
}

impl BridgeTables {
    /// The settings of the bridge; `None` if it is off. A key that the operator `has_set` counts for the host's rows
    /// too.
    ///
    /// # Errors
    /// The value that does not fit.
    pub fn resolve(
        &self,
        limits: &Limits,
        has_set: impl Fn(&str) -> bool,
    ) -> anyhow::Result<Option<BridgeSettings>> {
        let task_clients = self.task_clients.iter().map(|name| pattern(name)).collect::<Result<_, _>>();
        let task_clients = task_clients.context("`bridge.task-clients`")?;
        let mut clients = Vec::new();
        for (place, row) in self.clients.iter().enumerate() {
            clients.push(row.resolve().with_context(|| format!("[[bridge.clients]], row {}", place + 1))?);
        }
        for (name, after, wait) in KNOWN {
            let name = pattern(name)?;
            clients.push(BridgedClient {
                name,
                after: (!has_set("bridge.after")).then_some(after),
                wait: (!has_set("bridge.wait")).then_some(wait),
                keeps_on_disconnect: false,
            });
        }
        if limits.bridge_wait > MAX_WAIT {
            bail!(
                "`bridge.wait`: at most 55s, since many clients give up after a minute; set more for one client \
                 in [[bridge.clients]]"
            );
        }
        Ok(limits.bridge.then(|| BridgeSettings {
            after: limits.bridge_after,
            wait: limits.bridge_wait,
            on_client_timeout: limits.bridge_on_client_timeout,
            grace: limits.bridge_grace,
            rejoin: limits.bridge_rejoin,
            prefix: limits.bridge_prefix.as_str().to_owned(),
            output_schema: limits.bridge_output_schema,
            answers: limits.bridge_answers,
            task_clients,
            clients,
        }))
    }
}

impl ClientRow {
    fn resolve(&self) -> anyhow::Result<BridgedClient> {
        let time = |key: &str, text: &Option<String>| {
            let time = text.as_deref().map(Duration::read).transpose();
            time.map_err(|expected| anyhow::anyhow!("`{key}`: {expected}"))
        };
        Ok(BridgedClient {
            name: pattern(&self.name).context("`name`")?,
            after: time("after", &self.after)?,
            wait: time("wait", &self.wait)?,
            keeps_on_disconnect: self.on_disconnect == Some(OnClientTimeout::Keep),
        })
    }
}

fn pattern(text: &str) -> anyhow::Result<ClientPattern> {
    ClientPattern::new(text).map_err(anyhow::Error::msg)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> anyhow::Result<BridgeSettings> {
        let tables: BridgeTables = toml::from_str(text)?;
        Ok(tables.resolve(&Limits::default(), |_| false)?.expect("is on by default"))
    }

    #[test]
    fn a_key_that_is_set_counts_for_every_client_without_a_row_of_the_operator() {
        let limits = Limits { bridge_after: Duration::from_secs(3), ..Limits::default() };
        let bridge = BridgeTables::default().resolve(&limits, |key| key == "bridge.after");
        let code = bridge.expect("valid").expect("is on").terms(Some("claude-code"));
        assert_eq!((code.after, code.wait), (Duration::from_secs(3), Duration::from_secs(100)));
    }

    #[test]
    fn the_operators_rows_come_before_those_of_the_host() {
        let bridge = read("[[clients]]\nname = \"claude-*\"\nafter = \"5s\"\non-disconnect = \"keep\"")
            .expect("valid");
        for (client, after, wait) in [
            (Some("claude-code"), 5, 50),
            (Some("chat-ui-mcp"), 20, 20),
            (Some("another"), 45, 50),
            (None, 45, 50),
        ] {
            let terms = bridge.terms(client);
            assert_eq!((terms.after.as_secs(), terms.wait.as_secs()), (after, wait), "{client:?}");
        }
        assert!(bridge.terms(Some("claude-code")).keeps_on_disconnect);
    }

    #[test]
    fn clients_that_know_tasks_are_named_by_globs() {
        let bridge = read("task-clients = [\"Visual Studio Code\", \"MCPJam*\"]").expect("valid");
        assert!(bridge.knows_tasks("Visual Studio Code") && bridge.knows_tasks("MCPJam Inspector"));
        assert!(!bridge.knows_tasks("claude-code"));
    }

    #[test]
    fn what_does_not_fit_is_refused_with_its_row() {
        for (text, says) in [
            ("[[clients]]\nname = \"a\"\nafter = \"soon\"", "row 1"),
            ("[[clients]]\nname = \"[\"", "row 1"),
            ("[[clients]]\nname = \"a\"\naftr = \"1s\"", "unknown field `aftr`"),
        ] {
            let error = read(text).expect_err(text);
            assert!(format!("{error:#}").contains(says), "{error:#}");
        }
        let limits = Limits { bridge_wait: Duration::from_secs(56), ..Limits::default() };
        let error = BridgeTables::default().resolve(&limits, |_| false).expect_err("too long");
        assert!(error.to_string().contains("at most 55s"), "{error}");
    }
}
