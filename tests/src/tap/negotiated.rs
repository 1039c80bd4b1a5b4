//! The declared capabilities of both sides; neither may use more (L-6).

use serde_json::Value;

/// The outcome of `initialize`.
#[derive(Default)]
pub(super) struct Negotiated {
    /// `None` before `initialize`.
    pub revision: Option<String>,
    client: Value,
    server: Value,
}

impl Negotiated {
    /// Records the params and the result of `initialize`.
    pub fn learn(&mut self, params: &Value, result: &Value) {
        self.revision = result["protocolVersion"].as_str().map(str::to_owned);
        self.client = params["capabilities"].clone();
        self.server = result["capabilities"].clone();
    }

    /// Whether a call that asks for a task gets one, as far as the tap knows.
    pub fn makes_tasks(&self, result: &Value) -> bool {
        match self.revision {
            Some(_) => self.server.pointer("/tasks/requests/tools/call").is_some(),
            None => result.get("task").is_some(),
        }
    }

    /// The capabilities that a request to the client needs and the client has not declared.
    pub fn misses(&self, request: &Value) -> Vec<String> {
        // The tap did not observe the beginning of this session.
        if self.revision.is_none() {
            return Vec::new();
        }
        let (method, params) = (request["method"].as_str().unwrap_or_default(), &request["params"]);
        let mut needed = needed(&self.client, method, params);
        match method {
            "tasks/list" => needed.push("/tasks/list"),
            "tasks/cancel" => needed.push("/tasks/cancel"),
            "tasks/get" | "tasks/result" => needed.push("/tasks/requests"),
            _ => {}
        }
        if params.get("task").is_some() {
            needed.push(match method {
                "elicitation/create" => "/tasks/requests/elicitation/create",
                _ => "/tasks/requests/sampling/createMessage",
            });
        }
        let missing = needed.into_iter().filter(|needed| self.client.pointer(needed).is_none());
        missing.map(|missing| format!("L-6: {method}, but the client declared no {missing}")).collect()
    }

    /// The capability that a notification needs and the host has not declared.
    pub fn undeclared(&self, method: &str) -> Option<String> {
        self.revision.as_ref()?;
        let needed = match method {
            "notifications/message" => "/logging",
            "notifications/tools/list_changed" => "/tools/listChanged",
            "notifications/prompts/list_changed" => "/prompts/listChanged",
            "notifications/resources/list_changed" => "/resources/listChanged",
            "notifications/resources/updated" => "/resources/subscribe",
            "notifications/tasks/status" => "/tasks",
            _ => return None,
        };
        let declared = self.server.pointer(needed).is_some_and(|value| *value != Value::Bool(false));
        (!declared).then(|| format!("L-6: {method}, but the host declared no {needed}"))
    }
}

/// The capabilities that this request needs, for a client that has declared `client`.
pub(super) fn needed(client: &Value, method: &str, params: &Value) -> Vec<&'static str> {
    let mut needed = Vec::new();
    match method {
        "elicitation/create" if params["mode"] == "url" => needed.push("/elicitation/url"),
        // A client that declares another mode must declare `form` too (E-1).
        "elicitation/create" if client["elicitation"].get("url").is_some() => {
            needed.push("/elicitation/form");
        }
        "elicitation/create" => needed.push("/elicitation"),
        "sampling/createMessage" => {
            needed.push("/sampling");
            if params.get("tools").is_some() || params.get("toolChoice").is_some() {
                needed.push("/sampling/tools");
            }
            if params.get("includeContext").is_some_and(|context| context != "none") {
                needed.push("/sampling/context");
            }
        }
        "roots/list" => needed.push("/roots"),
        _ => {}
    }
    needed
}
