//! The manifest `name.toml` beside `name.wasm`: what the operator grants and
//! sets. Absent means nothing granted and every default.
//!
//! Nothing in it is ever silently ignored: unknown keys are errors, and so are
//! sections that this version does not carry out yet.

mod error;
mod folders;
mod http;
mod limits;
mod read;
mod resources;
mod secrets;
mod sockets;
mod tools;
mod wasi;

pub use error::ManifestError;
pub use folders::{FolderMode, NamedFolder};
pub use http::rules::{Host, Hosts, Rule, Scheme, Target, Written, name as host_name};
pub use http::template::Template;
pub use http::{NamedHeader, NamedHttp, NamedInjection, is_forbidden};
pub use limits::{LimitRow, Limits, Unit};
pub use read::nearest;
pub use secrets::{NamedSecret, Source};
pub use sockets::{Peer, Protocol, SocketGrant, SocketRule};
pub use tools::ToolOverride;
pub use wasi::{ClockGrant, RandomGrant};

use read::{Entry, Section};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use toolyard_task::Durability;
use toolyard_task::wire::UriRange;

/// The largest manifest, in bytes.
pub const MAX_BYTES: u64 = 256 << 10;

/// The name of the manifest that lies beside the file `component`.
#[must_use]
pub fn file_name(component: &str) -> String {
    format!("{}.toml", component.strip_suffix(".wasm").unwrap_or(component))
}

/// A manifest, read and checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifest {
    /// Whether the plugin is loaded.
    pub enabled: bool,
    /// A text before the name of each of its tools, with a `_` between.
    pub prefix: Option<String>,
    /// Of a run of the plugin; a tool may have its own.
    pub limits: Arc<Limits>,
    /// How many runs of the plugin there may be at once.
    pub concurrency: Option<u32>,
    /// How many tasks of the plugin may wait for their turn.
    pub queue: Option<u32>,
    /// Environment variables of its runs, by name and value.
    pub env: Vec<(String, String)>,
    /// `[fs]`: folders that its runs may use.
    pub folders: Vec<NamedFolder>,
    /// `[http]`: hosts of outgoing requests.
    pub http: NamedHttp,
    /// `[sockets]`: peers of raw sockets.
    pub sockets: SocketGrant,
    /// `[secrets]`: where to find the values of its secrets.
    pub secrets: Vec<NamedSecret>,
    /// How exact its clocks are.
    pub clock: ClockGrant,
    /// The source of its random numbers.
    pub random: RandomGrant,
    /// The URIs that its resources may have; any, if absent.
    pub uris: Option<Vec<UriRange>>,
    /// The poll interval that clients are told for its tasks.
    pub poll_interval: Option<Duration>,
    /// The text that a model gets as soon as a task is created.
    pub immediate_response: Option<String>,
    /// How long its calls are waited for before they become tasks.
    pub inline_for: Option<Duration>,
    /// What becomes of its tasks when their host is gone.
    pub durability: Option<Durability>,
    /// `[tools.NAME]`: settings of single tools, by name.
    pub tools: BTreeMap<String, ToolOverride>,
}

impl Manifest {
    /// The manifest of a plugin that has none.
    pub fn absent(defaults: &Limits) -> Self {
        Self {
            enabled: true,
            prefix: None,
            limits: Arc::new(defaults.clone()),
            concurrency: None,
            queue: None,
            env: Vec::new(),
            folders: Vec::new(),
            http: NamedHttp::default(),
            sockets: SocketGrant::default(),
            secrets: Vec::new(),
            clock: ClockGrant::Coarse,
            random: RandomGrant::Secure,
            uris: None,
            poll_interval: None,
            immediate_response: None,
            inline_for: None,
            durability: None,
            tools: BTreeMap::new(),
        }
    }

    /// Reads `text`, the contents of `file`.
    pub fn parse(file: &str, text: &str, defaults: &Limits) -> Result<Self, ManifestError> {
        let mut manifest = Self::absent(defaults);
        read::sections(file, text, |root| manifest.read(&root))?;
        Ok(manifest)
    }

