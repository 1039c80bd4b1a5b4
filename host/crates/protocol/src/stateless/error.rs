//! The error codes of this generation, and how errors of guests are shown in it
//! (26J-7).

use super::{TASKS, VERSION};
use crate::error::{
    INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, PARSE_ERROR, RpcError,
};
use crate::raw::RawJson;
use crate::resources::RESOURCE_NOT_FOUND;
use crate::visible::clip;
use serde_json::{Value, json};

/// A header is missing, or differs from the body (26H-4).
pub const HEADER_MISMATCH: i32 = -32020;
/// The client has not declared what this request needs (26R-4).
pub const MISSING_CAPABILITY: i32 = -32021;
/// The version is not served in this way (26R-3).
pub const UNSUPPORTED_VERSION: i32 = -32022;

/// The codes that belong to JSON-RPC and to MCP; a guest's own codes are outside.
const RESERVED: std::ops::RangeInclusive<i32> = -32768..=-32000;

/// `-32020` with a sentence about the header.
#[must_use]
pub fn header_mismatch(what: impl Into<String>) -> RpcError {
    RpcError::new(HEADER_MISMATCH, what)
}

/// `-32021` for these `ClientCapabilities`, an object (26R-4).
#[must_use]
pub fn missing_capability(required: &Value) -> RpcError {
    RpcError::new(MISSING_CAPABILITY, "Missing required client capability")
        .with_data(&json!({"requiredCapabilities": required}))
}

/// `-32021` for the tasks extension (26T-4, 26T-6).
#[must_use]
pub fn tasks_required() -> RpcError {
    missing_capability(&json!({"extensions": {TASKS: {}}}))
}

/// `-32022` for a request that claims another version (26R-3). Only versions that can be claimed are
/// listed: those that begin with `initialize` cannot (26D-5).
#[must_use]
pub fn unsupported_version(requested: &str) -> RpcError {
    RpcError::new(UNSUPPORTED_VERSION, "Unsupported protocol version")
        .with_data(&json!({"supported": [VERSION], "requested": clip(requested, 100)}))
}

/// An error as this generation shows it (26J-7). A guest that knows nothing of it
/// may give codes that belong to the protocol: those keep their number in the data,
/// and `-32002` becomes the code that took its place.
#[must_use]
pub fn shown(mut error: RpcError) -> RpcError {
    match error.code {
        PARSE_ERROR | INVALID_REQUEST | METHOD_NOT_FOUND | INVALID_PARAMS | INTERNAL_ERROR => error,
        RESOURCE_NOT_FOUND => {
            error.code = INVALID_PARAMS;
            error
        }
        MISSING_CAPABILITY if names_capabilities(&error) => error,
        code if RESERVED.contains(&code) => {
            let data = match error.data {
                Some(data) => format!("{{\"guestCode\":{code},\"guestData\":{}}}", data.as_str()),
                None => format!("{{\"guestCode\":{code}}}"),
            };
            RpcError { code: INTERNAL_ERROR, message: error.message, data: Some(RawJson::trusted(data)) }
        }
        _ => error,
    }
}

/// Whether `data.requiredCapabilities` is the object that `-32021` must have.
fn names_capabilities(error: &RpcError) -> bool {
    let Some(data) = error.data.as_ref().filter(|data| data.is_object()) else { return false };
    crate::members::last(data.as_str(), "requiredCapabilities")
        .is_some_and(|required| required.get().starts_with('{'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(error: &RpcError) -> Value {
        error.data.as_ref().map_or(Value::Null, |data| data.decode().expect("JSON"))
    }

    /// 26R-3, 26R-4, 26D-4, 26X-5, 26X-12: the codes and the data of these errors.
    #[test]
    fn the_three_errors_carry_what_the_schema_wants() {
        let version = unsupported_version("1900-01-01");
        assert_eq!(version.code, -32022);
        assert_eq!(data(&version), json!({"supported": ["2026-07-28"], "requested": "1900-01-01"}));
        assert_eq!(data(&unsupported_version(""))["requested"], "");
        let long = unsupported_version(&"é".repeat(100_000));
        assert!(long.data.expect("data").as_bytes().len() < 400, "what came is not said again in full");
        let form = missing_capability(&json!({"elicitation": {"form": {}}}));
        assert_eq!(form.code, -32021);
        assert_eq!(data(&form), json!({"requiredCapabilities": {"elicitation": {"form": {}}}}));
        assert_eq!(
            data(&tasks_required()),
            json!({"requiredCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}}})
        );
        assert_eq!(header_mismatch("x").code, -32020);
    }

    /// 26J-7: codes of JSON-RPC and a guest's own codes pass; those that belong to the protocol do not.
    #[test]
    fn only_codes_that_a_guest_may_give_are_shown() {
        for code in (-32603..=-32600).chain([-32700, 0, 1, -1, 403, i32::MAX, i32::MIN, -32769, -31999]) {
            let error = RpcError::new(code, "m").with_data(&json!({"a": 1}));
            assert_eq!(shown(error.clone()), error);
        }
        for code in [-32768, -32000, -32001, -32019, -32020, -32021, -32022, -32042, -32099, -32604, -32699] {
            let bare = shown(RpcError::new(code, "m"));
            assert_eq!((bare.code, bare.message.as_str()), (-32603, "m"), "{code}");
            assert_eq!(data(&bare), json!({"guestCode": code}));
            let with_data = shown(RpcError::new(code, "m").with_data(&json!([{"a": "b"}])));
            assert_eq!(data(&with_data), json!({"guestCode": code, "guestData": [{"a": "b"}]}));
        }
        let not_found = RpcError::new(-32002, "Resource not found").with_data(&json!({"uri": "a:b"}));
        let now = shown(not_found.clone());
        assert_eq!((now.code, &now.data), (-32602, &not_found.data), "-32002 is -32602 now");
    }

    /// 26R-4, 26J-7: a guest may say which capability it lacks, in the right form.
    #[test]
    fn a_missing_capability_passes_if_it_names_one() {
        let says = |data: &Value| shown(RpcError::new(-32021, "m").with_data(data)).code;
        assert_eq!(says(&json!({"requiredCapabilities": {"sampling": {}}})), -32021);
        let malformed = [json!(null), json!(["sampling"]), json!("sampling")];
        let malformed = malformed.map(|value| json!({"requiredCapabilities": value}));
        let none = [json!({}), json!([]), json!(null), json!({"x": {"requiredCapabilities": {}}})];
        for data in malformed.iter().chain(&none) {
            assert_eq!(says(data), -32603, "{data}");
        }
    }
}
