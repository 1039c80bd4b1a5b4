//! An MCP session over HTTP, with a careful client.

use crate::http::{Answer, Connection, Events};
use hyper::Method;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicI64, Ordering};
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpSocket, TcpStream};

/// The newest revision with sessions.
pub const LATEST: &str = "2025-11-25";

/// An initialized session.
pub struct Session {
    port: u16,
    id: String,
    revision: String,
    /// The `Authorization` header of its requests.
    authorization: Option<String>,
    next: AtomicI64,
}

/// The outcome of `initialize`.
pub struct Opened {
    /// The session.
    pub session: Session,
    /// The result of `initialize`.
    pub result: Value,
}

/// Sends a request to a port of this machine, on a connection with a small buffer.
///
/// # Panics
/// If no process listens.
pub async fn unread(port: u16, request: &str) -> TcpStream {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_recv_buffer_size(4096).expect("a small buffer");
    let mut stream = socket.connect(([127, 0, 0, 1], port).into()).await.expect("connects");
    stream.write_all(request.as_bytes()).await.expect("sends");
    stream
}

impl Session {
    /// Opens a session.
    pub async fn open(port: u16) -> Self {
        Self::open_as(port, LATEST, json!({})).await.session
    }

    /// Opens a session with this revision and these client capabilities.
    ///
    /// # Panics
    /// If the host refuses.
    pub async fn open_as(port: u16, revision: &str, capabilities: Value) -> Opened {
        Self::open_by(port, revision, capabilities, None).await
    }

    /// Opens a session with this access token, which its requests carry as well.
    pub async fn open_with(port: u16, token: &str) -> Self {
        Self::open_by(port, LATEST, json!({}), Some(token)).await.session
    }

    /// Opens a session with this revision, these client capabilities, and this access token, which its
    /// requests carry as well.
    ///
    /// # Panics
    /// If the host refuses.
    pub async fn open_by(port: u16, revision: &str, capabilities: Value, token: Option<&str>) -> Opened {
        let authorization = token.map(|token| format!("Bearer {token}"));
        let mut headers = HEADERS.to_vec();
        headers.extend(authorization.as_deref().map(|value| ("authorization", value)));
        let message = initialize(revision, capabilities).to_string();
        let answer = Connection::open(port).await.send(Method::POST, "/mcp", &headers, message).await;
        assert_eq!(answer.status, 200, "initialize");
        let id = answer.header("mcp-session-id").to_owned();
        assert!(!id.is_empty(), "initialize names the session");
        let (mut response, _) = answer.response().await.expect("an answer");
        let result = response["result"].take();
        let revision = result["protocolVersion"].as_str().expect("a revision").to_owned();
        let session = Self { port, id, revision, authorization, next: AtomicI64::new(1) };
        session.notify("notifications/initialized", json!({})).await;
        Opened { session, result }
    }

    /// The same session on a host at another port. The copies never share a request id, as if one client sent
    /// all requests.
    #[must_use]
    pub fn at(&self, port: u16) -> Self {
        static PLACES: AtomicI64 = AtomicI64::new(1);
        let first = 1_000_000 * PLACES.fetch_add(1, Ordering::Relaxed);
        let (id, revision) = (self.id.clone(), self.revision.clone());
        Self { port, id, revision, authorization: self.authorization.clone(), next: AtomicI64::new(first) }
    }

    /// The same session with another access token, or none.
    #[must_use]
    pub fn bearing(&self, token: Option<&str>) -> Self {
        let authorization = token.map(|token| format!("Bearer {token}"));
        Self { authorization, ..self.at(self.port) }
    }

    /// The port of its host.
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// Its id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// A new request id.
    pub fn next_id(&self) -> i64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// A request with a new id.
    pub fn message(&self, method: &str, params: Value) -> Value {
        json!({"jsonrpc": "2.0", "id": self.next_id(), "method": method, "params": params})
    }

    /// The headers of its requests.
    pub fn headers(&self) -> Vec<(&str, &str)> {
        let mut headers = HEADERS.to_vec();
        headers.push(("mcp-session-id", &self.id));
        headers.push(("mcp-protocol-version", &self.revision));
        headers.extend(self.authorization.as_deref().map(|value| ("authorization", value)));
        headers
    }

    /// Posts one message on a new connection.
    pub async fn post(&self, message: &Value) -> Answer {
        self.post_text(message.to_string()).await
    }

    /// Posts this text on a new connection.
    pub async fn post_text(&self, text: String) -> Answer {
        Connection::open(self.port).await.send(Method::POST, "/mcp", &self.headers(), text).await
    }