    fn read(&mut self, root: &Section<'_>) -> Result<(), ManifestError> {
        const KEYS: &[&str] = &[
            "enabled",
            "prefix",
            "limits",
            "fs",
            "http",
            "sockets",
            "env",
            "secrets",
            "wasi",
            "resources",
            "task",
            "tools",
        ];
        // Before the tools, whose limits begin with these.
        if let Some(limits) = root.entries().find(|entry| entry.key() == "limits") {
            self.read_limits(&limits.section()?)?;
        }
        for entry in root.entries() {
            match entry.key() {
                "limits" => {}
                "enabled" => self.enabled = entry.boolean()?,
                "prefix" => self.prefix = Some(prefix(&entry)?),
                "env" => self.env = environment(&entry.section()?)?,
                "task" => self.read_task(&entry.section()?)?,
                "tools" => {
                    for tool in entry.section()?.entries() {
                        let said = tools::said(&tool.section()?, &self.limits)?;
                        self.tools.insert(tool.key().to_owned(), said);
                    }
                }
                "fs" => self.folders = folders::folders(&entry.section()?)?,
                "http" => self.http = http::http(&entry.section()?)?,
                "sockets" => self.sockets = sockets::sockets(&entry.section()?)?,
                "secrets" => self.secrets = secrets::secrets(&entry.section()?)?,
                "wasi" => self.read_wasi(&entry.section()?)?,
                "resources" => self.uris = resources::uris(&entry.section()?)?,
                _ => return Err(entry.unknown(KEYS)),
            }
        }
        self.check_secrets(root)
    }

    /// What `[http]` and `[env]` say of `[secrets]`.
    fn check_secrets(&self, root: &Section<'_>) -> Result<(), ManifestError> {
        let sections = || root.entries().filter(|entry| matches!(entry.key(), "http" | "env"));
        let is_secret = |name: &str| self.secrets.iter().any(|secret| secret.name == name);
        for entry in sections() {
            let header = self.http.secrets().find(|(name, _)| !is_secret(name));
            if let (Some((name, header)), "http") = (header, entry.key()) {
                let what =
                    format!("the header `{}` takes `{{{name}}}`, which is not in `secrets`", header.name);
                return Err(ManifestError { line: header.line, ..entry.error(what) });
            }
            if let ("env", Some((name, _))) = (entry.key(), self.env.iter().find(|(name, _)| is_secret(name)))
            {
                return Err(entry.error(format!("`{name}` is in `secrets` as well")));
            }
        }
        Ok(())
    }

    fn read_task(&mut self, section: &Section<'_>) -> Result<(), ManifestError> {
        const KEYS: &[&str] = &["durability", "poll-interval", "immediate-response", "inline-for"];
        for entry in section.entries() {
            match entry.key() {
                "durability" => self.durability = Some(tools::durability(&entry)?),
                "poll-interval" => self.poll_interval = Some(entry.duration()?),
                "immediate-response" => self.immediate_response = Some(entry.text_of(4 << 10)?),
                "inline-for" => self.inline_for = Some(entry.time()?),
                _ => return Err(entry.unknown(KEYS)),
            }
        }
        Ok(())
    }
}

/// Who grants what a manifest names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum GrantedBy {
    /// The manifest itself, to every run.
    #[default]
    Operator,
    /// The person who calls, when asked.
    Person,
}

impl GrantedBy {
    /// The word of the manifest.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Operator => "always",
            Self::Person => "ask",
        }
    }
}

/// Reads who grants something: `"always"` or `"ask"`.
fn granted_by(entry: &Entry<'_>) -> Result<GrantedBy, ManifestError> {
    [GrantedBy::Operator, GrantedBy::Person]
        .into_iter()
        .find(|by| entry.text().is_ok_and(|text| text == by.as_str()))
        .ok_or_else(|| entry.expected("\"always\" or \"ask\""))
}

fn prefix(entry: &Entry<'_>) -> Result<String, ManifestError> {
    let prefix = entry.text()?;
    let fits = (1..=64).contains(&prefix.len()) && toolyard_task::wire::is_name(prefix);
    if fits {
        Ok(prefix.to_owned())
    } else {
        Err(entry.expected("1 to 64 characters of `A-Z a-z 0-9 _ . -`"))
    }
}

fn environment(section: &Section<'_>) -> Result<Vec<(String, String)>, ManifestError> {
    let variable = |entry: Entry<'_>| {
        let name = entry.key().to_owned();
        if name.is_empty() || name.contains(['=', '\0']) {
            return Err(entry.error("is not a name for an environment variable".to_owned()));
        }
        let value = entry.text_of(32 << 10)?;
        if value.contains('\0') { Err(entry.expected("text without NUL")) } else { Ok((name, value)) }
    };
    section.entries().map(variable).collect()
}

#[cfg(test)]
mod network_tests;
#[cfg(test)]
mod tests;
