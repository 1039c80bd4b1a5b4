//! A careful client of 2026-07-28: each request is self-contained, and declares its revision and the
//! capabilities of its client. A test can alter requests, to play a careless client.

use crate::exchange::{Exchange, next, next_of};
use crate::http::{Answer, Connection, Events};
use crate::session::HEADERS;
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
    /// The revision of a request.
    pub const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
    /// The sender's name.
    pub const CLIENT: &str = "io.modelcontextprotocol/clientInfo";
    /// The sender's capabilities.
    pub const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
    /// The lowest level of log messages that the sender wants.
    pub const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
    /// The name of the server that answers.
    pub const SERVER: &str = "io.modelcontextprotocol/serverInfo";
    /// The listen request that a notification belongs to.
    pub const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";
}

/// The capabilities of a client that supports tasks.
pub fn tasks() -> Value {
    json!({"extensions": {TASKS: {}}})
}

/// The capabilities of a client that supports tasks and every kind of question.
pub fn everything() -> Value {
    json!({"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}, "extensions": {TASKS: {}}})
}

/// Adds the envelope of a client with these capabilities to the params. Existing members of `_meta` stay.
///
/// # Panics
/// If the params are not an object.
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

/// The form of a value in a header: plain if possible, else base64 (26H-5).
pub fn header_value(text: &str) -> String {
    let plain = text.bytes().all(|byte| (b' '..=b'~').contains(&byte)) && text.trim() == text;
    match plain && !text.starts_with("=?base64?") {
        true => text.to_owned(),
        false => format!("=?base64?{}?=", STANDARD.encode(text)),
    }
}

/// A sender of requests: only a port, capabilities and a token.
pub struct Client {
    port: u16,
    capabilities: Value,
    authorization: Option<String>,
    next: AtomicI64,
}

/// A request over HTTP; valid unless a test alters it.
#[derive(Debug, Clone)]
pub struct Request {
    message: Value,
    headers: Vec<(String, String)>,
}

/// A response, as an object or on a stream.
#[derive(Debug, Clone)]
pub struct Reply {
    /// The HTTP status.
    pub status: u16,
    /// The response.
    pub message: Value,
    /// The messages before it.
    pub notices: Vec<Value>,
}

/// The stream of a `subscriptions/listen`.
pub struct Listening(Events);

impl Client {
    /// A client without capabilities.
    #[must_use]
    pub fn new(port: u16) -> Self {
        Self { port, capabilities: json!({}), authorization: None, next: AtomicI64::new(1) }
    }

    /// A client that supports tasks.
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

    /// The same client for a host on another port.
    #[must_use]
    pub fn at(mut self, port: u16) -> Self {
        self.port = port;
        self
    }

    /// Another client of the same kind for a host on another port.
    #[must_use]
    pub fn again(&self, port: u16) -> Self {
        let (capabilities, authorization) = (self.capabilities.clone(), self.authorization.clone());
        Self { port, capabilities, authorization, next: AtomicI64::new(1) }
    }

    /// The port of its host.
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// A complete request.
    pub fn request(&self, method: &str, params: Value) -> Request {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let params = enveloped(params, &self.capabilities);
        let fixed = [HEADERS[0], HEADERS[1], ("mcp-protocol-version", VERSION), ("mcp-method", method)];
        let mut headers = fixed.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
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

    /// Sends it on a new connection.
    ///
    /// # Panics
    /// If there is no answer.
    pub async fn send(&self, request: &Request) -> Answer {
        self.try_send(request).await.expect("an answer")
    }

    /// As [`Client::send`]; `None` if the host does not listen.
    pub async fn try_send(&self, request: &Request) -> Option<Answer> {
        let headers: Vec<_> = request.headers.iter().map(|(name, is)| (name.as_str(), is.as_str())).collect();
        let body = request.message.to_string();
        Connection::try_open(self.port).await?.try_send(Method::POST, "/mcp", &headers, body).await
    }

    /// The whole response to a request.
    ///
    /// # Panics
    /// If there is none.
    pub async fn reply(&self, request: &Request) -> Reply {
        let answer = self.send(request).await;
        let status = answer.status.as_u16();
        let (message, notices) = answer.response().await.expect("an answer");
        Reply { status, message, notices }
    }

    /// Sends a request; returns the whole response.
    pub async fn ask(&self, method: &str, params: Value) -> Reply {
        self.reply(&self.request(method, params)).await
    }

    /// Sends a request; returns its result.
    pub async fn result(&self, method: &str, params: Value) -> Value {
        self.ask(method, params).await.result()
    }

    /// Sends a request; returns its error.
    pub async fn error(&self, method: &str, params: Value) -> Value {
        self.ask(method, params).await.error()
    }

    /// Calls a tool; returns the result, whatever its type.
    pub async fn call(&self, tool: &str, arguments: Value) -> Value {
        self.result("tools/call", json!({"name": tool, "arguments": arguments})).await
    }

    /// Calls a tool that becomes a task; returns its id.
    ///
    /// # Panics
    /// If it does not become a task.
    pub async fn create(&self, tool: &str, arguments: Value) -> String {
        let result = self.call(tool, arguments).await;
        assert_eq!(result["resultType"], "task", "{result}");
        result["taskId"].as_str().expect("an id").to_owned()
    }

    /// As `create`, and waits until the task is completed.
    pub async fn complete(&self, tool: &str, arguments: Value) -> String {
        let id = self.create(tool, arguments).await;
        self.until(&id, "completed").await;
        id
    }

    /// The current state of the task.
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

    /// Cancels a task.
    pub async fn cancel(&self, id: &str) -> Value {
        self.result("tasks/cancel", json!({"taskId": id})).await
    }

    /// Sends a request whose answer is a stream.
    ///
    /// # Panics
    /// If the answer is not a stream.
    pub async fn begin(&self, request: &Request) -> Exchange {
        let answer = self.send(request).await;
        assert!(answer.status == 200 && answer.is_events(), "answered by a stream: {}", request.message);
        Exchange { id: request.message["id"].as_i64().expect("a number"), events: answer.events() }
    }

    /// Listens with this filter; returns the stream and the granted notifications.
    ///
    /// # Panics
    /// If the first message is not the acknowledgement.
    pub async fn listen(&self, notifications: Value) -> (Listening, Value) {
        let request = self.request("subscriptions/listen", json!({"notifications": notifications}));
        self.listen_by(&request).await
    }

    /// As [`Client::listen`], with a prepared request.
    ///
    /// # Panics
    /// If the first message is not the acknowledgement.
    pub async fn listen_by(&self, request: &Request) -> (Listening, Value) {
        let answer = self.send(request).await;
        assert!(answer.status == 200 && answer.is_events(), "{}", request.message);
        let mut events = answer.events();
        let first = next(&mut events).await.expect("a message before the end of the stream");
        assert_eq!(first["method"], "notifications/subscriptions/acknowledged", "{first}");
        (Listening(events), first["params"]["notifications"].clone())
    }
}

impl Request {
    /// Replaces or adds a member of `_meta`.
    #[must_use]
    pub fn meta(mut self, key: &str, value: Value) -> Self {
        self.message["params"]["_meta"][key] = value;
        self
    }

    /// Replaces or adds a member of the message.
    #[must_use]
    pub fn member(mut self, key: &str, value: Value) -> Self {
        self.message[key] = value;
        self
    }

    /// Replaces the id.
    #[must_use]
    pub fn numbered(self, id: Value) -> Self {
        self.member("id", id)
    }

    /// Sets this header; removes others of its name.
    #[must_use]
    pub fn header(self, name: &str, value: &str) -> Self {
        let mut request = self.without(name);
        request.headers.push((name.to_owned(), value.to_owned()));
        request
    }

    /// Removes the headers of this name.
    #[must_use]
    pub fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        self
    }

    /// The message.
    pub const fn message(&self) -> &Value {
        &self.message
    }

    /// The headers.
    pub fn headers(&self) -> &[(String, String)] {
        &self.headers
    }
}

impl Reply {
    /// The result.
    ///
    /// # Panics
    /// If it is an error.
    pub fn result(mut self) -> Value {
        assert!(self.message.get("error").is_none(), "{}", self.message);
        self.message["result"].take()
    }

    /// The error.
    ///
    /// # Panics
    /// If it is a result.
    pub fn error(mut self) -> Value {
        assert!(self.message.get("result").is_none(), "{}", self.message);
        self.message["error"].take()
    }

    /// The status and the code of the error.
    pub fn refusal(&self) -> (u16, i64) {
        (self.status, self.message["error"]["code"].as_i64().unwrap_or_default())
    }
}

impl Listening {
    /// The params of the next message of this method.
    pub async fn next_of(&mut self, method: &str) -> Value {
        next_of(&mut self.0, method).await["params"].take()
    }
}
