//! Credentials of docker and podman: their configuration files and credential helpers.

mod config;
mod credential_helper;

use crate::error::Problem;
use config::DockerConfig;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;
use zeroize::Zeroizing;

/// How long a credential helper may take. It may ask the person for the password of a keychain.
const HELPER_TIMEOUT: Duration = Duration::from_secs(10);

/// A credential for one registry.
#[derive(Clone, PartialEq, Eq)]
pub enum Credential {
    /// A name and a password, or a personal access token.
    Password {
        /// The name.
        user: String,
        /// The password.
        password: Zeroizing<String>,
    },
    /// A refresh token, which the token server exchanges for a token.
    IdentityToken(Zeroizing<String>),
    /// A token that the registry takes as it is.
    AccessToken(Zeroizing<String>),
}

impl Credential {
    /// A name and a password.
    #[must_use]
    pub fn password(user: &str, password: &str) -> Self {
        Self::Password { user: user.to_owned(), password: Zeroizing::new(password.to_owned()) }
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Password { user, .. } => write!(f, "Password({user:?})"),
            Self::IdentityToken(_) => f.write_str("IdentityToken"),
            Self::AccessToken(_) => f.write_str("AccessToken"),
        }
    }
}

/// The credentials of this machine.
#[derive(Debug, Clone)]
pub struct Store {
    places: Vec<PathBuf>,
    helper_timeout: Duration,
}

impl Store {
    /// The files of docker (`$DOCKER_CONFIG/config.json`, else `~/.docker/config.json`) and of podman
    /// (`$XDG_RUNTIME_DIR/containers/auth.json`).
    #[must_use]
    pub fn from_environment() -> Self {
        let folder = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let docker = folder("DOCKER_CONFIG")
            .or_else(|| std::env::home_dir().map(|home| home.join(".docker")))
            .map(|folder| folder.join("config.json"));
        let podman = folder("XDG_RUNTIME_DIR").map(|folder| folder.join("containers/auth.json"));
        Self::new(docker.into_iter().chain(podman).collect())
    }

    /// The credentials in these files.
    #[must_use]
    pub fn new(places: Vec<PathBuf>) -> Self {
        Self { places, helper_timeout: HELPER_TIMEOUT }
    }

    /// The files, in the order in which they are searched.
    #[must_use]
    pub fn places(&self) -> Vec<PathBuf> {
        self.places.clone()
    }

    /// The credential for this registry.
    pub(crate) async fn look_up(&self, host: &str) -> Result<Option<Credential>, Problem> {
        for place in &self.places {
            let Some(config) = DockerConfig::read(place).await? else { continue };
            if let Some(program) = config.helper(host)
                && let Some(found) =
                    credential_helper::get(&program, &config.key(host), self.helper_timeout).await?
            {
                return Ok(Some(found));
            }
            let inline = config.inline(host).map_err(|why| Problem::file(place, why))?;
            if inline.is_some() {
                return Ok(inline);
            }
        }
        Ok(None)
    }
}

/// Reads everything that a docker configuration can make this module read.
pub(crate) fn examine(bytes: &[u8], host: &str) -> Option<Credential> {
    let config = DockerConfig::parse(bytes).ok()?;
    let _ = std::hint::black_box(config.helper(host));
    config.inline(host).ok()?
}
