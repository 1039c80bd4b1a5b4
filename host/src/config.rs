//! Configuration: the values from flags, environment and file, and their meaning. The conversion names and
//! refuses every value that does not fit.

pub mod auth;
mod clients;
pub mod console;
mod dropped;
pub mod encryption;
mod fingerprint;
pub mod http;
pub mod limits;
pub mod plugins;
mod settings;
pub mod store;
pub mod value;

use crate::outsiders;
use anyhow::{Context as _, anyhow, bail};
use auth::Auth;
use clap::Args;
use clients::BridgeTables;
use console::{Console, ConsoleTables};
use http::Http;
use limits::{Limits, TABLE};
use plugins::{PluginTables, RegistryTables};
use serde::Deserialize;
pub use settings::Setting;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
pub use store::StoreChoice;
use toolyard_cli::nearest::nearest;
use toolyard_cli::{bail_usage, read};
use toolyard_dispatch::rules::{AccessRules, RuleSpec};
use toolyard_dispatch::{BridgeSettings, WeightSpec, Weights};
use toolyard_engine::{QuickCode, SecretCommands};
use toolyard_store::postgres::SCHEMA;
use toolyard_transport::http::host_origin::AllowedNames;
use toolyard_trust::policy::Policy;
use value::LockMode;

/// The heading of these flags in the help of a command, below its own options.
const GLOBAL: &str = "Global options";

/// The flags that most commands share. Each has an environment variable and a key in the configuration file.
/// The flag overrides the variable, and the variable overrides the file.
#[derive(Debug, Clone, Default, Args)]
pub struct Flags {
    /// The configuration file. [default: toolyard.toml, if it exists]
    #[arg(long, value_name = "FILE", env = "TOOLYARD_CONFIG", global = true, help_heading = GLOBAL)]
    pub config: Option<PathBuf>,

    /// The folder with the tools. [key: plugins] [default: ./plugins if it
    /// exists, else the user's data folder]
    #[arg(long, value_name = "DIR", env = "TOOLYARD_PLUGINS", global = true, help_heading = GLOBAL)]
    pub plugins: Option<PathBuf>,

    /// The folder for tasks, sessions and compiled tools. [key: data] [default:
    /// the user's state folder]
    #[arg(long, value_name = "DIR", env = "TOOLYARD_DATA", global = true, help_heading = GLOBAL)]
    pub data: Option<PathBuf>,

    /// The store of tasks: sqlite (in the data folder), memory (lost at the end), or a database that several
    /// hosts share (postgres://user@host/database). Give an address with a password in TOOLYARD_STORE
    /// instead. [key: store] [default: sqlite]
    #[arg(long, value_name = "STORE", env = "TOOLYARD_STORE", hide_env_values = true, global = true, help_heading = GLOBAL)]
    pub store: Option<String>,

    /// The filter of the log on stderr: error, warn, info, debug, trace, or a filter such as
    /// toolyard_engine=debug. [key: log, or log.filter] [default: info when serving, else warn]
    #[arg(long, value_name = "FILTER", env = "TOOLYARD_LOG", global = true, help_heading = GLOBAL)]
    pub log: Option<String>,

    /// Set any setting of host/docs/reference/settings.md, such as tasks.ttl-default=2h; may be repeated.
    /// [env: TOOLYARD_TASKS_TTL_DEFAULT and so on] [key: the same]
    #[arg(long = "set", value_name = "KEY=VALUE", global = true, help_heading = GLOBAL)]
    pub set: Vec<String>,
}

impl Flags {
    /// The flags as arguments for another process of this program, in the same folder and with the same
    /// environment.
    pub fn to_args(&self) -> Vec<OsString> {
        let Self { config, plugins, data, store, log, set } = self;
        let paths = [("--config", config), ("--plugins", plugins), ("--data", data)];
        let paths = paths.map(|(flag, path)| (flag, path.as_ref().map(OsString::from)));
        let texts = [("--store", store), ("--log", log)];
        let texts = texts.map(|(flag, text)| (flag, text.as_ref().map(OsString::from)));
        let set = set.iter().map(|pair| ("--set", Some(pair.into())));
        let given = paths.into_iter().chain(texts).chain(set);
        given.filter_map(|(flag, value)| Some([flag.into(), value?])).flatten().collect()
    }
}

