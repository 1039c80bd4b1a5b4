//! The manifest `name.toml` beside `name.wasm`: what the operator grants and
//! sets. Absent means nothing granted and every default.
//!
//! Nothing in it is ever silently ignored: unknown keys are errors, and so are
//! sections that this version does not carry out yet.

mod folders;
mod http;
mod limits;
mod read;
mod resources;
mod secrets;
mod sockets;
mod tools;
mod wasi;

use crate::clocks::{ClockGrant, RandomGrant};
use crate::error::ManifestError;
use crate::grant::{GrantedBy, NamedFolder};
use crate::limits::Limits;
use crate::secret::NamedSecret;
use crate::sockets::SocketGrant;
pub(crate) use http::{NamedHttp, NamedInjection};
use read::{Entry, Section};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
pub(crate) use tools::ToolOverride;
use toolyard_task::Durability;
use toolyard_task::wire::UriRange;

/// The largest manifest, in bytes.
pub(crate) const MAX_BYTES: u64 = 256 << 10;

/// A manifest, read and checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Manifest {
    pub enabled: bool,
    pub prefix: Option<String>,
    /// Of a run of the plugin; a tool may have its own.
    pub limits: Arc<Limits>,
    /// How many runs of the plugin there may be at once.
    pub concurrency: Option<u32>,
    /// How many tasks of the plugin may wait for their turn.
    pub queue: Option<u32>,
    pub env: Vec<(String, String)>,
    pub folders: Vec<NamedFolder>,
    pub http: NamedHttp,
    pub sockets: SocketGrant,
    pub secrets: Vec<NamedSecret>,
    pub clock: ClockGrant,
    pub random: RandomGrant,
    /// The URIs that its resources may have; any, if absent.
    pub uris: Option<Vec<UriRange>>,
    pub poll_interval: Option<Duration>,
    pub immediate_response: Option<String>,
    /// How long its calls are waited for before they become tasks.
    pub inline_for: Option<Duration>,
    /// What becomes of its tasks when their host is gone.
    pub durability: Option<Durability>,
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

/// Reads who grants something: `"always"` or `"ask"`.
fn granted_by(entry: &Entry<'_>) -> Result<GrantedBy, ManifestError> {
    [GrantedBy::Operator, GrantedBy::Person]
        .into_iter()
        .find(|by| entry.text().is_ok_and(|text| text == by.as_str()))
        .ok_or_else(|| entry.expected("\"always\" or \"ask\""))
}

fn prefix(entry: &Entry<'_>) -> Result<String, ManifestError> {
    let prefix = entry.text()?;
    let fits = (1..=64).contains(&prefix.len()) && crate::describe::is_name(prefix);
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
