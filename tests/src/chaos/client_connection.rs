//! The connection of one client to a host that may die at any moment: a single connection, kept as long as it
//! lasts. Answers keep their exact bytes.

use crate::Session;
use crate::http::{Answer, Connection, Events};
use crate::stateless::Client;
use crate::wait::PATIENCE;
use hyper::Method;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

/// A client of either generation.
pub(crate) enum Generation {
    Session(Session),
    Stateless(Client),
}

pub(crate) struct ClientConnection {
    pub generation: Generation,
    connection: Option<Connection>,
    /// The time after which a client that can move to another host gives up on an answer.
    move_after: Option<Duration>,
}

/// Why there is no usable answer. The host may have carried out the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoAnswer {
    /// The host died, did not listen, or stops.
    HostLost,
    /// The client stopped waiting.
    TimedOut,
    /// The host's store is not available.
    StoreUnavailable,
}

/// A response.
#[derive(Debug)]
pub(crate) struct Response {
    pub message: Value,
    /// Its members, with their bytes on the wire.
    members: BTreeMap<String, Box<RawValue>>,
}

impl Response {
    fn read(text: &str) -> Option<Self> {
        Some(Self { message: serde_json::from_str(text).ok()?, members: serde_json::from_str(text).ok()? })
    }

    pub fn result(&self) -> &Value {
        &self.message["result"]
    }

    /// The bytes of its result, or of its error.
    pub fn bytes(&self) -> &str {
        self.members.get("result").or(self.members.get("error")).map_or("", |raw| raw.get())
    }

    /// The bytes of a member of its result.
    pub fn bytes_of(&self, member: &str) -> Option<String> {
        let members: BTreeMap<String, Box<RawValue>> = serde_json::from_str(self.bytes()).ok()?;
        members.get(member).map(|raw| raw.get().to_owned())
    }

    pub fn code(&self) -> Option<i64> {
        self.message["error"]["code"].as_i64()
    }

    /// Whether it is an internal error with these words.
    fn is_internal(&self, words: &str) -> bool {
        let said = self.message["error"]["message"].as_str().unwrap_or_default();
        self.code() == Some(-32603) && said.contains(words)
    }
}

impl ClientConnection {
    pub const fn new(generation: Generation) -> Self {
        Self { generation, connection: None, move_after: None }
    }

    /// The same for a client that can move to another host, if a time is given: it moves if no answer comes
    /// within that time, or if the host's store is not available.
    pub const fn moving_after(mut self, time: Option<Duration>) -> Self {
        self.move_after = time;
        self
    }

    pub const fn is_session(&self) -> bool {
        matches!(self.generation, Generation::Session(_))
    }

    /// Continues with a host on another port.
    pub fn move_to(&mut self, port: u16) {
        self.connection = None;
        self.generation = match &self.generation {
            Generation::Session(session) => Generation::Session(session.at(port)),
            Generation::Stateless(client) => Generation::Stateless(client.again(port)),
        };
    }

    /// Sends a request and waits for its response. If the host sends requests meanwhile, as it does in a
    /// session, `asked` gives the results to respond with.
    pub async fn ask(
        &mut self,
        method: &str,
        params: Value,
        asked: impl FnMut(&Value) -> Value,
    ) -> Result<Response, NoAnswer> {
        let response = match self.move_after {
            None => self.exchange(method, params, asked).await,
            Some(time) => {
                let response = tokio::time::timeout(time, self.exchange(method, params, asked)).await;
                response.unwrap_or(Err(NoAnswer::TimedOut))
            }
        };
        match response {
            Ok(response) if self.move_after.is_some() && response.is_internal("store is not available") => {
                Err(NoAnswer::StoreUnavailable)
            }
            Ok(response) if response.is_internal("shutting down") => Err(NoAnswer::HostLost),
            Ok(response) => Ok(response),
            Err(no_answer) => {
                self.connection = None;
                Err(no_answer)
            }
        }
    }

    async fn exchange(
        &mut self,
        method: &str,
        params: Value,
        mut asked: impl FnMut(&Value) -> Value,
    ) -> Result<Response, NoAnswer> {
        let (headers, message) = self.request(method, params);
        let id = message["id"].clone();
        let answer = within(self.post(&headers, message.to_string())).await?;
        if !answer.is_events() {
            let bytes = within(answer.try_bytes()).await?;
            return Response::read(&String::from_utf8_lossy(&bytes)).ok_or(NoAnswer::HostLost);
        }
        // The rest of a stream after the response is not read.
        self.connection = None;
        let mut events = answer.events();
        loop {
            let text = within(next(&mut events)).await?;
            let response = Response::read(&text).ok_or(NoAnswer::HostLost)?;
            if response.message["method"].is_string() && !response.message["id"].is_null() {
                let result = asked(&response.message);
                let response = json!({"jsonrpc": "2.0", "id": response.message["id"], "result": result});
                let (headers, _) = self.request("ping", json!({}));
                within(self.post(&headers, response.to_string())).await?;
                self.connection = None;
            } else if response.message["id"] == id {
                return Ok(response);
            }
        }
    }

    fn request(&self, method: &str, params: Value) -> (Vec<(String, String)>, Value) {
        match &self.generation {
            Generation::Session(session) => {
                let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
                let headers = session.headers().into_iter().map(owned).collect();
                (headers, session.message(method, params))
            }
            Generation::Stateless(client) => {
                let request = client.request(method, params);
                (request.headers().to_vec(), request.message().clone())
            }
        }
    }

    async fn post(&mut self, headers: &[(String, String)], body: String) -> Option<Answer> {
        let headers: Vec<_> = headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        if self.connection.is_none() {
            let port = match &self.generation {
                Generation::Session(session) => session.port(),
                Generation::Stateless(client) => client.port(),
            };
            self.connection = Connection::try_open(port).await;
        }
        let connection = self.connection.as_mut()?;
        let answer = connection.try_send(Method::POST, "/mcp", &headers, body).await;
        if answer.is_none() {
            self.connection = None;
        }
        answer
    }
}

/// A dead host breaks its connections; a living one answers in time.
async fn within<T>(answer: impl Future<Output = Option<T>>) -> Result<T, NoAnswer> {
    tokio::time::timeout(PATIENCE, answer).await.expect("an answer, or an end").ok_or(NoAnswer::HostLost)
}

async fn next(events: &mut Events) -> Option<String> {
    loop {
        let event = events.next().await?;
        if !event.data.is_empty() {
            return Some(event.data);
        }
    }
}
