//! The table `[console]`: where the console listens, and the people who log in by a token.

use super::limits::Limits;
use super::resolve_localhost;
use super::value::{Value as _, hex_bytes};
use anyhow::{Context as _, anyhow, bail, ensure};
use serde::Deserialize;
use std::net::SocketAddr;
use toolyard_console::{ConsoleUser, Role};
use toolyard_dispatch::Capture;

/// The users as written. The other keys of `[console]` are flat.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct ConsoleTables {
    #[serde(default)]
    users: Vec<UserRow>,
}

/// The keys of these tables.
pub const KEYS: [&str; 1] = ["console.users"];

/// An entry of `[[console.users]]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct UserRow {
    name: String,
    token_sha256: Option<String>,
    role: String,
    /// Whether they see arguments and results.
    #[serde(default)]
    contents: bool,
}

/// The console.
#[derive(Debug, Clone)]
pub struct Console {
    /// The address, or the rule that chooses it.
    pub listen: ConsoleListen,
    /// Host names under which it may be addressed, besides its own and those of loopback.
    pub names: Vec<String>,
    /// The people who log in by a token.
    pub users: Vec<ConsoleUser>,
    /// The plain calls whose arguments and results are kept.
    pub capture: Capture,
}

/// The address of the console, or the rule that chooses it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConsoleListen {
    /// On a free port of loopback, if the host serves on loopback and a person sees its terminal.
    Auto,
    /// Nowhere.
    Off,
    /// At this address.
    At(SocketAddr),
}

impl ConsoleTables {
    /// The console of this configuration.
    ///
    /// # Errors
    /// The value that does not fit.
    pub fn resolve(
        self,
        listen: Option<&str>,
        names: Vec<String>,
        capture: Option<&str>,
        limits: &Limits,
    ) -> anyhow::Result<Console> {
        let mut users: Vec<ConsoleUser> = Vec::new();
        for row in self.users {
            let user = row.resolve()?;
            ensure!(
                users.iter().all(|other| other.name != user.name && other.token_sha256 != user.token_sha256),
                "[[console.users]] `{}`: another user has the same name or token",
                user.name
            );
            users.push(user);
        }
        let listen = parse_listen(listen, limits.console_on_network)?;
        if let ConsoleListen::At(address) = listen {
            ensure!(
                address.ip().is_loopback() || !users.is_empty(),
                "`console.listen`: {address} can be reached from other machines, where only [[console.users]] may \
                 log in; there is none (`toolyard token NAME --console` makes one)"
            );
        }
        let capture = capture.map_or(Ok(Capture::default()), Capture::read);
        let capture = capture.map_err(|expected| anyhow!("`console.capture`: {expected}"))?;
        Ok(Console { listen, names, users, capture })
    }
}

impl UserRow {
    fn resolve(self) -> anyhow::Result<ConsoleUser> {
        let Self { name, token_sha256, role, contents } = self;
        let at = |key: &str| format!("[[console.users]] `{name}`: `{key}`");
        let is_plain =
            !name.is_empty() && name.len() <= 64 && name.bytes().all(|byte| byte.is_ascii_graphic());
        ensure!(is_plain, "[[console.users]]: expected a name of up to 64 letters, digits and signs");
        let token_sha256 = token_sha256.as_deref().and_then(hex_bytes).with_context(|| {
            format!(
                "{}: expected the SHA-256 of the token in 64 hexadecimal digits; `toolyard token {name} --console` \
                 makes a token and says what to write here",
                at("token-sha256")
            )
        })?;
        let role = Role::of_name(&role)
            .with_context(|| format!("{}: expected viewer, approver or admin, not `{role}`", at("role")))?;
        Ok(ConsoleUser { name, token_sha256, role, contents })
    }
}

/// The console may change tasks, so an address that other machines reach needs `console.on-network`.
fn parse_listen(text: Option<&str>, on_network: bool) -> anyhow::Result<ConsoleListen> {
    match text {
        None | Some("auto") => Ok(ConsoleListen::Auto),
        Some("off") => Ok(ConsoleListen::Off),
        Some(text) => match resolve_localhost(text).parse::<SocketAddr>() {
            Ok(address) if on_network || address.ip().is_loopback() => Ok(ConsoleListen::At(address)),
            Ok(address) => bail!(
                "`console.listen`: {address} can be reached from other machines; if that is meant, set \
                 `console.on-network = true` and name the people in [[console.users]]"
            ),
            Err(_) => {
                bail!(
                    "`console.listen`: expected auto, off, or ADDRESS:PORT such as 127.0.0.1:7422, not `{text}`"
                )
            }
        },
    }
}
