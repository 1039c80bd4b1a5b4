//! Messages without sessions (2026-07-28): each request is self-contained, and each message of the host
//! belongs to one of them.

mod definitions;
mod errors;
mod rules;
#[cfg(test)]
mod tests;

use super::Verdict;
use crate::schema::Schema;
use crate::stateless::key;
use serde_json::Value;
use std::collections::HashMap;

/// The self-contained requests, by their ids as JSON.
#[derive(Default)]
pub(super) struct Stateless {
    calls: HashMap<String, Call>,
    /// The HTTP status of the message, if it is the only one of its response.
    pub status: Option<u16>,
}

/// A request, and the messages to it so far.
struct Call {
    id: Value,
    method: String,
    params: Value,
    /// The latest progress.
    progress: Option<f64>,
    /// The granted notifications, if it is an acknowledged listen request.
    granted: Option<Value>,
    answered: bool,
}

/// Whether a message is self-contained: the claims in its body decide (26B).
pub(super) fn is_claimed_by(message: &Value) -> bool {
    let meta = &message["params"]["_meta"];
    match message["method"].as_str() {
        // Without a complete envelope it is the old handshake (26B-1).
        Some("initialize") => meta[key::VERSION].is_string() && meta[key::CAPABILITIES].is_object(),
        Some(_) => meta.get(key::VERSION).is_some(),
        None => false,
    }
}

/// As [`is_claimed_by`], for a body.
pub(super) fn is_claimed_in(body: &[u8]) -> bool {
    serde_json::from_slice(body).is_ok_and(|message| is_claimed_by(&message))
}

impl Stateless {
    /// Records a request of the client.
    pub fn asked(&mut self, id: &Value, method: &str, params: &Value) {
        let (method, params) = (method.to_owned(), params.clone());
        let call = Call { id: id.clone(), method, params, progress: None, granted: None, answered: false };
        self.calls.insert(id.to_string(), call);
    }

    /// Forgets a request whose id another request has taken.
    pub fn forget(&mut self, id: &Value) {
        self.calls.remove(&id.to_string());
    }

    /// Judges a message of the host; `None` if it belongs to none of these requests. With `alone`, it can
    /// belong to no other kind of request.
    pub fn judge(&mut self, schema: &Schema, message: &Value, alone: bool) -> Option<Verdict> {
        let alone = alone && !self.calls.is_empty();
        let Some(method) = message["method"].as_str() else {
            return self.judge_response(schema, message, alone);
        };
        if message.get("id").is_some() {
            let problem = || "26J-1: only clients send requests".to_owned();
            return alone.then(|| Verdict::one(method, problem()));
        }
        let params = &message["params"];
        let call = match params["_meta"].get(key::SUBSCRIPTION) {
            Some(id) => self.calls.get_mut(&id.to_string()),
            None => self.calls.values_mut().find(|call| call.is_notified_by(method, params)),
        };
        match call {
            Some(call) => Some(call.judge_notification(schema, method, message)),
            None => alone.then(|| Verdict::one(method, rules::unwanted(method, params))),
        }
    }

    fn judge_response(&mut self, schema: &Schema, message: &Value, alone: bool) -> Option<Verdict> {
        let status = self.status;
        let Some(call) = message.get("id").and_then(|id| self.calls.get_mut(&id.to_string())) else {
            // The error for an unreadable request has no id to echo.
            return alone.then(|| errors::without_id(schema, message));
        };
        let mut verdict = match (message.get("result"), message.get("error")) {
            (Some(result), None) => call.judge_result(schema, message, result),
            (None, Some(error)) => errors::of_call(schema, message, error, status),
            _ => Verdict::one("a response", "J-4: either a result or an error".to_owned()),
        };
        if call.answered {
            verdict.problems.push("26J-3: a second answer".to_owned());
        }
        call.answered = true;
        Some(verdict)
    }
}

impl Call {
    fn is_notified_by(&self, method: &str, params: &Value) -> bool {
        let meta = &self.params["_meta"];
        match method {
            "notifications/progress" => {
                meta.get("progressToken").is_some_and(|token| *token == params["progressToken"])
            }
            "notifications/message" => {
                let (asked, level) = (meta[key::LOG_LEVEL].as_str(), params["level"].as_str());
                !self.answered && rules::is_at_least(level, asked)
            }
            _ => false,
        }
    }

    fn judge_notification(&mut self, schema: &Schema, method: &str, message: &Value) -> Verdict {
        let Some(definition) = definitions::of_notification(schema, method) else {
            return Verdict::one(method, "no such message goes from a server to a client".to_owned());
        };
        let mut problems = definition.problems(message);
        let params = &message["params"];
        if self.answered {
            problems.push(format!("26C-3: {method} after the answer"));
        }
        if self.method == "subscriptions/listen" {
            problems.extend(self.judge_told(schema, method, params));
        } else if params["_meta"].get(key::SUBSCRIPTION).is_some() {
            problems.push("26SUB-3: the request it names does not listen".to_owned());
        } else if method == "notifications/progress" {
            let progress = params["progress"].as_f64();
            if progress <= self.progress {
                problems.push("26C-3: progress does not rise".to_owned());
            }
            self.progress = progress;
        }
        Verdict { taken_for: definition.name, problems }
    }

    /// The problems of a message on a listen stream.
    fn judge_told(&mut self, schema: &Schema, method: &str, params: &Value) -> Vec<String> {
        let mut problems = Vec::new();
        if params["_meta"][key::SUBSCRIPTION] != self.id {
            problems.push("26SUB-3: it does not name its subscription".to_owned());
        }
        match (&self.granted, method) {
            (None, "notifications/subscriptions/acknowledged") => {
                let granted = &params["notifications"];
                problems.extend(rules::beyond(granted, &self.params["notifications"]));
                self.granted = Some(granted.clone());
            }
            (Some(_), "notifications/subscriptions/acknowledged") => {
                problems.push("26SUB-2: acknowledged twice".to_owned());
            }
            (None, _) => problems.push(format!("26SUB-2: {method} before the acknowledgement")),
            (Some(granted), _) => {
                if !rules::is_granted(granted, method, params) {
                    problems.push(format!("26SUB-2: {method} was not granted"));
                }
                if method == "notifications/tasks" {
                    // 26T-23: the same content as in `tasks/get`.
                    problems.extend(rules::of_detailed_task(schema, params, &self.params["_meta"]));
                }
            }
        }
        problems
    }

    fn judge_result(&self, schema: &Schema, message: &Value, result: &Value) -> Verdict {
        let Some(definition) = definitions::of_result(schema, &self.method, result) else {
            let (method, kind) = (&self.method, &result["resultType"]);
            return Verdict::one("a result", format!("26J-4: {method} has no result of the type {kind}"));
        };
        let mut problems = schema.stateless.problems("JSONRPCResultResponse", message);
        problems.extend(definition.problems(result));
        problems.extend(rules::of_any_result(&definition.name, result));
        problems.extend(rules::of_result(schema, &definition.name, &self.params, result));
        if self.method == "subscriptions/listen" {
            if self.granted.is_none() {
                problems.push("26SUB-2: ended before the acknowledgement".to_owned());
            }
            if result["_meta"][key::SUBSCRIPTION] != self.id {
                problems.push("26SUB-5: the end does not name its subscription".to_owned());
            }
        }
        Verdict { taken_for: definition.name, problems }
    }
}
