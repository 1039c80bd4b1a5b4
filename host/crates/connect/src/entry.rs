//! The entry of a server in a client's file.

use crate::client::{Client, Http, Token};
use crate::environment::System;
use crate::fields::Fields;
use crate::refusal::Refusal;
use crate::value::Value;
use std::path::Path;

/// The name of the entry, unless `--name` gives another.
pub const DEFAULT_NAME: &str = "toolyard";

/// Keys of servers that the client starts.
const STDIO_KEYS: [&str; 4] = ["command", "args", "env", "cwd"];
/// Keys of servers that the client reaches over HTTP.
const HTTP_KEYS: [&str; 6] =
    ["url", "httpUrl", "headers", "bearer_token_env_var", "http_headers", "env_http_headers"];

/// The server that a client uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Server {
    /// The client starts this program.
    Stdio {
        /// The absolute path of the program.
        program: String,
        /// The arguments of the program.
        args: Vec<String>,
    },
    /// The client connects to this address.
    Http {
        /// The URL of the MCP endpoint.
        url: String,
        /// The environment variable of the client with the bearer token.
        token_env: Option<String>,
    },
}

/// The options of this program with which a client starts it.
#[derive(Debug, Clone, Copy)]
pub struct Launch<'a> {
    /// The program.
    pub program: &'a Path,
    /// The plugin folder.
    pub plugins: &'a Path,
    /// The configuration file, if there is one.
    pub config: Option<&'a Path>,
    /// The data folder, if it was given.
    pub data: Option<&'a Path>,
    /// The store, if it was given.
    pub store: Option<&'a str>,
    /// The filter of the log, if it was given.
    pub log: Option<&'a str>,
    /// Settings, as KEY=VALUE.
    pub set: &'a [String],
    /// Whether the store allows tasks in a background host.
    pub can_detach: bool,
}

impl Launch<'_> {
    /// The server for an entry. All paths in it are absolute, since a client starts programs in a folder of its own.
    ///
    /// # Errors
    /// If a path is not UTF-8, the plugin folder does not exist, or the store is an address.
    pub fn server(&self, system: System) -> Result<Server, Refusal> {
        let plugins = absolute(self.plugins)?;
        if !self.plugins.is_dir() {
            let text =
                format!("the plugin folder {plugins} does not exist; make it, or name another by --plugins");
            return Err(Refusal::Usage(text));
        }
        if self.store.is_some_and(|store| store.contains("://")) {
            let text = "the address of a database may contain a password, which the client's file would show; set \
                        `store` in a configuration file, and give that file by --config instead of --store or \
                        TOOLYARD_STORE";
            return Err(Refusal::Usage(text.to_owned()));
        }
        let (program, mut args) = match Runner::of(self.program) {
            Some(Runner { command, args }) => {
                (command.to_owned(), args.iter().map(|arg| (*arg).to_owned()).collect())
            }
            None => (absolute(self.program)?, Vec::new()),
        };
        args.push("stdio".to_owned());
        // Windows has no background host.
        if self.can_detach && system != System::Windows {
            args.push("--detach".to_owned());
        }
        let mut add = |flag: &str, value: String| args.extend([flag.to_owned(), value]);
        add("--plugins", plugins);
        for (flag, path) in [("--config", self.config), ("--data", self.data)] {
            if let Some(path) = path {
                add(flag, absolute(path)?);
            }
        }
        for (flag, text) in [("--store", self.store), ("--log", self.log)] {
            text.iter().for_each(|text| add(flag, (*text).to_owned()));
        }
        self.set.iter().for_each(|pair| add("--set", pair.clone()));
        Ok(Server::Stdio { program, args })
    }
}

/// A program that fetches this one and runs it from a cache, where its path does not stay.
struct Runner {
    command: &'static str,
    args: &'static [&'static str],
}

impl Runner {
    const NPX: Self = Self { command: "npx", args: &["-y", "toolyard"] };
    const UVX: Self = Self { command: "uvx", args: &["toolyard"] };

