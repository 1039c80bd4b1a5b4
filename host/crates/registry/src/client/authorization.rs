//! Logins: passwords for the registry itself, and tokens of the server that the registry names.

use super::Client;
use crate::challenge::{self, Challenge};
use crate::credentials::Credential;
use crate::error::Problem;
use crate::limits::MAX_TOKEN_ANSWER;
use crate::reference::is_loopback;
use crate::transport::{Answer, Bound, Outgoing, host_of};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderValue, Method, StatusCode, Uri};
use parking_lot::Mutex;
use serde::Deserialize;
use std::collections::BTreeMap;
use zeroize::Zeroizing;

/// The host of Docker Hub's API.
const DOCKER_HUB: &str = "registry-1.docker.io";

/// The authorizations that registries have accepted, by registry and scope.
#[derive(Debug, Default)]
pub struct Tokens(Mutex<BTreeMap<(String, String), HeaderValue>>);

impl Tokens {
    pub fn get(&self, host: &str, scope: &str) -> Option<HeaderValue> {
        let tokens = self.0.lock();
        tokens.get(&(host.to_owned(), scope.to_owned())).cloned()
    }

    pub fn set(&self, host: &str, scope: &str, authorization: HeaderValue) {
        let mut tokens = self.0.lock();
        tokens.insert((host.to_owned(), scope.to_owned()), authorization);
    }
}

#[derive(Deserialize)]
struct TokenAnswer {
    token: Option<String>,
    access_token: Option<String>,
}

impl Client {
    /// The address of a registry's API.
    pub(super) fn api(&self, host: &str) -> Result<Uri, Problem> {
        let scheme = self.transport.settings().scheme(host);
        let host = if matches!(host, "docker.io" | "index.docker.io") { DOCKER_HUB } else { host };
        let text = format!("{scheme}://{host}/v2/");
        text.parse().map_err(|error| Problem::malformed("the address", error))
    }

    /// The authorization that a registry wants by its answer 401.
    pub(super) async fn authorize(
        &self,
        host: &str,
        api: &Uri,
        scope: &str,
        answer: &Answer,
        credential: Option<&Credential>,
    ) -> Result<HeaderValue, Problem> {
        if let Some(Credential::AccessToken(token)) = credential {
            return secret_header(format!("Bearer {}", token.as_str()));
        }
        let challenges: Vec<_> = answer.challenges().flat_map(challenge::parse).collect();
        for challenge in &challenges {
            if let Challenge::Bearer { realm, service } = challenge {
                let realm = checked_realm(host, api, realm)?;
                return self.token(host, &realm, service.as_deref(), scope, credential).await;
            }
        }
        match credential {
            Some(Credential::Password { user, password }) if challenges.contains(&Challenge::Basic) => {
                basic(user, password)
            }
            _ => Err(self.refused(host, credential)),
        }
    }

    /// The error for a credential that is missing or wrong.
    pub(super) fn refused(&self, host: &str, credential: Option<&Credential>) -> Problem {
        let places = self.transport.settings().credentials.places();
        let places: Vec<_> = places.iter().map(|place| place.display().to_string()).collect();
        let looked = match places.is_empty() {
            true => "no credential file is known".to_owned(),
            false => format!("looked in {}", places.join(" and ")),
        };
        Problem::Login(match credential {
            Some(_) => format!(
                "the registry refuses the stored credential for {host} ({looked}); oras login {host} replaces it"
            ),
            None => format!(
                "the registry wants a login ({looked}); docker, podman and oras log in: oras login {host}"
            ),
        })
    }

    /// A token for this scope.
    async fn token(
        &self,
        host: &str,
        realm: &Uri,
        service: Option<&str>,
        scope: &str,
        credential: Option<&Credential>,
    ) -> Result<HeaderValue, Problem> {
        let mut form = form_urlencoded::Serializer::new(String::new());
        if let Some(service) = service {
            form.append_pair("service", service);
        }
        if !scope.is_empty() {
            form.append_pair("scope", scope);
        }
        let request = match credential {
            Some(Credential::IdentityToken(token)) => {
                form.append_pair("grant_type", "refresh_token").append_pair("client_id", "toolyard");
                let form = form.append_pair("refresh_token", token).finish();
                let request = Outgoing::new(Method::POST, realm.clone());
                request.body("application/x-www-form-urlencoded", form)
            }
            Some(Credential::Password { user, password }) => {
                let query = form.append_pair("account", user).finish();
                let mut request = Outgoing::get(with_query(realm, &query)?);
                request.authorization = Some(basic(user, password)?);
                request
            }
            _ => Outgoing::get(with_query(realm, &form.finish())?),
        };
        let answer = self.transport.send(request.accept("application/json")).await?;
        if matches!(answer.status(), StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
            return Err(self.refused(host, credential));
        }
        let answer = answer.expect("token", &[StatusCode::OK]).await?;
        let body = answer.read(Bound::new("the token server's answer", MAX_TOKEN_ANSWER)).await?;
        let malformed = |why: String| Problem::malformed("the token server's answer", why);
        let answer: TokenAnswer =
            serde_json::from_slice(&body).map_err(|error| malformed(error.to_string()))?;
        let token = answer.token.or(answer.access_token).filter(|token| !token.is_empty());
        secret_header(format!("Bearer {}", token.ok_or_else(|| malformed("it has no token".to_owned()))?))
    }
}

/// The address of the token server, if a credential may go there: the connection to it is encrypted or stays
/// on this machine, and so does the connection over which the registry named it.
fn checked_realm(host: &str, api: &Uri, realm: &str) -> Result<Uri, Problem> {
    let insecure = |why| Problem::Other(format!("{host} wants a credential by an insecure way: {why}"));
    let realm: Uri = realm.parse().map_err(|_| insecure("its token server has no valid address"))?;
    let (own, other) = (host_of(api), host_of(&realm));
    if other.is_empty() || other.contains('@') {
        return Err(insecure("its token server has no valid address"));
    }
    let named_safely = api.scheme_str() == Some("https") || is_loopback(&own);
    match realm.scheme_str() {
        _ if is_loopback(&other) && !is_loopback(&own) => {
            Err(insecure("its token server is said to be this machine"))
        }
        Some("https") if named_safely || own == other => Ok(realm),
        Some("https") => Err(insecure("without TLS, anyone on the way could name another token server")),
        Some("http") if is_loopback(&other) => Ok(realm),
        Some("http") if own == other && api.scheme_str() == Some("http") => Ok(realm),
        _ => Err(insecure("the connection to its token server is not encrypted")),
    }
}

fn with_query(realm: &Uri, query: &str) -> Result<Uri, Problem> {
    let text = realm.to_string();
    let separator = if realm.query().is_some() { '&' } else { '?' };
    let text = if query.is_empty() { text } else { format!("{text}{separator}{query}") };
    text.parse().map_err(|error| Problem::malformed("the address of the token server", error))
}

fn basic(user: &str, password: &str) -> Result<HeaderValue, Problem> {
    let pair = Zeroizing::new(format!("{user}:{password}"));
    secret_header(format!("Basic {}", STANDARD.encode(pair.as_bytes())))
}

/// A header that no log shows.
fn secret_header(text: String) -> Result<HeaderValue, Problem> {
    let text = Zeroizing::new(text);
    let header = HeaderValue::from_str(&text);
    let mut header = header.map_err(|_| Problem::malformed("the token", "it has characters of no header"))?;
    header.set_sensitive(true);
    Ok(header)
}

#[cfg(test)]
mod tests;