/// The effective configuration.
#[derive(Debug, Clone)]
pub struct Config {
    /// The configuration file. If there is none, the path that would be read.
    pub file: PathBuf,
    /// The folder with the tools.
    pub plugins: PathBuf,
    /// Whether a flag, a variable or the file names that folder.
    pub names_plugins: bool,
    /// The folder for tasks, sessions and compiled tools.
    pub data: PathBuf,
    /// The store of tasks.
    pub store: StoreChoice,
    /// The schema in PostgreSQL.
    pub schema: String,
    /// The file with the encryption keys of tasks.
    pub key_file: Option<PathBuf>,
    /// The address that HTTP is served at.
    pub listen: SocketAddr,
    /// Whether callers of other machines may be anonymous (`auth.anonymous-on-network`).
    pub may_be_open: bool,
    /// The filter of the log.
    pub log: Option<String>,
    /// The server's name, as clients see it.
    pub name: String,
    /// The server's name, as people see it.
    pub title: Option<String>,
    /// Instructions for the model.
    pub instructions: Option<String>,
    /// The listener for the operator.
    pub admin: Admin,
    /// The console.
    pub console: Console,
    /// The destination of traces.
    pub trace: Trace,
    /// The limits in force.
    pub limits: Limits,
    /// How calls of clients without tasks go on; `None` if that is off.
    pub bridge: Option<Arc<BridgeSettings>>,
    /// The authentication of callers over HTTP.
    pub auth: toolyard_transport::auth::AuthSettings,
    /// The host names that HTTP requests may address, and the web origins that may call.
    pub allowed_names: AllowedNames,
    /// The access rules.
    pub rules: Vec<RuleSpec>,
    /// The weights that share the processors between principals.
    pub weights: Vec<WeightSpec>,
    /// The digests of the components that may be loaded. `None` allows any.
    pub require_digest: Option<BTreeSet<String>>,
    /// The signatures that plugins need.
    pub signers: Arc<Policy>,
    /// How to reach the registries that plugins come from, by host and port.
    pub registries: RegistryTables,
    /// The commands that print secrets of plugins.
    pub secret_commands: Arc<SecretCommands>,
    /// Whether this process permanently decides which plugin has which tool name. A host does; a command that
    /// only inspects or tries a plugin does not.
    pub assigns_tool_names: bool,
    /// Whether components may run with code that was compiled quickly.
    pub quick_code: QuickCode,
    /// Whether a plugin can be tried without its secrets.
    pub uses_placeholder_secrets: bool,
    /// The settings that are not at their default, and where each was set.
    set: BTreeMap<String, settings::Origin>,
}

/// The listener for the operator.
#[derive(Debug, Clone, Default)]
pub struct Admin {
    /// The address; `None` if there is no such listener.
    pub listen: Option<SocketAddr>,
    /// Host names under which it may be addressed, besides those of loopback.
    pub names: Vec<String>,
}

/// The destination of traces.
#[derive(Debug, Clone)]
pub struct Trace {
    /// The collector's URL; `None` if nothing is traced.
    pub endpoint: Option<String>,
    /// The name of this host in traces.
    pub service: String,
}

/// The file that is read if the operator names no other.
const DEFAULT_FILE: &str = "toolyard.toml";
/// The address that HTTP is served at unless another is set.
const LISTEN: &str = "127.0.0.1:7420";
/// The largest configuration file, in bytes.
const MAX_BYTES: u64 = 4 << 20;

/// The keys that are not limits.
const PLAIN_KEYS: [&str; 21] = [
    "plugins",
    "plugins.folder",
    "plugins.require-digest",
    "data",
    "data.folder",
    "store",
    "cluster.schema",
    "encryption.key-file",
    "listen",
    "log",
    "log.filter",
    "server.name",
    "server.title",
    "server.instructions",
    "admin.listen",
    "admin.names",
    "console.listen",
    "console.names",
    "console.capture",
    "trace.endpoint",
    "trace.service",
];

/// The keys that hold lists of words.
const LISTS: [&str; 3] = ["plugins.require-digest", "admin.names", "console.names"];

