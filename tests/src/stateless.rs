//! A client of 2026-07-28, as a careful one is: each request stands alone, and says by
//! itself what it is and what its sender can do. What it says can be changed, so that
//! the careless are played as well.

use crate::exchange::{Exchange, next};
use crate::http::{Answer, Connection, Events};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::Method;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicI64, Ordering};

/// The revision.
pub const VERSION: &str = "2026-07-28";
/// The tasks extension.
pub const TASKS: &str = "io.modelcontextprotocol/tasks";

/// Keys in `_meta`.
pub mod key {
    /// Which revision a request is of.
    pub const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
    /// Who sends it.
    pub const CLIENT: &str = "io.modelcontextprotocol/clientInfo";
    /// What its sender can do.
    pub const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
    /// Which log messages it wants.
    pub const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
    /// Who answers.
    pub const SERVER: &str = "io.modelcontextprotocol/serverInfo";
    /// Which request to listen a notification belongs to.
    pub const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";
}

/// The capabilities of a client that knows tasks.
#[must_use]
pub fn tasks() -> Value {
    json!({"extensions": {TASKS: {}}})
}

/// The capabilities of a client that knows tasks and can be asked anything.
#[must_use]
pub fn everything() -> Value {
    json!({
        "elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}, "extensions": {TASKS: {}},
    })
}

/// Params in the envelope of a client that can do this. What is in `_meta` already stays.
///
/// # Panics
/// If the params are no object.
#[must_use]
pub fn enveloped(mut params: Value, capabilities: &Value) -> Value {
    let meta = params.as_object_mut().expect("an object").entry("_meta").or_insert_with(|| json!({}));
    for (key, value) in [
        (key::VERSION, json!(VERSION)),
        (key::CLIENT, json!({"name": "toolyard-tests", "version": "1"})),
        (key::CAPABILITIES, capabilities.clone()),
    ] {
        meta.as_object_mut().expect("an object").entry(key).or_insert(value);
    }
    params
}

/// A value as a header has it: as it is where that can be, else in base64 (26H-5).
#[must_use]
pub fn header_value(text: &str) -> String {
    let plain = text.bytes().all(|byte| (b' '..=b'~').contains(&byte)) && text.trim() == text;
    match plain && !text.starts_with("=?base64?") {
        true => text.to_owned(),
        false => in_base64(text),
    }
}

/// A value in the form for what a header cannot have as it is.
#[must_use]
pub fn in_base64(text: &str) -> String {
    format!("=?base64?{}?=", STANDARD.encode(text))
}

/// Whoever sends requests: nothing but where to, what it can do, and its token.
pub struct Client {
    port: u16,
    capabilities: Value,
    authorization: Option<String>,
    next: AtomicI64,
}

/// A request over HTTP, right as it is made.
#[derive(Debug, Clone)]
pub struct Request {
    message: Value,
    headers: Vec<(String, String)>,
}

/// An answer, whichever way it came.
#[derive(Debug, Clone)]
pub struct Reply {
    /// The HTTP status.
    pub status: u16,
    /// The response.
    pub message: Value,
    /// What came before it.
    pub notices: Vec<Value>,
    /// Whether it came on a stream.
    pub streamed: bool,
}

/// A stream that was asked for with `subscriptions/listen`.
pub struct Listening {
    /// The id of the request.
    pub id: Value,
    /// Its stream.
    pub events: Events,
}

impl Client {
    /// A client that can do nothing but call.
    #[must_use]
    pub fn new(port: u16) -> Self {
        Self { port, capabilities: json!({}), authorization: None, next: AtomicI64::new(1) }
    }

    /// A client that knows tasks.
    #[must_use]
    pub fn with_tasks(port: u16) -> Self {
        Self::new(port).declaring(tasks())
    }

    /// The same with these capabilities.
    #[must_use]
    pub fn declaring(mut self, capabilities: Value) -> Self {
        self.capabilities = capabilities;
        self
    }

    /// The same with this access token.
    #[must_use]
    pub fn bearing(mut self, token: &str) -> Self {
        self.authorization = Some(format!("Bearer {token}"));
        self
    }

    /// The same before a host on another port.
    #[must_use]
    pub fn at(mut self, port: u16) -> Self {
        self.port = port;
        self
    }

