//! The table `[auth]`: who may call, and how the host authenticates them.

use super::limits::Limits;
use super::value::{Value as _, hex_bytes};
use anyhow::{Context as _, bail, ensure};
use serde::{Deserialize, Deserializer};
use std::path::{Path, PathBuf};
use std::time::Duration;
use toolyard_dispatch::Timestamp;
use toolyard_transport::auth::{
    Address, Algorithm, AuthSettings, IssuerSettings, KeySource, TokenSettings, is_scope,
};

/// The tables of the file.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Auth {
    resource: Option<String>,
    /// Whether other machines may call without a token.
    #[serde(default)]
    pub anonymous_on_network: bool,
    #[serde(default, deserialize_with = "duration")]
    leeway: Option<Duration>,
    #[serde(default)]
    scopes: Vec<String>,
    #[serde(default)]
    required_scopes: Vec<String>,
    #[serde(default)]
    tokens: Vec<Token>,
    #[serde(default)]
    issuers: Vec<Issuer>,
}

/// An entry of `[[auth.tokens]]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(
    deny_unknown_fields,
    rename_all = "kebab-case",
    expecting = "a table [[auth.tokens]], which `toolyard token NAME` prints"
)]
struct Token {
    name: String,
    sha256: Option<String>,
    /// Accepted by the parser so that the host can refuse it with advice.
    token: Option<serde::de::IgnoredAny>,
    #[serde(default)]
    scopes: Vec<String>,
    expires: Option<String>,
    /// Whether the bearer is the user of this machine.
    #[serde(default)]
    local: bool,
}

/// An entry of `[[auth.issuers]]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Issuer {
    issuer: String,
    #[serde(default)]
    audience: Vec<String>,
    jwks_url: Option<String>,
    jwks_file: Option<PathBuf>,
    algorithms: Option<Vec<String>>,
}

/// Reads a duration that is written as in the flat settings.
fn duration<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    Duration::read(&String::deserialize(from)?).map(Some).map_err(serde::de::Error::custom)
}

/// The default tolerance for the clocks of issuers.
const LEEWAY: Duration = Duration::from_secs(60);

impl Auth {
    /// The settings of the transport. Relative file names start at `base`.
    ///
    /// # Errors
    /// The value that does not fit, and the expected form.
    pub fn resolve(self, base: &Path, limits: &Limits) -> anyhow::Result<AuthSettings> {
        let resource = match &self.resource {
            Some(text) => Some(address("`auth.resource`", text)?),
            None if self.issuers.is_empty() => None,
            None => bail!(
                "`auth.resource`: with [[auth.issuers]] this server must know its own URL, such as \
                 https://tools.example.com/mcp; tokens are accepted only if they are for it"
            ),
        };
        check_scopes("`auth.scopes`", &self.scopes)?;
        check_scopes("`auth.required-scopes`", &self.required_scopes)?;
        let mut tokens: Vec<TokenSettings> = Vec::new();
        for token in self.tokens {
            let token = token.resolve()?;
            ensure!(
                tokens.iter().all(|other| other.name != token.name && other.sha256 != token.sha256),
                "[[auth.tokens]] `{}`: another token has the same name or hash",
                token.name
            );
            tokens.push(token);
        }
        let mut issuers: Vec<IssuerSettings> = Vec::new();
        for issuer in self.issuers {
            let issuer = issuer.resolve(base, resource.as_ref())?;
            ensure!(
                issuers.iter().all(|other| other.issuer != issuer.issuer),
                "[[auth.issuers]] `{}`: the issuer is listed twice",
                issuer.issuer
            );
            issuers.push(issuer);
        }
        Ok(AuthSettings {
            resource,
            leeway: self.leeway.unwrap_or(LEEWAY),
            scopes: self.scopes,
            required_scopes: self.required_scopes,
            tokens,
            issuers,
            key_refresh: limits.jwks_refresh,
        })
    }
}

