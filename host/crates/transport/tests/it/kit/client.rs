//! A client over HTTP that sees statuses, headers and single events, and can hang up.

use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use toolyard_protocol::stateless::VERSION;
use toolyard_transport::{Server, http as transport};

/// A server on its own port.
pub struct Served {
    pub address: SocketAddr,
    stop: CancellationToken,
    serving: JoinHandle<()>,
}

/// Serves this server.
pub async fn serve(server: Arc<Server>) -> Served {
    Served::draining(server, std::future::ready(())).await
}

/// An answer, and the connection that it arrives on, which closes when this is dropped.
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    body: Incoming,
    rest: String,
    _connection: AbortOnDropHandle<hyper::Result<()>>,
}

impl Served {
    /// Serves this server; after the stop, calls may continue until `drained` ends.
    pub async fn draining(server: Arc<Server>, drained: impl Future<Output = ()> + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("bound");
        let stop = CancellationToken::new();
        let serving = transport::serve(server, transport::Listener::Tcp(listener), stop.clone(), drained);
        Self { address, stop, serving: tokio::spawn(serving) }
    }

    /// Posts this text with these headers in addition to those of every POST.
    pub async fn post_text(&self, headers: &[(&str, &str)], text: &str) -> Answer {
        let stream = TcpStream::connect(self.address).await.expect("the server listens");
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.expect("a connection");
        let open = AbortOnDropHandle::new(tokio::spawn(connection));
        let request = Request::post("/mcp")
            .header("host", self.address.to_string())
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream");
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        let request = request.body(Full::new(Bytes::from(text.to_owned()))).expect("valid");
        let (head, body) = sender.send_request(request).await.expect("an answer").into_parts();
        Answer { status: head.status, headers: head.headers, body, rest: String::new(), _connection: open }
    }

    /// Posts a request with the headers that repeat it.
    pub async fn post(&self, request: &Value) -> Answer {
        self.post_with(&[], request).await
    }

    /// Posts a request as the bearer of this token.
    pub async fn post_as(&self, token: &str, request: &Value) -> Answer {
        self.post_with(&[("authorization", &format!("Bearer {token}"))], request).await
    }

    async fn post_with(&self, more: &[(&str, &str)], request: &Value) -> Answer {
        let params = &request["params"];
        let name = ["name", "uri", "taskId"].iter().find_map(|member| params[member].as_str());
        let method = request["method"].as_str().expect("a method");
        let mut headers = vec![("mcp-protocol-version", VERSION), ("mcp-method", method)];
        headers.extend(name.map(|name| ("mcp-name", name)));
        headers.extend(more);
        self.post_text(&headers, &request.to_string()).await
    }

    /// Stops the server, and waits until it has stopped.
    pub async fn stopped(self) {
        self.stop.cancel();
        self.serving.await.expect("the server ends well");
    }

    /// Tells the server to stop.
    pub fn stop(&self) {
        self.stop.cancel();
    }
}

impl Answer {
    /// The whole body, as text.
    pub async fn text(self) -> String {
        let body = self.body.collect().await.expect("a whole body").to_bytes();
        String::from_utf8(body.to_vec()).expect("UTF-8")
    }

    /// The body, which is one JSON object.
    pub async fn json(self) -> Value {
        let text = self.text().await;
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    /// The text of the next event; `None` at the end of the stream.
    pub async fn event(&mut self) -> Option<String> {
        loop {
            if let Some((event, rest)) = self.rest.split_once("\n\n") {
                let event = event.to_owned();
                self.rest = rest.to_owned();
                return Some(event);
            }
            let frame = self.body.frame().await?.expect("a whole frame");
            if let Ok(data) = frame.into_data() {
                self.rest.push_str(std::str::from_utf8(&data).expect("UTF-8"));
            }
        }
    }

    /// The message of the next event.
    pub async fn message(&mut self) -> Option<Value> {
        let event = self.event().await?;
        let data = event.strip_prefix("data: ").unwrap_or_else(|| panic!("more than data: {event}"));
        Some(serde_json::from_str(data).expect("JSON"))
    }
}