    /// Another client of the same kind before a host on another port.
    #[must_use]
    pub fn again(&self, port: u16) -> Self {
        let (capabilities, authorization) = (self.capabilities.clone(), self.authorization.clone());
        Self { port, capabilities, authorization, next: AtomicI64::new(1) }
    }

    /// The port of its host.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// A request with all that belongs to it.
    #[must_use]
    pub fn request(&self, method: &str, params: Value) -> Request {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let params = enveloped(params, &self.capabilities);
        let mut headers = vec![
            ("content-type".to_owned(), "application/json".to_owned()),
            ("accept".to_owned(), "application/json, text/event-stream".to_owned()),
            ("mcp-protocol-version".to_owned(), VERSION.to_owned()),
            ("mcp-method".to_owned(), method.to_owned()),
        ];
        let named = match method {
            "tools/call" | "prompts/get" => params["name"].as_str(),
            "resources/read" => params["uri"].as_str(),
            "tasks/get" | "tasks/update" | "tasks/cancel" => params["taskId"].as_str(),
            _ => None,
        };
        headers.extend(named.map(|name| ("mcp-name".to_owned(), header_value(name))));
        headers.extend(self.authorization.iter().map(|value| ("authorization".to_owned(), value.clone())));
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        Request { message, headers }
    }

    /// Sends it on a connection of its own.
    ///
    /// # Panics
    /// If there is no answer.
    pub async fn send(&self, request: &Request) -> Answer {
        self.try_send(request).await.expect("an answer")
    }

    /// As [`Client::send`]; `None` if the host is not there.
    pub async fn try_send(&self, request: &Request) -> Option<Answer> {
        let headers: Vec<_> =
            request.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let body = request.message.to_string();
        Connection::try_open(self.port).await?.try_send(Method::POST, "/mcp", &headers, body).await
    }

    /// The whole answer to it.
    ///
    /// # Panics
    /// If there is none.
    pub async fn reply(&self, request: &Request) -> Reply {
        self.try_reply(request).await.expect("an answer")
    }

    /// As [`Client::reply`]; `None` if the host dies before it.
    pub async fn try_reply(&self, request: &Request) -> Option<Reply> {
        let answer = self.try_send(request).await?;
        let (status, streamed) = (answer.status.as_u16(), answer.is_events());
        let mut notices = Vec::new();
        if !streamed {
            return Some(Reply { status, message: answer.try_json().await?, notices, streamed });
        }
        let mut events = answer.events();
        loop {
            let message = next(&mut events).await?;
            if message.get("method").is_none() {
                return Some(Reply { status, message, notices, streamed });
            }
            notices.push(message);
        }
    }

    /// The whole answer to a request.
    pub async fn ask(&self, method: &str, params: Value) -> Reply {
        self.reply(&self.request(method, params)).await
    }

    /// The result of a request.
    pub async fn result(&self, method: &str, params: Value) -> Value {
        self.ask(method, params).await.result()
    }

    /// The error of a request.
    pub async fn error(&self, method: &str, params: Value) -> Value {
        self.ask(method, params).await.error()
    }

    /// Calls a tool; gives the result, of whichever type.
    pub async fn call(&self, tool: &str, arguments: Value) -> Value {
        self.result("tools/call", json!({"name": tool, "arguments": arguments})).await
    }

    /// Calls a tool that becomes a task; gives its id.
    ///
    /// # Panics
    /// If it becomes none.
    pub async fn create(&self, tool: &str, arguments: Value) -> String {
        let result = self.call(tool, arguments).await;
        assert_eq!(result["resultType"], "task", "{result}");
        result["taskId"].as_str().expect("an id").to_owned()
    }

    /// The task as it is.
    pub async fn task(&self, id: &str) -> Value {
        self.result("tasks/get", json!({"taskId": id})).await
    }

    /// Waits until the task has this status.
    pub async fn until(&self, id: &str, status: &str) -> Value {
        crate::wait::becomes(status, || self.task(id)).await
    }

    /// Answers questions of a task.
    pub async fn update(&self, id: &str, responses: Value) -> Value {
        self.result("tasks/update", json!({"taskId": id, "inputResponses": responses})).await
    }

    /// Has a task cancelled.
    pub async fn cancel(&self, id: &str) -> Value {
        self.result("tasks/cancel", json!({"taskId": id})).await
    }

