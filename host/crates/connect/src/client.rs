//! The clients, one row each.

use crate::edit::Format;
use crate::environment::{Environment, System};
use crate::refusal::Refusal;
use std::path::PathBuf;

/// The folder in which a path of a client begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Base {
    /// The home folder.
    Home,
    /// `$XDG_CONFIG_HOME` or `~/.config`, also on macOS; `%APPDATA%` on Windows.
    Config,
    /// The same, but `~/Library/Application Support` on macOS.
    Support,
}

/// The way in which a client names a bearer token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Token {
    /// The header `Authorization` with a variable between these texts.
    Header(&'static str, &'static str),
    /// A key with the name of the variable.
    Key(&'static str),
    /// The client expands no variables in headers.
    Unsupported(&'static str),
}

/// The entry of a server over HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Http {
    /// The key of the URL, and the token.
    Url(&'static str, Token),
    /// The configuration file takes no such servers.
    Unsupported(&'static str),
}

/// A command of a client that changes its configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Command {
    /// `claude mcp add-json` and `claude mcp remove`.
    ClaudeMcp,
    /// `code --add-mcp`, which cannot remove or change an entry.
    CodeAddMcp,
}

/// An MCP client.
#[derive(Debug, PartialEq, Eq)]
pub struct Client {
    /// The name that people give to `toolyard connect`.
    pub name: &'static str,
    /// The name of the product.
    pub title: &'static str,
    /// The format of its file.
    pub format: Format,
    /// The key of the file that has the servers.
    pub section: &'static str,
    pub(crate) user: (Base, &'static [&'static str]),
    /// The variable that names the folder of the user's file.
    pub(crate) moved_by: Option<&'static str>,
    pub(crate) project: Option<&'static [&'static str]>,
    /// Whether an entry has the key `type`.
    pub(crate) is_typed: bool,
    pub(crate) http: Http,
    /// The program on the PATH, by which the client is found.
    pub(crate) program: Option<&'static str>,
    pub(crate) command: Option<Command>,
    /// The next step of a person, for the user's file and for the project's file.
    pub(crate) afterwards: [&'static str; 2],
}

/// All clients.
pub static CLIENTS: [Client; 7] = [
    Client {
        name: "claude-desktop",
        title: "Claude Desktop",
        format: Format::Json,
        section: "mcpServers",
        user: (Base::Support, &["Claude", "claude_desktop_config.json"]),
        moved_by: None,
        project: None,
        is_typed: false,
        http: Http::Unsupported(
            "its configuration file starts programs only, and an address there is skipped or stops the application; \
             leave --http out, or add an https address in the application (Settings, Connectors)",
        ),
        program: None,
        command: None,
        afterwards: ["Quit Claude Desktop, and start it again.", ""],
    },
    Client {
        name: "claude-code",
        title: "Claude Code",
        format: Format::Json,
        section: "mcpServers",
        user: (Base::Home, &[".claude.json"]),
        moved_by: Some("CLAUDE_CONFIG_DIR"),
        project: Some(&[".mcp.json"]),
        is_typed: true,
        http: Http::Url("url", Token::Header("${", "}")),
        program: Some("claude"),
        command: Some(Command::ClaudeMcp),
        afterwards: [
            "Start a new session of Claude Code; `/mcp` shows the server.",
            "Start Claude Code in this folder, and approve the server.",
        ],
    },
    Client {
        name: "cursor",
        title: "Cursor",
        format: Format::Json,
        section: "mcpServers",
        user: (Base::Home, &[".cursor", "mcp.json"]),
        moved_by: None,
        project: Some(&[".cursor", "mcp.json"]),
        is_typed: false,
        http: Http::Url("url", Token::Header("${env:", "}")),
        program: Some("cursor"),
        command: None,
        afterwards: [
            "Restart Cursor; its settings list the server under MCP.",
            "Open this folder in Cursor; its settings list the server under MCP.",
        ],
    },
    Client {
        name: "vscode",
        title: "VS Code",
        format: Format::Json,
        section: "servers",
        user: (Base::Support, &["Code", "User", "mcp.json"]),
        moved_by: None,
        project: Some(&[".vscode", "mcp.json"]),
        is_typed: true,
        http: Http::Url("url", Token::Header("${env:", "}")),
        program: Some("code"),
        command: Some(Command::CodeAddMcp),
        afterwards: [
            "Run `MCP: List Servers` in VS Code, and start the server.",
            "Open this folder in VS Code, run `MCP: List Servers`, and start the server.",
        ],
    },
    Client {
        name: "codex",
        title: "Codex",
        format: Format::Toml,
        section: "mcp_servers",
        user: (Base::Home, &[".codex", "config.toml"]),
        moved_by: Some("CODEX_HOME"),
        project: Some(&[".codex", "config.toml"]),
        is_typed: false,
        http: Http::Url("url", Token::Key("bearer_token_env_var")),
        program: Some("codex"),
        command: None,
        afterwards: [
            "Start a new session of Codex; `codex mcp list` shows the server.",
            "Start Codex in this folder. It reads the file only if the folder is trusted.",
        ],
    },
    Client {
        name: "gemini",
        title: "Gemini CLI",
        format: Format::Json,
        section: "mcpServers",
        user: (Base::Home, &[".gemini", "settings.json"]),
        moved_by: None,
        project: Some(&[".gemini", "settings.json"]),
        is_typed: false,
        http: Http::Url("httpUrl", Token::Header("${", "}")),
        program: Some("gemini"),
        command: None,
        afterwards: [
            "Restart Gemini CLI; `/mcp` shows the server.",
            "Restart Gemini CLI in this folder; `/mcp` shows the server.",
        ],
    },
    Client {
        name: "zed",
        title: "Zed",
        format: Format::Json,
        section: "context_servers",
        user: (Base::Config, &["zed", "settings.json"]),
        moved_by: None,
        project: None,
        is_typed: false,
        http: Http::Url(
            "url",
            Token::Unsupported(
                "it sends headers as they are written, without the values of variables \
                 (zed-industries/zed#60459); leave --token-env out, or connect over stdio",
            ),
        ),
        program: Some("zed"),
        command: None,
        afterwards: ["Open the settings of the agent panel in Zed, and check that the server runs.", ""],
    },
];