impl Config {
    /// Checks the address for a command that listens: without authentication only this machine's users may call,
    /// unless the operator sets `anonymous-on-network`.
    ///
    /// # Errors
    /// The ways out.
    pub fn check_address(&self) -> anyhow::Result<()> {
        let (address, auth) = (self.listen, &self.auth);
        let is_open = auth.tokens.is_empty() && auth.issuers.is_empty();
        if is_open && !address.ip().is_loopback() && !self.may_be_open {
            bail_usage!(
                "`listen`: {address} can be reached from other machines, and callers need no credentials; configure \
                 [[auth.tokens]] or [[auth.issuers]] (host/docs/guides/secure/authentication.md), listen on \
                 127.0.0.1 or [::1], or let everybody in with `anonymous-on-network = true` in [auth]"
            );
        }
        Ok(())
    }

    /// Replaces the plugin folder by one that this program chose.
    pub fn set_plugins(&mut self, folder: PathBuf) {
        self.plugins = folder;
        self.names_plugins = false;
        // The lock file of the operator says nothing about it.
        self.limits.lock = LockMode::Off;
    }

    /// Reads the file and the environment, and applies the flags on top.
    ///
    /// # Errors
    /// The value that does not fit, its place, and the expected form.
    pub fn read(flags: &Flags, listen: Option<&str>) -> anyhow::Result<Self> {
        let mut written = RawConfig::default();
        let file = flags.config.clone().or_else(|| {
            let default = PathBuf::from(DEFAULT_FILE);
            default.exists().then_some(default)
        });
        written.file = file.clone().unwrap_or_else(|| PathBuf::from(DEFAULT_FILE));
        let mut base = PathBuf::new();
        if let Some(file) = &file {
            let cannot = || format!("cannot read the configuration file {}", file.display());
            let opened = read::open(file).with_context(cannot)?;
            if flags.config.is_none() {
                let found = opened.metadata().with_context(cannot)?;
                outsiders::configuration(file, &found)?;
            }
            let text = read::text_of(opened, MAX_BYTES).with_context(cannot)?;
            written.place = file.display().to_string();
            written.take_file(&text).with_context(|| format!("in {}", file.display()))?;
            base = file.parent().map(Path::to_path_buf).unwrap_or_default();
        }
        written.take_environment(|name| std::env::var(name).ok())?;
        for pair in &flags.set {
            let Some((key, value)) = pair.split_once('=') else {
                bail!("--set: expected KEY=VALUE, not `{pair}`");
            };
            "--set".clone_into(&mut written.place);
            written.take(key.trim(), value).with_context(|| format!("in --set {pair}"))?;
        }
        written.resolve(flags, listen, &base)
    }
}

/// The values as text, by key.
#[derive(Default)]
struct RawConfig {
    file: PathBuf,
    limits: Limits,
    tables: Tables,
    /// The values that were set, and the place that is read now.
    set: BTreeMap<String, settings::Origin>,
    place: String,
}

/// The tables with more structure than keys and values; only the file has them.
#[derive(Default, Deserialize)]
struct Tables {
    #[serde(default)]
    auth: Auth,
    #[serde(default)]
    bridge: BridgeTables,
    #[serde(default)]
    console: ConsoleTables,
    #[serde(default)]
    http: Http,
    #[serde(default, deserialize_with = "plugins::table_or_text")]
    plugins: PluginTables,
    #[serde(default)]
    registries: RegistryTables,
    #[serde(default, rename = "secret-commands")]
    secret_commands: SecretCommands,
    #[serde(default)]
    rules: Vec<RuleSpec>,
    #[serde(default)]
    weights: Vec<WeightSpec>,
}

/// The names of these tables.
const TABLES: [&str; 6] = ["auth", "http", "registries", "rules", "secret-commands", "weights"];

impl RawConfig {
    fn take_file(&mut self, text: &str) -> anyhow::Result<()> {
        let read = |error: toml::de::Error| anyhow::anyhow!("{error}");
        let mut table: toml::Table = text.parse().map_err(read)?;
        table.retain(|name, _| !TABLES.contains(&name));
        self.take_table("", &table)?;
        // Parsed from the text, so that an error shows the line.
        self.tables = toml::from_str(text).map_err(read)?;
        Ok(())
    }

