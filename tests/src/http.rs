//! A plain HTTP client: one connection, exact bytes.

use crate::tap::{Exchange, kit_exchange};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::{HeaderMap, Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;

/// A connection.
pub struct Connection {
    sender: SendRequest<Full<Bytes>>,
    /// Whether the messages are MCP and are checked against its schema.
    is_mcp: bool,
}

/// An HTTP response.
pub struct Answer {
    /// Its status.
    pub status: StatusCode,
    /// Its headers.
    pub headers: HeaderMap,
    body: hyper::body::Incoming,
    exchange: Option<Exchange>,
}

/// An event of a stream.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Event {
    /// Its id.
    pub id: Option<String>,
    /// Its data.
    pub data: String,
    /// The retry delay, in milliseconds.
    pub retry: Option<u64>,
}

/// The events of an answer, one by one.
pub struct Events {
    body: hyper::body::Incoming,
    buffer: Vec<u8>,
    exchange: Option<Exchange>,
}

impl Connection {
    /// Connects to a port of this machine.
    ///
    /// # Panics
    /// If no process listens.
    pub async fn open(port: u16) -> Self {
        Self::try_open(port).await.expect("the host listens")
    }

    /// Connects to a port of this machine; `None` if no process listens.
    pub async fn try_open(port: u16) -> Option<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port)).await.ok()?;
        stream.set_nodelay(true).ok()?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.ok()?;
        tokio::spawn(async move {
            // The task ends when either side closes the connection.
            drop(connection.await);
        });
        Some(Self { sender, is_mcp: true })
    }

    /// Turns the schema check off, for a listener of another protocol.
    #[must_use]
    pub fn not_mcp(mut self) -> Self {
        self.is_mcp = false;
        self
    }

    /// Sends a request with exactly these headers; `Host` is set only if it is one of them.
    ///
    /// # Panics
    /// If the connection breaks.
    pub async fn send(
        &mut self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Answer {
        self.try_send(method, path, headers, body).await.expect("an answer")
    }

    /// As [`Connection::send`]; `None` if the connection breaks.
    ///
    /// # Panics
    /// If the request is not valid HTTP.
    pub async fn try_send(
        &mut self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Option<Answer> {
        let mut request = Request::builder().method(method).uri(path);
        if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
            request = request.header("host", "localhost");
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let body = body.into();
        let request = request.body(Full::new(body.clone())).expect("a valid request");
        self.sender.ready().await.ok()?;
        // Only the endpoint speaks the protocol; metadata documents, for example, are not part of it.
        let speaks = self.is_mcp && request.uri().path() == "/mcp";
        let mut exchange = speaks.then(|| kit_exchange(request.headers(), &body)).flatten();
        let response = self.sender.send_request(request).await.ok()?;
        let (head, body) = response.into_parts();
        exchange.iter_mut().for_each(|exchange| exchange.head(head.status, &head.headers));
        Some(Answer { status: head.status, headers: head.headers, body, exchange })
    }
}

impl Answer {
    /// The text of a header, or an empty string.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// Whether it is a stream of events.
    pub fn is_events(&self) -> bool {
        self.header("content-type") == "text/event-stream"
    }

    /// The whole body.
    ///
    /// # Panics
    /// If it breaks off.
    pub async fn bytes(self) -> Bytes {
        self.try_bytes().await.expect("a whole body")
    }

    /// The whole body; `None` if it breaks off.
    pub async fn try_bytes(self) -> Option<Bytes> {
        let bytes = self.body.collect().await.ok()?.to_bytes();
        if let Some(mut exchange) = self.exchange {
            exchange.piece(&bytes);
            exchange.end();
        }
        Some(bytes)
    }

    /// The body as text.
    pub async fn text(self) -> String {
        String::from_utf8_lossy(&self.bytes().await).into_owned()
    }

    /// The body as JSON.
    ///
    /// # Panics
    /// If it is not JSON.
    pub async fn json(self) -> Value {
        let bytes = self.bytes().await;
        serde_json::from_slice(&bytes)
            .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&bytes)))
    }

    /// The body as JSON; `None` if it breaks off.
    pub async fn try_json(self) -> Option<Value> {
        serde_json::from_slice(&self.try_bytes().await?).ok()
    }

    /// The response that it is or has on its stream, and the messages before that; `None` if it breaks off.
    pub async fn response(self) -> Option<(Value, Vec<Value>)> {
        let mut before = Vec::new();
        if !self.is_events() {
            return Some((self.try_json().await?, before));
        }
        let mut events = self.events();
        loop {
            let message = crate::exchange::next(&mut events).await?;
            if message.get("method").is_none() {
                return Some((message, before));
            }
            before.push(message);
        }
    }

    /// The body as events.
    pub fn events(self) -> Events {
        Events { body: self.body, buffer: Vec::new(), exchange: self.exchange }
    }
}

impl Events {
    /// The next event; `None` at the end of the stream. Skips comments.
    ///
    /// # Panics
    /// If the stream is not UTF-8.
    pub async fn next(&mut self) -> Option<Event> {
        loop {
            while let Some(event) = take_event(&mut self.buffer) {
                if event.is_some() {
                    return event;
                }
            }
            let frame = self.body.frame().await?.ok()?;
            if let Some(data) = frame.data_ref() {
                self.buffer.extend_from_slice(data);
                self.exchange.iter_mut().for_each(|exchange| exchange.piece(data));
            }
        }
    }

    /// The next event with a message, decoded.
    ///
    /// # Panics
    /// If it is not JSON.
    pub async fn message(&mut self) -> Option<Value> {
        loop {
            let event = self.next().await?;
            if !event.data.is_empty() {
                return Some(serde_json::from_str(&event.data).expect("JSON"));
            }
        }
    }
}

/// Removes the first complete block from a stream: an event, or `None` for comments.
pub(crate) fn take_event(buffer: &mut Vec<u8>) -> Option<Option<Event>> {
    let end = buffer.windows(2).position(|pair| pair == b"\n\n")?;
    let block: Vec<u8> = buffer.drain(..end + 2).collect();
    Some(parse(std::str::from_utf8(&block).expect("UTF-8")))
}

fn parse(block: &str) -> Option<Event> {
    let mut event = Event::default();
    let mut seen = false;
    for line in block.lines().filter(|line| !line.starts_with(':')) {
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match name {
            "id" => event.id = Some(value.to_owned()),
            "data" if seen && !event.data.is_empty() => event.data = format!("{}\n{value}", event.data),
            "data" => event.data = value.to_owned(),
            "retry" => event.retry = value.parse().ok(),
            _ => continue,
        }
        seen = true;
    }
    seen.then_some(event)
}
