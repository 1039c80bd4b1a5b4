//! The listener for the operator: liveness, readiness and metrics. It has its own address, needs no
//! authentication, and changes nothing.
//!
//! The host provides the checks and the metrics through [`Health`].

use super::host_origin::{AllowedNames, named};
use super::operator_listener;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE};
use http::uri::Authority;
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use toolyard_dispatch::{PrincipalUse, RawJson};

/// The most connections at once; further ones wait to be accepted. A few probes and collectors connect, each
/// now and then.
const MAX_CONNECTIONS: usize = 16;
/// How long a connection may last in total. It carries one request, whose answer is ready within the time
/// limit of the store; Prometheus also gives up after ten seconds.
const CONNECTION_TIME: Duration = Duration::from_secs(10);

/// The health of the host.
pub trait Health: Send + Sync + 'static {
    /// The reasons why the host is not ready: the name of each failed check. Ends soon, even if the checked
    /// part does not respond.
    fn unready(&self) -> BoxFuture<'_, Vec<&'static str>>;

    /// The metrics, and their media type. Ends soon, even if the store does not respond.
    fn numbers(&self) -> BoxFuture<'_, (String, &'static str)>;

    /// The principals for which the host holds the most.
    fn principals(&self) -> Vec<PrincipalUse>;
}

/// The operator's settings of this listener.
#[derive(Debug, Clone)]
pub struct AdminSettings {
    /// Whether other machines may reach it, at addresses that the host cannot know in advance.
    pub on_network: bool,
    /// Names that the `Host` header may contain besides those of loopback.
    pub names: Vec<String>,
}

struct Admin {
    health: Arc<dyn Health>,
    settings: AdminSettings,
}

type AdminReply = Response<Full<Bytes>>;

/// Serves `listener` until `stop` is cancelled.
pub async fn serve(
    health: Arc<dyn Health>,
    settings: AdminSettings,
    listener: TcpListener,
    stop: CancellationToken,
) {
    let admin = Arc::new(Admin { health, settings });
    operator_listener::serve(listener, ("admin", MAX_CONNECTIONS), stop, move |stream| {
        let admin = admin.clone();
        async move {
            if tokio::time::timeout(CONNECTION_TIME, connection(stream, admin)).await.is_err() {
                tracing::debug!("a connection of the admin listener took too long");
            }
        }
    })
    .await;
}

async fn connection(stream: TcpStream, admin: Arc<Admin>) {
    let service = service_fn(move |request: Request<Incoming>| {
        let admin = admin.clone();
        async move { Ok::<_, std::convert::Infallible>(admin.answer(&request).await) }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(CONNECTION_TIME)
        .keep_alive(false)
        .max_headers(64)
        .max_buf_size(16 * 1024)
        .serve_connection(TokioIo::new(stream), service)
        .await;
    if let Err(error) = served {
        tracing::debug!(
            error = &error as &dyn std::error::Error,
            "a connection of the admin listener ended early"
        );
    }
}

impl Admin {
    async fn answer(&self, request: &Request<Incoming>) -> AdminReply {
        if !self.knows(request.uri().authority(), request.headers()) {
            return text(StatusCode::FORBIDDEN, "the Host header does not name this server\n");
        }
        let path = request.uri().path();
        if !["/healthz", "/readyz", "/metrics", "/principals"].contains(&path) {
            return text(StatusCode::NOT_FOUND, "there are /healthz, /readyz, /metrics and /principals\n");
        }
        if ![Method::GET, Method::HEAD].contains(request.method()) {
            let mut reply = text(StatusCode::METHOD_NOT_ALLOWED, "GET or HEAD\n");
            reply.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return reply;
        }
        match path {
            "/healthz" => text(StatusCode::OK, "ok\n"),
            "/principals" => {
                reply(StatusCode::OK, RawJson::of(&self.health.principals()).bytes(), "application/json")
            }
            "/readyz" => readiness(&self.health.unready().await),
            _ => {
                let (numbers, kind) = self.health.numbers().await;
                reply(StatusCode::OK, numbers, kind)
            }
        }
    }

    /// A page in a browser can make its own host name resolve to this listener, but not an address. On the
    /// network, any address may belong to this host.
    fn knows(&self, authority: Option<&Authority>, headers: &HeaderMap) -> bool {
        if AllowedNames::default().check(authority, headers).is_ok() {
            return true;
        }
        let Some(named) = named(authority, headers) else { return false };
        let (host, has_user) = (named.host(), named.as_str().contains('@'));
        let is_address = || host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok();
        let is_named = || self.settings.names.iter().any(|name| name.eq_ignore_ascii_case(host));
        !has_user && (is_named() || self.settings.on_network && is_address())
    }
}

fn readiness(unready: &[&str]) -> AdminReply {
    let status = if unready.is_empty() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    reply(status, as_json(unready), "application/json")
}

fn as_json(failed: &[&str]) -> String {
    format!("{{\"ready\":{},\"failed\":{}}}\n", failed.is_empty(), RawJson::of(failed).as_str())
}

fn text(status: StatusCode, text: &'static str) -> AdminReply {
    reply(status, text, "text/plain; charset=utf-8")
}

fn reply(status: StatusCode, body: impl Into<Bytes>, kind: &'static str) -> AdminReply {
    let mut reply = Response::new(Full::new(body.into()));
    *reply.status_mut() = status;
    let headers = reply.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    reply
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fine;

    impl Health for Fine {
        fn unready(&self) -> BoxFuture<'_, Vec<&'static str>> {
            Box::pin(std::future::ready(Vec::new()))
        }

        fn numbers(&self) -> BoxFuture<'_, (String, &'static str)> {
            Box::pin(std::future::ready((String::new(), "text/plain")))
        }

        fn principals(&self) -> Vec<PrincipalUse> {
            Vec::new()
        }
    }

    fn knows(on_network: bool, names: &[&str], host: &str) -> bool {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        let admin = Admin { health: Arc::new(Fine), settings: AdminSettings { on_network, names } };
        let mut headers = HeaderMap::new();
        headers.insert(http::header::HOST, host.parse().expect("a test's header"));
        admin.knows(None, &headers)
    }

    #[test]
    fn only_loopback_and_what_was_named_is_known() {
        for host in ["localhost", "127.0.0.1:7421", "[::1]"] {
            assert!(knows(false, &[], host), "{host}");
        }
        for host in ["10.0.0.7:7421", "[2001:db8::7]:7421"] {
            assert!(knows(true, &[], host) && !knows(false, &[], host), "{host}");
        }
        assert!(knows(true, &["toolyard"], "Toolyard:7421") && knows(false, &["toolyard"], "toolyard"));
        for host in ["e.example", "10.0.0.7.e.example", "10.0.0.7@e.example", "e.example@10.0.0.7", ""] {
            assert!(!knows(true, &["toolyard"], host), "{host}");
        }
    }

    #[test]
    fn what_fails_is_named() {
        assert_eq!(as_json(&[]), "{\"ready\":true,\"failed\":[]}\n");
        assert_eq!(as_json(&["plugins", "store"]), "{\"ready\":false,\"failed\":[\"plugins\",\"store\"]}\n");
        assert_eq!(readiness(&["store"]).status(), StatusCode::SERVICE_UNAVAILABLE);
    }
}