    fn take_table(&mut self, prefix: &str, table: &toml::Table) -> anyhow::Result<()> {
        for (name, value) in table {
            let key = if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
            let of_tables = [&clients::KEYS[..], &console::KEYS, &plugins::KEYS];
            if of_tables.iter().any(|keys| keys.contains(&key.as_str())) {
                continue;
            }
            match value {
                toml::Value::Table(inner) => self.take_table(&key, inner)?,
                toml::Value::String(text) => self.take(&key, text)?,
                toml::Value::Integer(number) => self.take(&key, &number.to_string())?,
                toml::Value::Boolean(truth) => self.take(&key, &truth.to_string())?,
                // A list of words may also be an array.
                toml::Value::Array(items) if LISTS.contains(&key.as_str()) => {
                    let words: Option<Vec<&str>> = items.iter().map(toml::Value::as_str).collect();
                    let words = words.with_context(|| format!("`{key}`: expected a list of texts"))?;
                    self.take(&key, &words.join(" "))?;
                }
                other => bail!("`{key}`: expected text, a number, true or false, not {}", other.type_str()),
            }
        }
        Ok(())
    }

    fn take_environment(&mut self, read: impl Fn(&str) -> Option<String>) -> anyhow::Result<()> {
        let keys = TABLE.iter().map(|row| row.key).chain(dropped::TABLE.iter().map(|(key, _)| *key));
        for key in keys.chain(PLAIN_KEYS) {
            let variable = limits::variable(key);
            if let Some(value) = read(&variable) {
                self.place.clone_from(&variable);
                self.take(key, &value).with_context(|| format!("in the environment variable {variable}"))?;
            }
        }
        Ok(())
    }

    fn take(&mut self, key: &str, value: &str) -> anyhow::Result<()> {
        let origin = settings::Origin { value: value.to_owned(), place: self.place.clone() };
        self.set.insert(key.to_owned(), origin);
        if PLAIN_KEYS.contains(&key) || dropped::is_dropped(key) {
            return Ok(());
        }
        match self.limits.set(key, value) {
            Some(Ok(())) => Ok(()),
            Some(Err(expected)) => bail!("`{key}`: {expected}"),
            None => match nearest(key, TABLE.iter().map(|row| row.key).chain(PLAIN_KEYS)) {
                Some(nearest) => bail!("unknown key `{key}`; did you mean `{nearest}`?"),
                None => bail!("unknown key `{key}`; host/docs/reference/settings.md lists all of them"),
            },
        }
    }

    fn resolve(self, flags: &Flags, listen: Option<&str>, base: &Path) -> anyhow::Result<Config> {
        let text = |key: &str| self.set.get(key).map(|origin| origin.value.clone());
        let from_file = |path: String| base.join(path);
        let plugins = flags
            .plugins
            .clone()
            .or_else(|| text("plugins.folder").or_else(|| text("plugins")).map(from_file));
        let data = flags.data.clone().or_else(|| text("data.folder").or_else(|| text("data")).map(from_file));
        let store = flags.store.clone().or_else(|| text("store"));
        let address = listen.map(str::to_owned).or_else(|| text("listen"));
        let name = text("server.name").unwrap_or_else(|| "toolyard".to_owned());
        let list = |key: &str| text(key).map(|listed| words(&listed)).unwrap_or_default();
        let admin = Admin {
            listen: parse_admin(text("admin.listen").as_deref(), self.limits.admin_on_network)?,
            names: list("admin.names"),
        };
        let trace = Trace {
            endpoint: text("trace.endpoint").filter(|endpoint| !endpoint.is_empty()),
            service: text("trace.service").unwrap_or_else(|| name.clone()),
        };
        if self.limits.ttl_default > self.limits.ttl_cap {
            bail!("`tasks.ttl-default` is longer than `tasks.ttl-cap`; lower it, or raise the cap");
        }
        let require_digest = text("plugins.require-digest").map(|listed| digests(&listed)).transpose()?;
        let tables = self.tables;
        if let Some((name, _)) = tables.secret_commands.iter().find(|(_, command)| command.is_empty()) {
            bail!(
                "`secret-commands.{name}` is empty; name a program and its arguments, as in [\"op\", \"read\", \"op://…\"]"
            );
        }
        let signers = Arc::new(tables.plugins.resolve(base, &self.limits)?);
        let listen = parse_address("listen", LISTEN, address.as_deref().unwrap_or(LISTEN))?;
        let registry = |(host, registry)| (host, plugins::under(registry, base));
        // The host reports a bad rule before it starts anything.
        AccessRules::new(tables.rules.clone())?;
        Weights::new(&tables.weights).map_err(anyhow::Error::msg)?;
        Ok(Config {
            file: self.file,
            names_plugins: plugins.is_some(),
            plugins: plugins.map_or_else(default_plugins, Ok)?,
            data: data.map_or_else(default_data, Ok)?,
            store: StoreChoice::parse(store.as_deref())?,
            schema: text("cluster.schema").unwrap_or_else(|| SCHEMA.to_owned()),
            key_file: text("encryption.key-file").filter(|path| !path.is_empty()).map(from_file),
            listen,
            may_be_open: tables.auth.anonymous_on_network,
            log: flags.log.clone().or_else(|| text("log.filter").or_else(|| text("log"))),
            name,
            title: text("server.title"),
            instructions: text("server.instructions"),
            auth: tables.auth.resolve(base, &self.limits)?,
            allowed_names: tables.http.resolve()?,
            admin,
            console: tables.console.resolve(
                text("console.listen").as_deref(),
                list("console.names"),
                text("console.capture").as_deref(),
                &self.limits,
            )?,
            trace,
            bridge: tables.bridge.resolve(&self.limits, |key| self.set.contains_key(key))?.map(Arc::new),
            limits: self.limits,
            rules: tables.rules,
            weights: tables.weights,
            require_digest,
            signers,
            registries: tables.registries.into_iter().map(registry).collect(),
            secret_commands: Arc::new(tables.secret_commands),
            assigns_tool_names: false,
            quick_code: QuickCode::IfCached,
            uses_placeholder_secrets: false,
            set: self.set,
        })
    }
}

