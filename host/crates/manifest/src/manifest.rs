//! A manifest as a whole: its sections, and what they mean together.

use crate::deserializer::{self, Error, Lines};
use crate::error::ManifestError;
use crate::folders::{self, FoldersSection, NamedFolder};
use crate::http::{HttpSection, NamedHttp};
use crate::limits::{Limits, LimitsSection};
use crate::resources::ResourcesSection;
use crate::secrets::{self, NamedSecret, SecretsSection};
use crate::sockets::{SocketGrant, SocketsSection};
use crate::tools::{ToolOverride, ToolSection};
use crate::wasi::{ClockGrant, RandomGrant, WasiSection};
use crate::{setting_lines, values};
use serde::Deserialize;
use serde::de::Deserializer;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use toml::Spanned;
use toolyard_task::task::JournalRetention;
use toolyard_task::wire::UriRange;
use toolyard_task::{Durability, OnClientTimeout};

/// The maximum size of a manifest, in bytes.
pub const MAX_BYTES: u64 = 256 << 10;

/// The name of the manifest that belongs to the file `component`.
#[must_use]
pub fn file_name(component: &str) -> String {
    format!("{}.toml", component.strip_suffix(".wasm").unwrap_or(component))
}

/// A parsed and checked manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifest {
    /// Whether the plugin is loaded.
    pub enabled: bool,
    /// A prefix for the name of each of its tools, joined with a `_`.
    pub prefix: Option<String>,
    /// The limits of a run of the plugin. A tool may have its own.
    pub limits: Arc<Limits>,
    /// The maximum number of concurrent runs of the plugin.
    pub concurrency: Option<u32>,
    /// The maximum number of waiting tasks of the plugin.
    pub queue: Option<u32>,
    /// The environment variables of its runs, by name and value.
    pub env: Vec<(String, String)>,
    /// `[fs]`: folders that its runs may use.
    pub folders: Vec<NamedFolder>,
    /// `[http]`: hosts of outgoing requests.
    pub http: NamedHttp,
    /// `[sockets]`: peers of raw sockets.
    pub sockets: SocketGrant,
    /// `[secrets]`: the sources of its secrets.
    pub secrets: Vec<NamedSecret>,
    /// The resolution of its clocks.
    pub clock: ClockGrant,
    /// The source of its random numbers.
    pub random: RandomGrant,
    /// The URIs that its resources may have; `None` allows any.
    pub uris: Option<Vec<UriRange>>,
    /// The poll interval for its tasks, sent to clients.
    pub poll_interval: Option<Duration>,
    /// The text that the model gets as soon as a task is created.
    pub immediate_response: Option<String>,
    /// How long the host waits for a call before it becomes a task.
    pub inline_for: Option<Duration>,
    /// How long a plain call of a client without tasks may take before it is handed off as a task.
    pub bridge_after: Option<Duration>,
    /// The outcome of a call that could be handed off if its client gives up first.
    pub on_client_timeout: Option<OnClientTimeout>,
    /// How its tasks recover when their node is gone.
    pub durability: Option<Durability>,
    /// Whether the journals of its tasks stay after their end.
    pub journal: Option<JournalRetention>,
    /// `[tools.NAME]`: settings of single tools, by name.
    pub tools: BTreeMap<String, ToolOverride>,
    /// The limits and the settings of tools, one line each, sorted: `tools.deploy.confirm = "ask"`.
    pub setting_lines: Vec<String>,
}

impl Manifest {
    /// Whether tasks of any of its tools resume.
    #[must_use]
    pub fn resumes(&self) -> bool {
        let of_tools = self.tools.values().map(|tool| tool.durability(self.durability));
        self.durability == Some(Durability::Resume) || of_tools.into_iter().any(|of| of == Durability::Resume)
    }

    /// The manifest of a plugin without one.
    pub fn absent(defaults: &Limits) -> Self {
        let absent = Document::default().check(defaults, &Lines::default());
        absent.expect("a document without keys has no fault")
    }

    /// Parses `text`, the contents of `file`.
    pub fn parse(file: &str, text: &str, defaults: &Limits) -> Result<Self, ManifestError> {
        let manifest =
            deserializer::read(file, text, |document: Document, lines| document.check(defaults, lines))?;
        Ok(Self { setting_lines: setting_lines::setting_lines(text), ..manifest })
    }
}

