//! A proxy before a registry: faults, and bearer tokens as large registries have them.

use super::{Fault, Faults, MANIFEST, PASSWORD, USER, put};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures_util::StreamExt as _;
use http::header::{AUTHORIZATION, HOST};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full, StreamBody, combinators::BoxBody};
use hyper::body::{Frame, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::json;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::net::TcpListener;

type Body = BoxBody<Bytes, std::io::Error>;

/// One request.
#[derive(Debug, Clone)]
pub struct Seen {
    pub method: Method,
    /// The path with its query.
    pub path: String,
    pub authorization: Option<String>,
    pub body: Bytes,
}

#[derive(Debug, Default)]
struct State {
    upstream: String,
    host: String,
    faults: Faults,
    seen: Mutex<Vec<Seen>>,
    /// The scopes of the tokens that are given, if the registry wants tokens.
    tokens: Option<Mutex<BTreeMap<String, String>>>,
    /// The realm that the registry names, if it is not the proxy's own.
    realm: Option<String>,
}

/// A running proxy. It ends with the runtime of its test.
#[derive(Debug, Clone)]
pub struct Proxy {
    pub host: String,
    state: Arc<State>,
}

impl Proxy {
    /// A proxy before a registry, or before nothing.
    pub async fn before(upstream: &str) -> Self {
        Self::start(State { upstream: upstream.to_owned(), ..State::default() }).await
    }

    /// A proxy that wants tokens of its own token server, which knows the one user.
    pub async fn with_tokens(upstream: &str) -> Self {
        let tokens = Some(Mutex::default());
        Self::start(State { upstream: upstream.to_owned(), tokens, ..State::default() }).await
    }

    /// A proxy that wants tokens and names another token server.
    pub async fn with_realm(upstream: &str, realm: &str) -> Self {
        let (tokens, realm) = (Some(Mutex::default()), Some(realm.to_owned()));
        Self::start(State { upstream: upstream.to_owned(), tokens, realm, ..State::default() }).await
    }

    async fn start(mut state: State) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let host = listener.local_addr().expect("an address").to_string();
        state.host.clone_from(&host);
        let state = Arc::new(state);
        let serving = Arc::clone(&state);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let state = Arc::clone(&serving);
                tokio::spawn(async move {
                    let service = service_fn(move |request| {
                        let state = Arc::clone(&state);
                        async move { Ok::<_, Infallible>(state.answer(request).await) }
                    });
                    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        Self { host, state }
    }

    pub fn faults(&self) -> &Faults {
        &self.state.faults
    }

    /// The requests so far.
    pub fn seen(&self) -> Vec<Seen> {
        self.state.seen.lock().expect("no panic").clone()
    }

    /// The requests so far, each as its method and path.
    pub fn lines(&self) -> Vec<String> {
        self.seen().iter().map(|seen| format!("{} {}", seen.method, seen.path)).collect()
    }
}

impl State {
    async fn answer(&self, request: Request<Incoming>) -> Response<Body> {
        let (parts, body) = request.into_parts();
        let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
        let path = parts.uri.path_and_query().map(ToString::to_string).unwrap_or_default();
        let authorization = parts.headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        let authorization = authorization.map(str::to_owned);
        let seen = Seen { method: parts.method.clone(), path, authorization, body };
        self.seen.lock().expect("no panic").push(seen.clone());
        if let Some(fault) = self.faults.take(&parts.method, parts.uri.path()) {
            return self.fault(fault, &seen, parts).await;
        }
        if let Some(answer) = self.token_answer(&seen) {
            return answer;
        }
        self.forward(&seen, &parts).await
    }

    async fn fault(&self, fault: Fault, seen: &Seen, parts: http::request::Parts) -> Response<Body> {
        match fault {
            Fault::Answer(status, headers, body) => {
                let mut answer = Response::builder().status(status);
                for (name, value) in headers {
                    answer = answer.header(name, value);
                }
                answer.body(full(body)).expect("an answer")
            }
            Fault::Header(name, value) => {
                let mut answer = self.forward(seen, &parts).await;
                answer.headers_mut().insert(name, value.parse().expect("a header"));
                answer
            }
            Fault::Truncate => {
                let (parts, body) = self.forward(seen, &parts).await.into_parts();
                let whole = body.collect().await.expect("a body").to_bytes();
                let half = whole.slice(..whole.len() / 2);
                let frames = [(0, Ok(Frame::data(half))), (100, Err(std::io::Error::other("cut off")))];
                // The server drops what it has not sent when the error comes.
                let frames = futures_util::stream::iter(frames).then(async |(pause, frame)| {
                    tokio::time::sleep(Duration::from_millis(pause)).await;
                    frame
                });
                Response::from_parts(parts, BoxBody::new(StreamBody::new(Box::pin(frames))))
            }
            Fault::Endless => {
                let frames = std::iter::repeat_with(|| Ok(Frame::data(Bytes::from_static(&[b' '; 4096]))));
                Response::new(BoxBody::new(StreamBody::new(futures_util::stream::iter(frames))))
            }
            Fault::Stall => {
                let first = futures_util::stream::iter([Ok(Frame::data(Bytes::from_static(b"{")))]);
                Response::new(BoxBody::new(StreamBody::new(first.chain(futures_util::stream::pending()))))
            }
            Fault::Retag(path, manifest) => {
                put(&self.upstream, &path, MANIFEST, manifest).await;
                self.forward(seen, &parts).await
            }
        }
    }

    /// The answer of the token server, or of a registry that wants a token.
    fn token_answer(&self, seen: &Seen) -> Option<Response<Body>> {
        let tokens = self.tokens.as_ref()?;
        if let Some(query) = seen.path.strip_prefix("/token") {
            let scope = form(query.trim_start_matches('?').as_bytes(), "scope");
            let basic = basic();
            let refreshes = form(&seen.body, "refresh_token").is_some_and(|token| token == "refresh");
            if !refreshes && seen.authorization.as_deref() != Some(basic.as_str()) {
                return Some(status(StatusCode::FORBIDDEN));
            }
            let scope = scope.or_else(|| form(&seen.body, "scope")).unwrap_or_default();
            let token = format!("token{}", tokens.lock().expect("no panic").len());
            tokens.lock().expect("no panic").insert(token.clone(), scope);
            return Some(Response::new(full(json!({ "token": token }).to_string())));
        }
        let token = seen.authorization.as_deref().and_then(|text| text.strip_prefix("Bearer "));
        let scope = token.and_then(|token| tokens.lock().expect("no panic").get(token).cloned());
        if scope.is_some() {
            return None;
        }
        let realm = self.realm.clone().unwrap_or_else(|| format!("http://{}/token", self.host));
        let challenge = format!(r#"Bearer realm="{realm}",service="test",scope="repository:x:pull""#);
        let mut answer = status(StatusCode::UNAUTHORIZED);
        answer.headers_mut().insert("www-authenticate", challenge.parse().expect("a header"));
        Some(answer)
    }

    async fn forward(&self, seen: &Seen, parts: &http::request::Parts) -> Response<Body> {
        let mut request = Request::new(Full::from(seen.body.clone()));
        *request.method_mut() = parts.method.clone();
        *request.uri_mut() = format!("http://{}{}", self.upstream, seen.path).parse().expect("an address");
        *request.headers_mut() = parts.headers.clone();
        request.headers_mut().remove(HOST);
        if self.tokens.is_some() {
            request.headers_mut().remove(AUTHORIZATION);
        }
        match http_client().request(request).await {
            Ok(answer) => answer.map(|body| body.map_err(std::io::Error::other).boxed()),
            Err(_) => status(StatusCode::BAD_GATEWAY),
        }
    }
}

/// The password of the one user.
pub fn basic() -> String {
    format!("Basic {}", STANDARD.encode(format!("{USER}:{PASSWORD}")))
}

pub fn http_client() -> Client<HttpConnector, Full<Bytes>> {
    Client::builder(TokioExecutor::new()).build_http()
}

fn full(body: impl Into<Bytes>) -> Body {
    Full::new(body.into()).map_err(|never| match never {}).boxed()
}

fn status(status: StatusCode) -> Response<Body> {
    let mut answer = Response::new(full(""));
    *answer.status_mut() = status;
    answer
}

fn form(text: &[u8], name: &str) -> Option<String> {
    form_urlencoded::parse(text).find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
}