impl Token {
    fn resolve(self) -> anyhow::Result<TokenSettings> {
        let name = self.name;
        // Logs and rules show it as `token:NAME`.
        ensure!(
            !name.is_empty() && name.len() <= 64 && name.chars().all(|letter| letter.is_ascii_graphic()),
            "[[auth.tokens]] `name`: expected up to 64 letters, digits and signs, not `{name}`"
        );
        let at = |key: &str| format!("[[auth.tokens]] `{name}`, `{key}`");
        if self.token.is_some() {
            bail!(
                "{}: the configuration takes the hash of a token, not the token itself; \
                 `toolyard token {name}` makes a token and says what to write here",
                at("token")
            );
        }
        let Some(sha256) = self.sha256.as_deref().and_then(hex_bytes) else {
            bail!(
                "{}: expected the SHA-256 of the token in 64 hexadecimal digits; \
                 `toolyard token {name}` makes a token and says what to write here",
                at("sha256")
            );
        };
        check_scopes(&at("scopes"), &self.scopes)?;
        let expires = match &self.expires {
            None => None,
            Some(text) => match Timestamp::around(text) {
                Some((moment, _)) => Some(moment),
                None => {
                    bail!("{}: expected a time such as 2027-01-01T00:00:00Z, not `{text}`", at("expires"))
                }
            },
        };
        ensure!(
            !self.local || (self.scopes.is_empty() && expires.is_none()),
            "{}: the user of this machine has no scopes, and a `local` token does not expire",
            at("local")
        );
        Ok(TokenSettings { name, sha256, scopes: self.scopes, expires, local: self.local })
    }
}

impl Issuer {
    fn resolve(self, base: &Path, resource: Option<&Address>) -> anyhow::Result<IssuerSettings> {
        let issuer = address("[[auth.issuers]] `issuer`", &self.issuer)?;
        let at = |key: &str| format!("[[auth.issuers]] `{}`, `{key}`", self.issuer);
        let safe = |key: &str, text: &str| {
            Address::parse_safe(text).map_err(|expected| anyhow::anyhow!("{}: {expected}", at(key)))
        };
        let keys = match (&self.jwks_url, &self.jwks_file) {
            (Some(url), None) => KeySource::Url(safe("jwks-url", url)?),
            (None, Some(file)) => KeySource::File(base.join(file)),
            (None, None) => KeySource::Metadata(safe("issuer", &self.issuer)?),
            (Some(_), Some(_)) => bail!("{}: it is either jwks-url or jwks-file, not both", at("jwks-url")),
        };
        let algorithms = match &self.algorithms {
            None => Algorithm::ALL.to_vec(),
            Some(names) => {
                ensure!(!names.is_empty(), "{}: expected at least one", at("algorithms"));
                names
                    .iter()
                    .map(|name| Algorithm::named(name))
                    .collect::<Option<_>>()
                    .with_context(|| format!("{}: expected some of {}", at("algorithms"), known()))?
            }
        };
        let mut audience = self.audience.clone();
        ensure!(audience.iter().all(|us| !us.is_empty()), "{}: expected a text", at("audience"));
        if audience.is_empty() {
            audience.extend(resource.map(ToString::to_string));
        }
        Ok(IssuerSettings { issuer, audience, keys, algorithms })
    }
}

fn known() -> String {
    Algorithm::ALL.map(Algorithm::name).join(", ")
}

fn address(key: &str, text: &str) -> anyhow::Result<Address> {
    Address::parse(text).map_err(|expected| anyhow::anyhow!("{key}: {expected}"))
}

fn check_scopes(key: &str, scopes: &[String]) -> anyhow::Result<()> {
    match scopes.iter().find(|scope| !is_scope(scope)) {
        None => Ok(()),
        Some(scope) => bail!("{key}: expected scopes without spaces, quotes and backslashes, not `{scope}`"),
    }
}

#[cfg(test)]
mod tests;
