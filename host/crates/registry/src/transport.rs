//! HTTP requests to hosts that are not trusted: TLS, proxies, redirects, retries, and bounds.

mod answer;
mod connector;
mod redirect;

pub use answer::{Answer, Bound};
pub use redirect::is_same_origin;

use crate::error::Problem;
use crate::limits::{MAX_REDIRECTS, MAX_RETRY_AFTER, RETRY_PAUSE};
use crate::reference::canonical;
use crate::settings::Settings;
use bytes::Bytes;
use connector::Connector;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, USER_AGENT};
use http::{HeaderValue, Method, Request, StatusCode, Uri};
use http_body_util::Full;
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use std::collections::BTreeMap;

type HttpClient = Client<Connector, Full<Bytes>>;

/// The media types of manifests, and of the images that are refused with their kind.
pub const MANIFESTS: &str = "application/vnd.oci.image.manifest.v1+json, \
    application/vnd.oci.image.index.v1+json, \
    application/vnd.docker.distribution.manifest.v2+json, \
    application/vnd.docker.distribution.manifest.list.v2+json";

/// A request.
#[derive(Debug, Clone)]
pub struct Outgoing {
    pub method: Method,
    pub uri: Uri,
    pub accept: &'static str,
    pub content_type: Option<&'static str>,
    pub body: Bytes,
    /// Sent to the origin of `uri` alone.
    pub authorization: Option<HeaderValue>,
}

impl Outgoing {
    pub fn new(method: Method, uri: Uri) -> Self {
        Self { method, uri, accept: "*/*", content_type: None, body: Bytes::new(), authorization: None }
    }

    pub fn get(uri: Uri) -> Self {
        Self::new(Method::GET, uri)
    }

    pub fn accept(mut self, accept: &'static str) -> Self {
        self.accept = accept;
        self
    }

    pub fn body(mut self, content_type: &'static str, body: impl Into<Bytes>) -> Self {
        self.content_type = Some(content_type);
        self.body = body.into();
        self
    }

    fn request(&self) -> Request<Full<Bytes>> {
        let mut request = Request::new(Full::new(self.body.clone()));
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = self.uri.clone();
        let headers = request.headers_mut();
        headers.insert(ACCEPT, HeaderValue::from_static(self.accept));
        headers.insert(USER_AGENT, HeaderValue::from_static(concat!("toolyard/", env!("CARGO_PKG_VERSION"))));
        if let Some(content_type) = self.content_type {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
        }
        if let Some(authorization) = &self.authorization {
            headers.insert(AUTHORIZATION, authorization.clone());
        }
        request
    }
}

/// Connections to registries, and to the hosts that they name.
#[derive(Debug)]
pub struct Transport {
    settings: Settings,
    public: HttpClient,
    /// Of the hosts with their own certificates.
    private: BTreeMap<String, HttpClient>,
}

impl Transport {
    pub fn new(mut settings: Settings) -> Result<Self, Problem> {
        let registries = std::mem::take(&mut settings.registries).into_iter();
        settings.registries = registries.map(|(host, registry)| (canonical(&host), registry)).collect();
        settings.check()?;
        let roots = connector::system_roots();
        let client =
            |connector| Client::builder(TokioExecutor::new()).pool_timer(TokioTimer::new()).build(connector);
        let mut private = BTreeMap::new();
        for (host, registry) in &settings.registries {
            if let Some(ca) = &registry.ca {
                let mut roots = roots.clone();
                connector::add_certificates(&mut roots, ca)?;
                private.insert(host.clone(), client(Connector::new(roots, &settings)?));
            }
        }
        let public = client(Connector::new(roots, &settings)?);
        Ok(Self { settings, public, private })
    }

    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Sends a request, follows the redirects of a GET, and retries once if a server is overloaded.
    pub async fn send(&self, mut outgoing: Outgoing) -> Result<Answer, Problem> {
        let follows = outgoing.method == Method::GET;
        for _ in 0..=MAX_REDIRECTS {
            let answer = self.send_to_host(&outgoing).await?;
            let location = answer.redirect_location();
            let (true, Some(location)) = (follows, location) else { return Ok(answer) };
            let target = redirect::follow(&outgoing.uri, location, &self.settings)?;
            if !is_same_origin(&outgoing.uri, &target) {
                outgoing.authorization = None;
            }
            outgoing.uri = target;
        }
        let (host, target) = (host_of(&outgoing.uri), outgoing.uri.to_string());
        Err(redirect::refused_redirect(&host, &target, "these are too many redirects"))
    }

    async fn send_to_host(&self, outgoing: &Outgoing) -> Result<Answer, Problem> {
        let answer = self.send_once(outgoing).await?;
        let status = answer.status();
        let is_passing = status == StatusCode::TOO_MANY_REQUESTS
            || (status.is_server_error() && status != StatusCode::NOT_IMPLEMENTED);
        if !is_passing {
            return Ok(answer);
        }
        let pause = answer.retry_after().unwrap_or(RETRY_PAUSE);
        if pause > MAX_RETRY_AFTER {
            return Ok(answer);
        }
        drop(answer);
        tokio::time::sleep(pause).await;
        self.send_once(outgoing).await
    }

    async fn send_once(&self, outgoing: &Outgoing) -> Result<Answer, Problem> {
        let host = host_of(&outgoing.uri);
        let client = self.private.get(&host).unwrap_or(&self.public);
        let Settings { connect_timeout, read_timeout, .. } = self.settings;
        let request = client.request(outgoing.request());
        match tokio::time::timeout(connect_timeout + read_timeout, request).await {
            Ok(Ok(response)) => Ok(Answer::new(response, outgoing.uri.clone(), host, read_timeout)),
            Ok(Err(error)) => Err(Problem::Other(format!(
                "cannot reach {host}: {}; check the address, the proxy variables and `registries.\"{host}\"`",
                causes(&error)
            ))),
            Err(_) => Err(Problem::slow(&host, format!("no answer within {read_timeout:?}"))),
        }
    }
}

/// The host and the port of an address, as settings name them.
pub fn host_of(uri: &Uri) -> String {
    uri.authority().map(|authority| canonical(authority.as_str())).unwrap_or_default()
}

/// An error and its causes in one line, without the outermost, which says only that a request failed.
fn causes(error: &(dyn std::error::Error + 'static)) -> String {
    let mut texts = Vec::new();
    let mut cause = error.source();
    while let Some(error) = cause {
        texts.push(error.to_string());
        cause = error.source();
    }
    // An error often repeats the text of its cause.
    texts.dedup();
    if texts.is_empty() { error.to_string() } else { texts.join(": ") }
}