    /// The runner that started this program.
    fn of(program: &Path) -> Option<Self> {
        let has = |is: fn(&str) -> bool| program.iter().any(|part| part.to_str().is_some_and(is));
        match () {
            () if has(|part| part == "_npx") => Some(Self::NPX),
            () if has(|part| part == "uv") && has(|part| part.starts_with("archive-v")) => Some(Self::UVX),
            () => None,
        }
    }
}

fn absolute(path: &Path) -> Result<String, Refusal> {
    let absolute = std::path::absolute(path).ok().and_then(|path| path.to_str().map(str::to_owned));
    absolute.ok_or_else(|| Refusal::Usage(format!("{}: expected a path in UTF-8", path.display())))
}

/// The entry for a client.
pub fn fields(client: &Client, server: &Server) -> Result<Fields, Refusal> {
    let mut set = Vec::new();
    let mut dropped: Vec<&'static str> = Vec::new();
    let mut kind = |set: &mut Vec<_>, kind: &str| {
        if client.is_typed {
            set.push(("type", Value::Text(kind.to_owned())));
        } else {
            dropped.push("type");
        }
    };
    match server {
        Server::Stdio { program, args } => {
            kind(&mut set, "stdio");
            set.push(("command", Value::Text(program.clone())));
            set.push(("args", Value::texts(args.iter().cloned())));
            dropped.extend(HTTP_KEYS);
        }
        Server::Http { url, token_env } => {
            let refused = |reason| Refusal::Unsupported { client: client.title, reason };
            let (key, token) = match client.http {
                Http::Url(key, token) => (key, token),
                Http::Unsupported(reason) => return Err(refused(reason)),
            };
            kind(&mut set, "http");
            set.push((key, Value::Text(url.clone())));
            match (token_env, token) {
                (None, _) => {}
                (Some(_), Token::Unsupported(reason)) => return Err(refused(reason)),
                (Some(name), Token::Key(key)) => set.push((key, Value::Text(name.clone()))),
                (Some(name), Token::Header(before, after)) => {
                    let value = Value::Text(format!("Bearer {before}{name}{after}"));
                    set.push(("headers", Value::Map(vec![("Authorization".to_owned(), value)])));
                }
            }
            dropped.extend(STDIO_KEYS);
            // Without --token-env the headers stay as they are: a person may have added some.
            dropped.extend(["url", "httpUrl"].into_iter().filter(|other| *other != key));
        }
    }
    Ok(Fields { set, dropped })
}

/// Whether an entry is one of Toolyard: it starts `toolyard` or this program, or has the URL of this command. An
/// entry with the default name may also have another address of this machine that ends in `/mcp`.
pub fn is_ours(entry: &Value, name: &str, server: &Server) -> bool {
    if let Some(command) = entry.text("command") {
        return starts_toolyard(entry)
            || matches!(server, Server::Stdio { program, .. } if program == command);
    }
    let Some(url) = entry.text("url").or_else(|| entry.text("httpUrl")) else { return false };
    let is_given = matches!(server, Server::Http { url: given, .. } if given == url);
    is_given || (name == DEFAULT_NAME && is_local_endpoint(url))
}

/// Whether an entry starts this program, or a runner that fetches it.
pub fn starts_toolyard(entry: &Value) -> bool {
    entry.text("command").is_some_and(is_toolyard) || is_run(entry)
}

/// Whether an entry starts a runner that fetches this program.
pub fn is_run(entry: &Value) -> bool {
    let runners = [Runner::NPX, Runner::UVX];
    let command = entry.text("command");
    runners
        .iter()
        .any(|runner| command == Some(runner.command) && entry.list("args").starts_with(runner.args))
}

/// Whether a command is the program `toolyard`, in whatever folder.
fn is_toolyard(command: &str) -> bool {
    let name = command.rsplit(['/', '\\']).next().unwrap_or_default();
    name.strip_suffix(".exe").unwrap_or(name) == "toolyard"
}

fn is_local_endpoint(url: &str) -> bool {
    let Some(rest) = url.strip_prefix("http://") else { return false };
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    path == "mcp" && (name == "localhost" || name == "[::1]" || name.starts_with("127."))
}
