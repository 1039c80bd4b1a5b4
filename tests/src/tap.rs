//! Checks the messages of the host against the official schema and the requests of the client: for the test
//! kit, and for official clients and suites, with a tap between them and the host.

mod exchange;
mod negotiated;
mod proxy;
mod report;
mod rules;
mod stateless;
#[cfg(test)]
mod tests;

pub(crate) use exchange::kit_exchange;
pub use exchange::{Exchange, Tap};
pub use proxy::Proxy;
pub(crate) use report::stands_aside;
pub use report::{Report, Violation, stand_aside};

use crate::schema::Schema;
use negotiated::Negotiated;
use serde_json::Value;
use stateless::Stateless;
use std::collections::HashMap;

/// The only revision with sessions whose schema is available here.
const REVISION: &str = "2025-11-25";

/// The messages between one client and the host: in a session, without one, or both at once, since each
/// message is judged by the request that it belongs to.
pub struct Conversation {
    schema: &'static Schema,
    negotiated: Negotiated,
    stateless: Stateless,
    /// The client's requests by their ids, as JSON.
    asked: HashMap<String, Asked>,
    /// The host's requests by their ids, as JSON.
    asking: HashMap<String, Value>,
}

/// A request of the client.
struct Asked {
    method: String,
    params: Value,
}

/// The judgement on a message of the host.
pub struct Verdict {
    /// The recognised type of the message.
    pub taken_for: String,
    /// The problems of the message.
    pub problems: Vec<String>,
}

impl Conversation {
    /// A conversation without messages.
    #[must_use]
    pub fn new(schema: &'static Schema) -> Self {
        let (negotiated, stateless) = (Negotiated::default(), Stateless::default());
        Self { schema, negotiated, stateless, asked: HashMap::new(), asking: HashMap::new() }
    }

    /// Sets the HTTP status of the next message.
    pub fn under(&mut self, status: u16) {
        self.stateless.status = Some(status);
    }

    /// Receives a message of the client, which may be invalid.
    pub fn from_client(&mut self, text: &[u8]) {
        match serde_json::from_slice(text) {
            Ok(Value::Array(members)) => members.iter().for_each(|member| self.client_says(member)),
            Ok(message) => self.client_says(&message),
            Err(_) => {}
        }
    }

    fn client_says(&mut self, message: &Value) {
        let (Some(method), Some(id)) = (message["method"].as_str(), message.get("id")) else { return };
        if stateless::is_claimed_by(message) {
            // If two requests have one id, the response answers the later one.
            self.asked.remove(&id.to_string());
            self.stateless.asked(id, method, &message["params"]);
            return;
        }
        self.stateless.forget(id);
        let params = message["params"].clone();
        self.asked.insert(id.to_string(), Asked { method: method.to_owned(), params });
    }

    /// Judges a message of the host; `None` if another revision governs it.
    pub fn from_host(&mut self, text: &[u8]) -> Option<Verdict> {
        let message: Value = match serde_json::from_slice(text) {
            Ok(message) => message,
            Err(error) => return self.in_force(Verdict::one("a message", format!("J-1: not JSON: {error}"))),
        };
        let alone = self.asked.is_empty() && self.negotiated.revision.is_none();
        if let Some(verdict) = self.stateless.judge(self.schema, &message, alone) {
            return Some(verdict);
        }
        let asked = message.get("id").and_then(|id| self.asked.get(&id.to_string()));
        if let Some(Asked { method, params }) = asked
            && method == "initialize"
            && message["result"].is_object()
        {
            self.negotiated.learn(params, &message["result"]);
        }
        let verdict = self.judge(&message);
        if let (Some(_), Some(id)) = (message["method"].as_str(), message.get("id")) {
            self.asking.insert(id.to_string(), message);
        }
        self.in_force(verdict)
    }

    /// Drops verdicts on other revisions, which have other schemas.
    fn in_force(&self, verdict: Verdict) -> Option<Verdict> {
        self.negotiated.revision.as_deref().is_none_or(|revision| revision == REVISION).then_some(verdict)
    }

    fn judge(&self, message: &Value) -> Verdict {
        let Some(members) = message.as_object() else {
            return Verdict::one("a message", "J-6: one message at a time, an object".to_owned());
        };
        if members.contains_key("method") {
            return self.judge_own(message);
        }
        match (members.contains_key("result"), members.contains_key("error")) {
            (true, false) => self.judge_result(message),
            (false, true) => self.judge_error(message),
            _ => Verdict::one("a response", "J-4: either a result or an error".to_owned()),
        }
    }

    /// Judges a request or notification of the host.
    fn judge_own(&self, message: &Value) -> Verdict {
        let method = message["method"].as_str().unwrap_or_default();
        let request = message.get("id").is_some();
        let union = if request { "ServerRequest" } else { "ServerNotification" };
        let Some(definition) = self.schema.sessions.of_method(union, method) else {
            return Verdict::one(method, "no such message goes from a server to a client".to_owned());
        };
        let mut problems = self.schema.sessions.problems(definition, message);
        if request {
            problems.extend(self.negotiated.misses(message));
            // A repetition on a resumed stream is the same request.
            if self.asking.get(&message["id"].to_string()).is_some_and(|earlier| earlier != message) {
                problems.push("J-2: the id was that of another request".to_owned());
            }
        } else {
            problems.extend(self.negotiated.undeclared(method));
            problems.extend(rules::of_notification(message));
        }
        Verdict { taken_for: definition.to_owned(), problems }
    }

    fn judge_result(&self, message: &Value) -> Verdict {
        let asked = message.get("id").and_then(|id| self.asked.get(&id.to_string()));
        let Some(Asked { method, params }) = asked else {
            return Verdict::one("a result", "J-3: it answers no request".to_owned());
        };
        let result = &message["result"];
        let augmented = params["task"].is_object() && self.negotiated.makes_tasks(result);
        let definition = match method.as_str() {
            // Nothing else, even if the work has already ended (T-9, T-14).
            "tools/call" if augmented => Some("CreateTaskResult".to_owned()),
            // All tasks here come from `tools/call` (T-25).
            "tasks/result" => Some("CallToolResult".to_owned()),
            method => self.schema.sessions.of_result(method),
        };
        let Some(definition) = definition else {
            return Verdict::one("a result", format!("no client's request is called {method}"));
        };
        let mut problems = self.schema.sessions.problems("JSONRPCResultResponse", message);
        problems.extend(self.schema.sessions.problems(&definition, result));
        problems.extend(rules::of_result(&definition, params, result));
        Verdict { taken_for: definition, problems }
    }

    fn judge_error(&self, message: &Value) -> Verdict {
        let definition = match message["error"]["code"].as_i64() {
            Some(-32042) => "URLElicitationRequiredError",
            _ => "JSONRPCErrorResponse",
        };
        let mut problems = self.schema.sessions.problems(definition, message);
        problems.extend(rules::of_error(message));
        Verdict { taken_for: definition.to_owned(), problems }
    }
}

impl Verdict {
    fn one(taken_for: &str, problem: String) -> Self {
        Self { taken_for: taken_for.to_owned(), problems: vec![problem] }
    }
}