/// A manifest as in the text.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct Document {
    enabled: Option<bool>,
    #[serde(deserialize_with = "prefix")]
    prefix: Option<String>,
    limits: LimitsSection,
    fs: FoldersSection,
    http: HttpSection,
    sockets: SocketsSection,
    env: BTreeMap<String, Spanned<VariableValue>>,
    secrets: SecretsSection,
    wasi: WasiSection,
    resources: ResourcesSection,
    task: TaskSection,
    tools: BTreeMap<String, ToolSection>,
}

/// `[task]` as in the text.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
struct TaskSection {
    durability: Option<Spanned<Durability>>,
    journal: Option<JournalRetention>,
    #[serde(deserialize_with = "values::positive_time")]
    poll_interval: Option<Duration>,
    #[serde(deserialize_with = "values::text_of::<{ 4 << 10 }, _>")]
    immediate_response: Option<String>,
    #[serde(deserialize_with = "values::time")]
    inline_for: Option<Duration>,
    #[serde(deserialize_with = "values::time")]
    bridge_after: Option<Duration>,
    on_client_timeout: Option<OnClientTimeout>,
}

struct VariableValue(String);

impl<'de> Deserialize<'de> for VariableValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let fits = |value: &str| !value.contains('\0');
        values::bounded(deserializer, 32 << 10, "text in quotes without NUL", fits).map(Self)
    }
}

fn prefix<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    values::text(deserializer, "1 to 64 characters of `A-Z a-z 0-9 _ . -`", |prefix| {
        let fits = (1..=64).contains(&prefix.len()) && toolyard_task::wire::is_name(prefix);
        fits.then(|| Some(prefix.to_owned()))
    })
}

impl Document {
    /// Refuses grants whose results a run that resumes could not repeat.
    fn check_resume(&self) -> Result<(), Error> {
        let of_plugin = self.task.durability.iter().filter(|word| *word.get_ref() == Durability::Resume);
        let Some(resume) = of_plugin.chain(self.tools.values().filter_map(ToolSection::resume)).next() else {
            return Ok(());
        };
        let refuse = |with: &str, why: &str| {
            Err(Error::at(resume, format!("\"resume\" does not go with {with}: {why}")))
        };
        if !self.sockets.is_empty() {
            return refuse("`[sockets]`", "what comes over a socket cannot be replayed");
        }
        if !self.fs.is_empty() {
            return refuse("`[fs]`", "what a folder holds cannot be replayed");
        }
        if self.wasi.clock == Some(ClockGrant::Exact) {
            return refuse("`wasi.clock = \"exact\"`", "recorded clocks move in steps of a millisecond");
        }
        Ok(())
    }

    fn check(self, defaults: &Limits, lines: &Lines) -> Result<Manifest, Error> {
        self.check_resume()?;
        let limits = Arc::new(self.limits.over(defaults));
        let secrets = secrets::secrets(self.secrets, lines)?;
        let tool = |(name, tool): (String, ToolSection)| Ok((name, tool.check(&limits)?));
        let variable = |(name, value): (String, Spanned<VariableValue>)| {
            if name.is_empty() || name.contains(['=', '\0']) {
                return Err(Error::at(&value, "is not a name for an environment variable"));
            }
            if secrets.iter().any(|secret| secret.name == name) {
                return Err(Error::at(&value, format!("`{name}` is in `secrets` as well")));
            }
            Ok((name, value.into_inner().0))
        };
        Ok(Manifest {
            enabled: self.enabled.unwrap_or(true),
            prefix: self.prefix,
            concurrency: self.limits.concurrency(),
            queue: self.limits.queue(),
            env: self.env.into_iter().map(variable).collect::<Result<_, _>>()?,
            folders: folders::folders(self.fs, lines)?,
            http: self.http.check(&secrets, lines)?,
            sockets: self.sockets.grant()?,
            clock: self.wasi.clock.unwrap_or(ClockGrant::Coarse),
            random: self.wasi.random.unwrap_or(RandomGrant::Secure),
            uris: self.resources.uris(),
            poll_interval: self.task.poll_interval,
            immediate_response: self.task.immediate_response,
            inline_for: self.task.inline_for,
            bridge_after: self.task.bridge_after,
            on_client_timeout: self.task.on_client_timeout,
            durability: self.task.durability.map(Spanned::into_inner),
            journal: self.task.journal,
            tools: self.tools.into_iter().map(tool).collect::<Result<_, _>>()?,
            limits,
            secrets,
            setting_lines: Vec::new(),
        })
    }
}