/// The client of this name.
pub fn client(name: &str) -> Option<&'static Client> {
    CLIENTS.iter().find(|client| client.name == name)
}

impl Client {
    /// Whether it connects to a running host.
    #[must_use]
    pub const fn has_http(&self) -> bool {
        matches!(self.http, Http::Url(..))
    }

    /// The configuration file of the user, or of the project in the current folder.
    ///
    /// # Errors
    /// If the client has no file for a project, or several for the user.
    pub fn file(&self, environment: &Environment, project: bool) -> Result<PathBuf, Refusal> {
        let system = environment.system;
        if project {
            let parts = self.project.ok_or(Refusal::NoProjectFile { client: self.title })?;
            return Ok(system.join(&environment.project, parts.iter().copied()).into());
        }
        let (base, parts) = self.user;
        let moved = self.moved_by.and_then(|variable| environment.variables.get(variable));
        if let (Some(folder), Some(name)) = (moved, parts.last()) {
            return Ok(system.join(folder, [*name]).into());
        }
        if self.name == "claude-desktop" && system == System::Windows {
            match environment.claude_packages.as_slice() {
                [] => {}
                [package] => {
                    let parts = ["LocalCache", "Roaming"].iter().chain(parts).copied();
                    return Ok(system.join(package, parts).into());
                }
                several => return Err(Refusal::SeveralPackages { folders: several.join(", ") }),
            }
        }
        Ok(system.join(&folder(base, environment), parts.iter().copied()).into())
    }

    /// Whether the client seems to be installed: its program is on the PATH, or its folder or file exists.
    pub fn is_found(&self, environment: &Environment) -> bool {
        let has_program = self.program.is_some_and(|name| environment.programs.contains_key(name));
        let has_folder = || match self.file(environment, false) {
            Ok(file) => {
                let own = file.parent().filter(|folder| folder.to_str() != Some(&environment.home));
                file.is_file() || own.is_some_and(std::path::Path::is_dir)
            }
            Err(_) => true,
        };
        has_program || has_folder()
    }
}

fn folder(base: Base, environment: &Environment) -> String {
    let Environment { system, home, variables, .. } = environment;
    let variable = |name: &str, parts: &[&'static str]| {
        variables.get(name).cloned().unwrap_or_else(|| system.join(home, parts.iter().copied()))
    };
    match (base, system) {
        (Base::Home, _) => home.clone(),
        (Base::Config | Base::Support, System::Windows) => variable("APPDATA", &["AppData", "Roaming"]),
        (Base::Support, System::MacOs) => system.join(home, ["Library", "Application Support"]),
        (Base::Config, System::MacOs) => system.join(home, [".config"]),
        (Base::Config | Base::Support, System::Linux) => variable("XDG_CONFIG_HOME", &[".config"]),
    }
}