    /// Sends a request on a connection with a small buffer, from which nothing is read.
    ///
    /// # Panics
    /// If the host does not listen.
    pub async fn send_unread(&self, method: &str, params: Value) -> TcpStream {
        let message = self.message(method, params).to_string();
        let mut head =
            format!("POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n", message.len());
        for (name, value) in self.headers() {
            head += &format!("{name}: {value}\r\n");
        }
        unread(self.port, &format!("{head}\r\n{message}")).await
    }

    /// Sends a request; returns the whole response, whether it came as an object or as a stream.
    ///
    /// # Panics
    /// If there is no answer.
    pub async fn request(&self, method: &str, params: Value) -> Value {
        self.request_and_notices(method, params).await.0
    }

    /// As [`Session::request`], with the messages that came before the answer.
    ///
    /// # Panics
    /// If there is no answer.
    pub async fn request_and_notices(&self, method: &str, params: Value) -> (Value, Vec<Value>) {
        let message = self.message(method, params);
        let answer = self.post(&message).await;
        assert_eq!(answer.status, 200, "{message}");
        let (response, notices) = answer.response().await.expect("an answer before the end of the stream");
        assert_eq!(response["id"], message["id"], "the answer is that of the request");
        (response, notices)
    }

    /// The response of a host that may die: `None` if it does.
    pub async fn try_request(&self, id: i64, method: &str, params: Value) -> Option<Value> {
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        let mut connection = Connection::try_open(self.port).await?;
        let answer = connection.try_send(Method::POST, "/mcp", &self.headers(), message.to_string()).await?;
        let (response, _) = answer.response().await?;
        assert_eq!(response["id"], id, "the answer is that of the request");
        Some(response)
    }

    /// The result of a request.
    ///
    /// # Panics
    /// If it is an error.
    pub async fn result(&self, method: &str, params: Value) -> Value {
        let mut answer = self.request(method, params).await;
        assert!(answer.get("error").is_none(), "{method}: {answer}");
        answer["result"].take()
    }

    /// The error of a request.
    ///
    /// # Panics
    /// If it is a result.
    pub async fn error(&self, method: &str, params: Value) -> Value {
        let mut answer = self.request(method, params).await;
        assert!(answer.get("result").is_none(), "{method}: {answer}");
        answer["error"].take()
    }

    /// The names of the tools, in their order on the list.
    ///
    /// # Panics
    /// If the answer is no list of tools.
    pub async fn tool_names(&self) -> Vec<String> {
        let listed = self.result("tools/list", json!({})).await;
        let tools = listed["tools"].as_array().expect("tools").iter();
        tools.map(|tool| tool["name"].as_str().expect("a name").to_owned()).collect()
    }

    /// Makes a plain call; returns its result.
    pub async fn call(&self, tool: &str, arguments: Value) -> Value {
        self.result("tools/call", json!({"name": tool, "arguments": arguments})).await
    }

    /// Calls a tool as a task; returns the id of the task.
    ///
    /// # Panics
    /// If no task is created.
    pub async fn create(&self, tool: &str, arguments: Value) -> String {
        let params = json!({"name": tool, "arguments": arguments, "task": {}});
        let result = self.result("tools/call", params).await;
        result["task"]["taskId"].as_str().expect("a task").to_owned()
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

    /// Opens the stream for messages that belong to no request.
    ///
    /// # Panics
    /// If the host refuses.
    pub async fn listen(&self) -> Events {
        let answer = self.get(None).await;
        assert_eq!(answer.status, 200);
        answer.events()
    }

    /// Sends a GET, which resumes after `last_event` if there is one.
    pub async fn get(&self, last_event: Option<&str>) -> Answer {
        let mut headers = self.headers();
        headers.extend(last_event.map(|id| ("last-event-id", id)));
        Connection::open(self.port).await.send(Method::GET, "/mcp", &headers, "").await
    }

    /// Ends the session; returns the status.
    pub async fn delete(&self) -> u16 {
        let connection = Connection::open(self.port);
        connection.await.send(Method::DELETE, "/mcp", &self.headers(), "").await.status.as_u16()
    }
}

/// The first text of a result.
///
/// # Panics
/// If it has none.
pub fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("a text: {result}"))
}

/// The headers that every POST has.
pub const HEADERS: [(&str, &str); 2] =
    [("content-type", "application/json"), ("accept", "application/json, text/event-stream")];

/// An `initialize` request.
pub fn initialize(revision: &str, capabilities: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": 0, "method": "initialize",
        "params": {"protocolVersion": revision, "capabilities": capabilities,
        "clientInfo": {"name": "toolyard-tests", "version": "1"}}})
}
