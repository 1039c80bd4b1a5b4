//! The settings of the bridge, and the clients that it serves differently.

use globset::{Glob, GlobMatcher};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::Duration;
use toolyard_task::tool::{OnClientTimeout, ToolSpec};

/// The settings of the bridge.
#[derive(Debug, Clone)]
pub struct BridgeSettings {
    /// How long a plain call may take before it is handed off.
    pub after: Duration,
    /// The longest that one `task_wait` waits.
    pub wait: Duration,
    /// The effect of a client's timeout on its call.
    pub on_client_timeout: OnClientTimeout,
    /// How long a call goes on after a timeout that its client did not name, unless an equal call joins it.
    pub grace: Duration,
    /// How long after its end a task still answers an equal call, if its caller does not know of it.
    pub rejoin: Duration,
    /// The prefix of the names of the host tools.
    pub prefix: String,
    /// How tools with an output schema are listed.
    pub output_schema: OutputSchemas,
    /// Whether questions of tools may be answered by the host tool `task_answer`.
    pub answers: bool,
    /// Clients of sessions that know tasks without saying so, by name.
    pub task_clients: Vec<ClientPattern>,
    /// Clients with times of their own; the first row that matches counts.
    pub clients: Vec<BridgedClient>,
}

/// How tools with an output schema are listed to clients that know no tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputSchemas {
    /// With a schema that a hand-off satisfies as well.
    Union,
    /// Without a schema.
    Drop,
}

/// A pattern for names of clients: `*` stands for any characters, `?` for one.
#[derive(Debug, Clone)]
pub struct ClientPattern {
    matcher: GlobMatcher,
    /// The common start of all matching names: few other names have it.
    prefix: String,
}

impl ClientPattern {
    /// The pattern of this text.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn new(text: &str) -> Result<Self, String> {
        let matcher = Glob::new(text).map_err(|error| error.to_string())?.compile_matcher();
        let prefix = text.chars().take_while(|char| !"*?[]{}\\".contains(*char)).collect();
        Ok(Self { matcher, prefix })
    }

    fn matches(&self, name: &str) -> bool {
        name.starts_with(&self.prefix) && self.matcher.is_match(name)
    }
}

/// A row of clients with times of their own.
#[derive(Debug, Clone)]
pub struct BridgedClient {
    /// The names of the clients.
    pub name: ClientPattern,
    /// In place of [`BridgeSettings::after`].
    pub after: Option<Duration>,
    /// In place of [`BridgeSettings::wait`].
    pub wait: Option<Duration>,
    /// Whether a call outlives its connection where the protocol would end it (26H-13).
    pub keeps_on_disconnect: bool,
}

/// How the calls of one client are bridged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BridgeTerms {
    /// How long a plain call may take before it is handed off.
    pub after: Duration,
    /// The longest that one `task_wait` waits.
    pub wait: Duration,
    /// Whether a call outlives its connection where the protocol would end it.
    pub keeps_on_disconnect: bool,
    /// Equal for clients of the same name.
    pub name_hash: u64,
}

impl BridgeTerms {
    /// The terms for a call of this tool.
    pub(crate) fn of_tool(self, tool: &ToolSpec) -> Self {
        Self { after: tool.bridge_after.unwrap_or(self.after), ..self }
    }

    /// The terms for a client that waits no longer than this.
    pub(crate) fn within(self, limit: Duration) -> Self {
        Self { after: self.after.min(limit), wait: self.wait.min(limit), ..self }
    }
}

impl BridgeSettings {
    /// The terms for a client of this name; `None` if it gave no name.
    #[must_use]
    pub fn terms(&self, name: Option<&str>) -> BridgeTerms {
        let row = name.and_then(|name| self.clients.iter().find(|row| row.name.matches(name)));
        BridgeTerms {
            after: row.and_then(|row| row.after).unwrap_or(self.after),
            wait: row.and_then(|row| row.wait).unwrap_or(self.wait),
            keeps_on_disconnect: row.is_some_and(|row| row.keeps_on_disconnect),
            name_hash: {
                let mut hasher = DefaultHasher::new();
                name.hash(&mut hasher);
                hasher.finish()
            },
        }
    }

    /// Whether the operator says that clients of this name know tasks.
    #[must_use]
    pub fn knows_tasks(&self, name: &str) -> bool {
        self.task_clients.iter().any(|pattern| pattern.matches(name))
    }
}
