//! The configuration file of docker, which podman writes too.

use super::Credential;
use crate::error::Problem;
use crate::limits::MAX_DOCKER_CONFIG;
use crate::reference::canonical;
use base64::Engine as _;
use base64::alphabet::STANDARD as ALPHABET;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde_json::{Map, Value};
use std::io::Read as _;
use std::path::Path;
use zeroize::Zeroizing;

/// Docker Hub has another name in configuration files.
const DOCKER_HUB: &str = "https://index.docker.io/v1/";

/// People also write these values by hand, without padding.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &ALPHABET,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// The whole file.
#[derive(Debug, Default)]
pub struct DockerConfig(Map<String, Value>);

impl DockerConfig {
    /// Reads a file; `None` if there is none.
    pub async fn read(path: &Path) -> Result<Option<Self>, Problem> {
        let owned = path.to_path_buf();
        let reading = tokio::task::spawn_blocking(move || {
            let mut bytes = Zeroizing::new(Vec::new());
            let file = std::fs::File::open(owned)?;
            file.take(MAX_DOCKER_CONFIG + 1).read_to_end(&mut bytes)?;
            Ok::<_, std::io::Error>(bytes)
        });
        let bytes = match reading.await {
            Ok(Ok(bytes)) => bytes,
            Ok(Err(error)) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Ok(Err(error)) => return Err(Problem::file(path, error)),
            Err(error) => return Err(Problem::file(path, error)),
        };
        if bytes.len() as u64 > MAX_DOCKER_CONFIG {
            return Err(Problem::file(path, format!("it is larger than {MAX_DOCKER_CONFIG} bytes")));
        }
        Self::parse(&bytes).map(Some).map_err(|why| Problem::file(path, why))
    }

    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        if bytes.trim_ascii().is_empty() {
            return Ok(Self::default());
        }
        // The error has a line and a column, and no part of the file.
        let config = serde_json::from_slice(bytes);
        config.map(Self).map_err(|error| format!("this is not a docker configuration: {error}"))
    }

    /// The program of the credential helper for this registry.
    pub fn helper(&self, host: &str) -> Option<String> {
        let helpers = self.0.get("credHelpers").and_then(Value::as_object);
        let own = helpers.and_then(|helpers| entry(helpers, host)).and_then(|(_, name)| name.as_str());
        let name = own.or_else(|| self.0.get("credsStore")?.as_str()).filter(|name| !name.is_empty())?;
        Some(format!("docker-credential-{name}"))
    }

    /// The name under which this file and its helpers know the registry.
    pub fn key(&self, host: &str) -> String {
        let tables = ["auths", "credHelpers"].into_iter().filter_map(|table| self.0.get(table)?.as_object());
        let known = tables.filter_map(|table| entry(table, host)).next();
        known.map_or_else(|| new_key(host).to_owned(), |(key, _)| key.clone())
    }

    /// The credential that the file itself holds. An empty entry says that a helper has it.
    pub fn inline(&self, host: &str) -> Result<Option<Credential>, String> {
        let auths = self.0.get("auths").and_then(Value::as_object);
        let Some((key, auth)) = auths.and_then(|auths| entry(auths, host)) else { return Ok(None) };
        let text = |name: &str| auth.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
        if let Some(token) = text("identitytoken") {
            return Ok(Some(Credential::IdentityToken(Zeroizing::new(token.to_owned()))));
        }
        if let Some(token) = text("registrytoken") {
            return Ok(Some(Credential::AccessToken(Zeroizing::new(token.to_owned()))));
        }
        let Some(encoded) = text("auth") else {
            let pair = text("username").zip(text("password"));
            return Ok(pair.map(|(user, password)| Credential::password(user, password)));
        };
        let wrong = || format!("`auths.\"{key}\".auth` is not a name and a password in base64");
        let decoded = Zeroizing::new(LENIENT.decode(encoded.trim()).map_err(|_| wrong())?);
        let pair = std::str::from_utf8(&decoded).ok().and_then(|pair| pair.split_once(':'));
        let (user, password) = pair.ok_or_else(wrong)?;
        // docker pads passwords with zero bytes.
        Ok(Some(Credential::password(user, password.trim_end_matches('\0'))))
    }
}

/// The entry of a table for this registry. docker writes hosts, addresses with `/v1/`, and both.
fn entry<'a>(table: &'a Map<String, Value>, host: &str) -> Option<(&'a String, &'a Value)> {
    table.get_key_value(host).or_else(|| table.iter().find(|(key, _)| is_about(key, host)))
}

fn is_about(key: &str, host: &str) -> bool {
    let address = key.strip_prefix("https://").or_else(|| key.strip_prefix("http://"));
    let name = match address {
        Some(address) => address.split('/').next().unwrap_or_default(),
        // podman's entries for a part of a registry have a path without a scheme.
        None => key.strip_suffix("/v1/").or_else(|| key.strip_suffix("/v2/")).unwrap_or(key),
    };
    canonical(name) == canonical(host) || (new_key(host) == DOCKER_HUB && name == "index.docker.io")
}

fn new_key(host: &str) -> &str {
    if matches!(host, "docker.io" | "index.docker.io" | "registry-1.docker.io") { DOCKER_HUB } else { host }
}

#[cfg(test)]
mod tests;
