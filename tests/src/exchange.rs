//! One request and all messages on its stream, one by one, with the client's responses to requests of the
//! host.

use crate::http::Events;
use crate::session::Session;
use crate::wait::PATIENCE;
use serde_json::{Value, json};

/// A request that the host answers with a stream.
pub struct Exchange {
    /// The id of the request.
    pub id: i64,
    /// The events of its stream.
    pub events: Events,
}

impl Session {
    /// Sends a request whose answer is a stream.
    ///
    /// # Panics
    /// If the answer is not a stream.
    pub async fn begin(&self, method: &str, params: Value) -> Exchange {
        let id = self.next_id();
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        let answer = self.post(&message).await;
        assert_eq!(answer.status, 200, "{message}");
        assert!(answer.is_events(), "answered by a stream: {message}");
        Exchange { id, events: answer.events() }
    }

    /// Begins a plain call of the fixture `script` with these steps.
    pub async fn begin_script(&self, steps: Value) -> Exchange {
        self.begin("tools/call", json!({"name": "script", "arguments": {"steps": steps}})).await
    }

    /// Runs the fixture `script` as a task; returns its id.
    pub async fn create_script(&self, steps: Value) -> String {
        self.create("script", json!({"steps": steps})).await
    }

    /// Responds to a request of the server with a result.
    ///
    /// # Panics
    /// If the server does not accept the response.
    pub async fn respond(&self, request: &Value, result: Value) {
        self.send_response(json!({"jsonrpc": "2.0", "id": request["id"], "result": result})).await;
    }

    /// Responds to a request of the server with an error.
    ///
    /// # Panics
    /// If the server does not accept the response.
    pub async fn refuse(&self, request: &Value, code: i64, message: &str) {
        let error = json!({"code": code, "message": message});
        self.send_response(json!({"jsonrpc": "2.0", "id": request["id"], "error": error})).await;
    }

    async fn send_response(&self, response: Value) {
        let answer = self.post(&response).await;
        assert_eq!(answer.status, 202, "IR-6: {response}");
        assert!(answer.bytes().await.is_empty(), "H-10: an empty body");
    }

    /// Sends the server a notification.
    ///
    /// # Panics
    /// If the server does not accept it.
    pub async fn notify(&self, method: &str, params: Value) {
        let answer = self.post(&json!({"jsonrpc": "2.0", "method": method, "params": params})).await;
        assert_eq!(answer.status, 202, "{method}");
    }
}

impl Exchange {
    /// The next message.
    ///
    /// # Panics
    /// If the stream ends, or nothing comes.
    pub async fn message(&mut self) -> Value {
        next(&mut self.events).await.expect("a message before the end of the stream")
    }

    /// The next message of this method.
    pub async fn next_of(&mut self, method: &str) -> Value {
        next_of(&mut self.events, method).await
    }

    /// The response, and the messages before it.
    pub async fn answer(mut self) -> (Value, Vec<Value>) {
        let mut before = Vec::new();
        loop {
            let message = self.message().await;
            if message["id"] == self.id && message.get("method").is_none() {
                return (message, before);
            }
            before.push(message);
        }
    }

    /// The outcome of the steps of `script`.
    pub async fn outcome(self) -> Value {
        outcome(&self.answer().await.0["result"])
    }

    /// All messages up to the end of the stream.
    pub async fn rest(mut self) -> Vec<Value> {
        let mut rest = Vec::new();
        while let Some(message) = next(&mut self.events).await {
            rest.push(message);
        }
        rest
    }
}

/// The next message of a stream, within [`PATIENCE`].
///
/// # Panics
/// If no message comes.
pub async fn next(events: &mut Events) -> Option<Value> {
    tokio::time::timeout(PATIENCE, events.message()).await.expect("something comes in time")
}

/// The next message of this method on a stream.
///
/// # Panics
/// If the stream ends before, or nothing comes.
pub async fn next_of(events: &mut Events, method: &str) -> Value {
    loop {
        let message = next(events).await.expect("a message before the end of the stream");
        if message["method"] == method {
            return message;
        }
    }
}

/// The outcome of the steps of `script`, from its result.
///
/// # Panics
/// If the result is not one of `script`.
pub fn outcome(result: &Value) -> Value {
    let text = crate::text(result);
    serde_json::from_str(text).unwrap_or_else(|_| panic!("what each step came to: {text}"))
}
