//! `initialize` (L-1 to L-6).

use crate::error::RpcError;
use crate::offers::Offers;
use crate::raw::RawJson;
use crate::revision::Revision;
use crate::task_filter::TaskFilter;
use serde::{Deserialize, Serialize};

/// The most bytes of a client's description of itself, and of a progress token. The host keeps them
/// with the session, or until the call ends.
pub const MAX_CLIENT_BYTES: usize = 16 << 10;

/// The error for a longer description or token.
pub(crate) fn too_long(what: &str) -> RpcError {
    RpcError::invalid_params(format!("`{what}` is longer than {MAX_CLIENT_BYTES} bytes"))
}

/// The params of `initialize`.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InitializeParams {
    /// The revision that the client requests.
    pub protocol_version: String,
    /// The capabilities of the client: an object, kept as it is.
    pub capabilities: RawJson,
    /// The name and version of the client.
    pub client_info: Implementation,
}

/// Name and version of a program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Implementation {
    /// The name for programs.
    pub name: String,
    /// The name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The version of the program.
    pub version: String,
}

impl InitializeParams {
    /// Decodes the params.
    ///
    /// # Errors
    /// `-32602` that says which member is missing or of the wrong type.
    pub fn decode(params: Option<&RawJson>) -> Result<Self, RpcError> {
        let params = params.ok_or_else(|| RpcError::invalid_params("initialize needs params"))?;
        let decoded: Self =
            params.decode().map_err(|error| RpcError::invalid_params(format!("initialize: {error}")))?;
        if !decoded.capabilities.is_object() {
            return Err(RpcError::invalid_params("initialize: `capabilities` must be an object"));
        }
        if decoded.capabilities.as_bytes().len() > MAX_CLIENT_BYTES {
            return Err(too_long("capabilities"));
        }
        let Implementation { name, title, version } = &decoded.client_info;
        if name.len() + title.as_ref().map_or(0, String::len) + version.len() > MAX_CLIENT_BYTES {
            return Err(too_long("clientInfo"));
        }
        Ok(decoded)
    }
}

/// The identity and instructions of the server.
#[derive(Debug, Clone)]
pub struct ServerIdentity {
    /// Our name and version.
    pub info: Implementation,
    /// Instructions for the model.
    pub instructions: Option<String>,
    /// Whether tasks are offered at all.
    pub tasks: bool,
}

impl ServerIdentity {
    /// The result of `initialize` for a client of this revision.
    #[must_use]
    pub fn initialize_result(&self, revision: Revision, offers: Offers) -> RawJson {
        // The capability is newer than the method.
        let completions = offers.completions && revision > Revision::V2024_11_05;
        let mut capabilities = Offers { completions, ..offers }.capabilities();
        if self.tasks && revision.has_tasks() {
            capabilities["tasks"] = serde_json::json!({
                "list": {"filter": TaskFilter::capability()},
                "cancel": {},
                "requests": {"tools": {"call": {}}},
            });
        }
        let mut result = serde_json::json!({
            "protocolVersion": revision.as_str(),
            "capabilities": capabilities,
            "serverInfo": self.info,
        });
        if let Some(instructions) = &self.instructions {
            result["instructions"] = instructions.as_str().into();
        }
        RawJson::of(&result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    /// The capabilities that a server declares.
    fn declared(tasks: bool, revision: &str, offers: Offers) -> Value {
        let info = Implementation { name: "x".into(), title: None, version: "1".into() };
        let identity = ServerIdentity { info, instructions: None, tasks };
        let result = identity.initialize_result(Revision::parse(revision).expect("is known"), offers);
        result.decode::<Value>().expect("JSON")["capabilities"].take()
    }

    #[test]
    fn f_1_filters_are_offered_by_name_where_tasks_are() {
        let expected = r#"{"list":{"filter":{"methods":["tools/call"],"taskIds":true,"status":true,
            "createdAt":{"before":true,"after":true},"lastUpdatedAt":{"before":true,"after":true},
            "order":{"by":["createdAt","lastUpdatedAt"],"direction":["asc","desc"]}}},
            "cancel":{},"requests":{"tools":{"call":{}}}}"#;
        let expected: Value = serde_json::from_str(expected).expect("JSON");
        assert_eq!(declared(true, "2025-11-25", Offers::default())["tasks"], expected);
        for (tasks, revision) in [(true, "2025-06-18"), (false, "2025-11-25")] {
            assert_eq!(declared(tasks, revision, Offers::default()).get("tasks"), None, "{tasks} {revision}");
        }
    }

    #[test]
    fn what_a_client_says_of_itself_is_bounded() {
        let params = |capabilities: &str, name: &str| {
            let text = format!(
                r#"{{"protocolVersion":"2025-11-25","capabilities":{capabilities},
                    "clientInfo":{{"name":"{name}","version":"1"}}}}"#
            );
            InitializeParams::decode(Some(&RawJson::parse(text).expect("JSON")))
        };
        let long = "x".repeat(MAX_CLIENT_BYTES);
        assert!(params("{}", "n").is_ok());
        let capabilities = format!(r#"{{"a":"{long}"}}"#);
        for (refused, member) in
            [(params(&capabilities, "n"), "capabilities"), (params("{}", &long), "clientInfo")]
        {
            let error = refused.expect_err("too long");
            assert_eq!(error.code, -32602);
            assert!(error.message.contains(&format!("`{member}` is longer than 16384")), "{error}");
        }
    }

    #[test]
    fn r_1_pr_1_co_1_g_1_what_is_offered_is_declared_and_nothing_else() {
        let none = json!({"tools": {"listChanged": true}, "logging": {}});
        assert_eq!(declared(false, "2025-11-25", Offers::default()), none);
        let mut all = none;
        all["resources"] = json!({"subscribe": true, "listChanged": true});
        all["prompts"] = json!({"listChanged": true});
        all["completions"] = json!({});
        let offers = Offers { resources: true, prompts: true, completions: true };
        assert_eq!(declared(false, "2025-11-25", offers), all);
    }
}