/// SHA-256 digests in hexadecimal, each with or without `sha256:` before it.
fn digests(text: &str) -> anyhow::Result<BTreeSet<String>> {
    let digest = |word: String| {
        let hex = word.strip_prefix("sha256:").unwrap_or(&word).to_ascii_lowercase();
        if hex.len() != 64 || !hex.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            bail!(
                "`plugins.require-digest`: expected 64 hexadecimal digits, as `toolyard tools` shows, not `{word}`"
            );
        }
        Ok(hex)
    };
    words(text).into_iter().map(digest).collect()
}

/// Words that commas or spaces separate.
fn words(text: &str) -> Vec<String> {
    text.split([',', ' ']).filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

/// The address of the admin listener. It asks for no credentials, so an address that other
/// machines reach needs `admin.on-network`.
fn parse_admin(address: Option<&str>, on_network: bool) -> anyhow::Result<Option<SocketAddr>> {
    let Some(text) = address.filter(|text| !text.is_empty()) else { return Ok(None) };
    let address = parse_address("admin.listen", "127.0.0.1:7421", text)?;
    if !address.ip().is_loopback() && !on_network {
        bail!(
            "`admin.listen`: {address} can be reached from other machines, and anybody who reaches it sees the \
             numbers of this host; if that is meant, set `admin.on-network = true`"
        );
    }
    Ok(Some(address))
}

/// The address that `localhost` stands for.
fn resolve_localhost(text: &str) -> String {
    text.strip_prefix("localhost:").map_or_else(|| text.to_owned(), |port| format!("127.0.0.1:{port}"))
}

fn parse_address(key: &str, example: &str, text: &str) -> anyhow::Result<SocketAddr> {
    let address = resolve_localhost(text).parse();
    address.map_err(|_| anyhow!("`{key}`: expected ADDRESS:PORT such as {example}, not `{text}`"))
}

fn default_plugins() -> anyhow::Result<PathBuf> {
    let here = PathBuf::from("plugins");
    if here.is_dir() {
        return Ok(here);
    }
    Ok(user_folders()?.data_dir().join("plugins"))
}

fn default_data() -> anyhow::Result<PathBuf> {
    let folders = user_folders()?;
    Ok(folders.state_dir().unwrap_or_else(|| folders.data_local_dir()).to_path_buf())
}

fn user_folders() -> anyhow::Result<directories::ProjectDirs> {
    directories::ProjectDirs::from("", "", "toolyard")
        .context("this user has no home folder; name the folders by --plugins and --data")
}

#[cfg(test)]
mod tests;
