//! The source of an issuer's keys: a file, an address, or an address that the issuer's metadata
//! names.
//!
//! Redirects are not followed: they would let other servers supply keys.

use super::jwks::{BadKeySet, KeySet};
use super::{Address, KeySource};
use bytes::Bytes;
use http::header::ACCEPT;
use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper_rustls::HttpsConnectorBuilder;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::{Connect, HttpConnector};
use hyper_util::rt::TokioExecutor;
use serde::Deserialize;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long a fetch may take. Calls wait for the first fetch of an issuer. A fetch that takes longer counts
/// as failed; then older keys may serve for a while.
const FETCH_TIME: Duration = Duration::from_secs(5);
/// The largest document of an issuer, in bytes. It holds hundreds of keys with their certificates, and issuers
/// publish a few.
const MAX_DOCUMENT_BYTES: usize = 1 << 20;

/// The reason why there are no keys.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoKeys {
    #[error("cannot read the file {}", .0.display())]
    File(PathBuf, #[source] std::io::Error),
    #[error("cannot reach {0}")]
    Unreachable(String, #[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("{0} answered with the status {1}")]
    Status(String, StatusCode),
    #[error("{0} did not answer within {time}s", time = FETCH_TIME.as_secs())]
    TooSlow(String),
    #[error("{0} is larger than {MAX_DOCUMENT_BYTES} bytes")]
    TooLarge(String),
    #[error("{0} is not valid")]
    Keys(String, #[source] BadKeySet),
    #[error("{0} has no key that can check a signature")]
    Empty(String),
    #[error("{0} is not the metadata of this issuer: {1}")]
    Metadata(String, String),
    #[error("this machine has no certificates to trust")]
    Certificates(#[source] std::io::Error),
    #[error("the reader of keys panicked")]
    Ended,
}

/// Fetches the keys.
pub(super) async fn keys(source: &KeySource) -> Result<KeySet, NoKeys> {
    let (name, document) = match source {
        KeySource::File(path) => {
            let (path, shown) = (path.clone(), path.display().to_string());
            let read = tokio::task::spawn_blocking(move || read_file(&path));
            (shown, Bytes::from(read.await.map_err(|_| NoKeys::Ended)??))
        }
        KeySource::Url(address) => (address.to_string(), fetch(address).await?),
        KeySource::Metadata(issuer) => {
            let address = discover(issuer).await?;
            (address.to_string(), fetch(&address).await?)
        }
    };
    let keys = KeySet::read(&document).map_err(|why| NoKeys::Keys(name.clone(), why))?;
    // No issuer revokes all of its keys, so this is a disguised outage.
    if keys.is_empty() { Err(NoKeys::Empty(name)) } else { Ok(keys) }
}

fn read_file(path: &Path) -> Result<Vec<u8>, NoKeys> {
    let failed = |error| NoKeys::File(path.to_path_buf(), error);
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(failed)?;
    file.take(MAX_DOCUMENT_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() > MAX_DOCUMENT_BYTES {
        return Err(NoKeys::TooLarge(path.display().to_string()));
    }
    Ok(bytes)
}

/// The address of the keys, from the metadata of an authorization server or an OpenID provider.
async fn discover(issuer: &Address) -> Result<Address, NoKeys> {
    let places = [issuer.well_known("oauth-authorization-server"), issuer.below("openid-configuration")];
    let mut failed = NoKeys::Ended;
    for place in places {
        match metadata(&place, issuer).await {
            Ok(address) => return Ok(address),
            Err(why) => failed = why,
        }
    }
    Err(failed)
}

#[derive(Deserialize)]
struct ServerMetadata {
    issuer: String,
    jwks_uri: String,
}

async fn metadata(place: &str, issuer: &Address) -> Result<Address, NoKeys> {
    let wrong = |what: String| NoKeys::Metadata(place.to_owned(), what);
    let address = Address::parse_safe(place).map_err(wrong)?;
    let document = fetch(&address).await?;
    let said: ServerMetadata = serde_json::from_slice(&document).map_err(|error| wrong(error.to_string()))?;
    // RFC 8414, section 3.3: otherwise one issuer could impersonate another.
    if said.issuer != issuer.as_str() {
        return Err(wrong("it names another issuer".to_owned()));
    }
    Address::parse_safe(&said.jwks_uri).map_err(wrong)
}

async fn fetch(address: &Address) -> Result<Bytes, NoKeys> {
    let name = address.to_string();
    let fetching = async {
        if !address.is_encrypted() {
            let client = Client::builder(TokioExecutor::new()).build(HttpConnector::new());
            return get(&client, address).await;
        }
        // A new connector for each fetch reads the current certificates.
        let connector = tokio::task::spawn_blocking(encrypted).await.map_err(|_| NoKeys::Ended)??;
        get(&Client::builder(TokioExecutor::new()).build(connector), address).await
    };
    tokio::time::timeout(FETCH_TIME, fetching).await.map_err(|_| NoKeys::TooSlow(name))?
}

fn encrypted() -> Result<hyper_rustls::HttpsConnector<HttpConnector>, NoKeys> {
    let provider = rustls::crypto::ring::default_provider();
    let builder = HttpsConnectorBuilder::new()
        .with_provider_and_native_roots(provider)
        .map_err(NoKeys::Certificates)?;
    Ok(builder.https_only().enable_http1().build())
}

async fn get<C>(client: &Client<C, Empty<Bytes>>, address: &Address) -> Result<Bytes, NoKeys>
where
    C: Connect + Clone + Send + Sync + 'static,
{
    let name = || address.to_string();
    let mut request = Request::new(Empty::new());
    *request.uri_mut() = address.uri().clone();
    request.headers_mut().insert(ACCEPT, http::HeaderValue::from_static("application/json"));
    let answer = client.request(request).await.map_err(|error| NoKeys::Unreachable(name(), error.into()))?;
    if answer.status() != StatusCode::OK {
        return Err(NoKeys::Status(name(), answer.status()));
    }
    match Limited::new(answer.into_body(), MAX_DOCUMENT_BYTES).collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) if error.is::<http_body_util::LengthLimitError>() => Err(NoKeys::TooLarge(name())),
        Err(error) => Err(NoKeys::Unreachable(name(), error)),
    }
}