    /// Sends a request whose answer is a stream.
    ///
    /// # Panics
    /// If it is not.
    pub async fn begin(&self, request: &Request) -> Exchange {
        let answer = self.send(request).await;
        assert!(answer.status == 200 && answer.is_events(), "answered by a stream: {}", request.message);
        Exchange { id: request.message["id"].as_i64().expect("a number"), events: answer.events() }
    }

    /// Listens to what this filter asks for; gives the stream and what was granted.
    ///
    /// # Panics
    /// If that is not acknowledged first.
    pub async fn listen(&self, notifications: Value) -> (Listening, Value) {
        let request = self.request("subscriptions/listen", json!({"notifications": notifications}));
        self.listen_by(&request).await
    }

    /// As [`Client::listen`], with a request that was made before.
    ///
    /// # Panics
    /// If that is not acknowledged first.
    pub async fn listen_by(&self, request: &Request) -> (Listening, Value) {
        let answer = self.send(request).await;
        assert!(answer.status == 200 && answer.is_events(), "{}", request.message);
        let mut listening = Listening { id: request.message["id"].clone(), events: answer.events() };
        let first = listening.heard().await;
        assert_eq!(first["method"], "notifications/subscriptions/acknowledged", "{first}");
        (listening, first["params"]["notifications"].clone())
    }
}

impl Request {
    /// With something else, or more, in `_meta`.
    #[must_use]
    pub fn meta(mut self, key: &str, value: Value) -> Self {
        self.message["params"]["_meta"][key] = value;
        self
    }

    /// Without something in `_meta`.
    ///
    /// # Panics
    /// If there is no `_meta`.
    #[must_use]
    pub fn without_meta(mut self, key: &str) -> Self {
        self.message["params"]["_meta"].as_object_mut().expect("an object").remove(key);
        self
    }

    /// With something else, or more, in the message.
    #[must_use]
    pub fn member(mut self, key: &str, value: Value) -> Self {
        self.message[key] = value;
        self
    }

    /// With another id.
    #[must_use]
    pub fn numbered(self, id: Value) -> Self {
        self.member("id", id)
    }

    /// With this header, in place of those of its name.
    #[must_use]
    pub fn header(self, name: &str, value: &str) -> Self {
        self.without(name).and_header(name, value)
    }

    /// With this header, beside those of its name.
    #[must_use]
    pub fn and_header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Without headers of this name.
    #[must_use]
    pub fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        self
    }

    /// The message.
    #[must_use]
    pub const fn message(&self) -> &Value {
        &self.message
    }

    /// The headers.
    #[must_use]
    pub fn headers(&self) -> &[(String, String)] {
        &self.headers
    }

    /// The bytes of the request, for who writes them to a socket.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        let body = self.message.to_string();
        let mut head = format!("POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n", body.len());
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        format!("{head}\r\n{body}").into_bytes()
    }
}

impl Reply {
    /// The result.
    ///
    /// # Panics
    /// If it is an error.
    #[must_use]
    pub fn result(mut self) -> Value {
        assert!(self.message.get("error").is_none(), "{}", self.message);
        self.message["result"].take()
    }

    /// The error.
    ///
    /// # Panics
    /// If it is a result.
    #[must_use]
    pub fn error(mut self) -> Value {
        assert!(self.message.get("result").is_none(), "{}", self.message);
        self.message["error"].take()
    }

    /// The status and the code of the error.
    #[must_use]
    pub fn refusal(&self) -> (u16, i64) {
        (self.status, self.message["error"]["code"].as_i64().unwrap_or_default())
    }
}

impl Listening {
    /// The next message.
    ///
    /// # Panics
    /// If the stream ends, or nothing comes.
    pub async fn heard(&mut self) -> Value {
        next(&mut self.events).await.expect("a message before the end of the stream")
    }

    /// The params of the next message of this method.
    pub async fn next_of(&mut self, method: &str) -> Value {
        loop {
            let message = self.heard().await;
            if message["method"] == method {
                return message["params"].clone();
            }
        }
    }

    /// Everything up to the end of the stream.
    pub async fn rest(mut self) -> Vec<Value> {
        let mut rest = Vec::new();
        while let Some(message) = next(&mut self.events).await {
            rest.push(message);
        }
        rest
    }
}
