//! Connections: direct or through a proxy, with TLS, within the timeout.

use crate::error::Problem;
use crate::limits::MAX_CERTIFICATES;
use crate::reference::is_loopback;
use crate::settings::{Proxies, Settings};
use http::Uri;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder, MaybeHttpsStream};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::rt::TokioIo;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use std::io::Read as _;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::net::TcpStream;
use tower_service::Service;

type BoxError = Box<dyn std::error::Error + Send + Sync>;
type Connecting<T> = Pin<Box<dyn Future<Output = Result<T, BoxError>> + Send>>;

/// The certificates of the system. Without any, connections with TLS fail and say so.
pub fn system_roots() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    roots
}

/// Adds the certificates of a PEM file.
pub fn add_certificates(roots: &mut RootCertStore, path: &Path) -> Result<(), Problem> {
    let mut pem = Vec::new();
    let file = std::fs::File::open(path).map_err(|error| Problem::file(path, error))?;
    file.take(MAX_CERTIFICATES + 1).read_to_end(&mut pem).map_err(|error| Problem::file(path, error))?;
    if pem.len() as u64 > MAX_CERTIFICATES {
        return Err(Problem::file(path, format!("it is larger than {MAX_CERTIFICATES} bytes")));
    }
    let mut added = 0;
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        let certificate = certificate.map_err(|error| Problem::file(path, error))?;
        roots.add(certificate).map_err(|error| Problem::file(path, error))?;
        added += 1;
    }
    if added == 0 { Err(Problem::file(path, "it has no certificate in PEM")) } else { Ok(()) }
}

/// Makes connections.
#[derive(Debug, Clone)]
pub struct Connector {
    tls: HttpsConnector<Route>,
    timeout: Duration,
}

impl Connector {
    pub fn new(roots: RootCertStore, settings: &Settings) -> Result<Self, Problem> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| Problem::Other(format!("cannot prepare TLS: {error}")))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let mut direct = HttpConnector::new();
        direct.enforce_http(false);
        direct.set_nodelay(true);
        let route = Route { direct, proxies: settings.proxies.clone() };
        let builder = HttpsConnectorBuilder::new().with_tls_config(config).https_or_http();
        Ok(Self { tls: builder.enable_http1().wrap_connector(route), timeout: settings.connect_timeout })
    }
}

impl Service<Uri> for Connector {
    type Response = MaybeHttpsStream<TokioIo<TcpStream>>;
    type Error = BoxError;
    type Future = Connecting<Self::Response>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.tls.poll_ready(context)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let (connecting, timeout) = (self.tls.call(uri), self.timeout);
        Box::pin(async move {
            let connected = tokio::time::timeout(timeout, connecting).await;
            connected.unwrap_or_else(|_| Err(format!("no connection within {timeout:?}").into()))
        })
    }
}

/// The TCP connection, direct or through a proxy.
#[derive(Debug, Clone)]
struct Route {
    direct: HttpConnector,
    proxies: Proxies,
}

impl Service<Uri> for Route {
    type Response = TokioIo<TcpStream>;
    type Error = BoxError;
    type Future = Connecting<Self::Response>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.direct.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let is_here = uri.authority().is_some_and(|authority| is_loopback(authority.as_str()));
        let proxy = self.proxies.matcher().intercept(&uri).filter(|_| !is_here);
        let Some(proxy) = proxy else {
            let connecting = self.direct.call(uri);
            return Box::pin(async move { connecting.await.map_err(Into::into) });
        };
        if proxy.uri().scheme_str() != Some("http") {
            let text = "the proxy variables name a proxy that is not http://, which cannot be used";
            return Box::pin(async move { Err(text.into()) });
        }
        let mut tunnel = Tunnel::new(proxy.uri().clone(), self.direct.clone());
        if let Some(credential) = proxy.basic_auth() {
            tunnel = tunnel.with_auth(credential.clone());
        }
        let connecting = tunnel.call(with_port(&uri).unwrap_or(uri));
        Box::pin(
            async move { connecting.await.map_err(|error| format!("through the proxy: {error}").into()) },
        )
    }
}

/// An `http` address with its port, which a tunnel needs: without one it goes to 443.
fn with_port(uri: &Uri) -> Option<Uri> {
    let is_bare = uri.scheme_str() == Some("http") && uri.port().is_none();
    let host = uri.host().filter(|_| is_bare)?;
    Uri::builder().scheme("http").authority(format!("{host}:80")).path_and_query("/").build().ok()
}
