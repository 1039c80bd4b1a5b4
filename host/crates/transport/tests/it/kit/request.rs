//! Requests as clients of 2026-07-28 write them.

use serde_json::{Value, json};
use toolyard_protocol::stateless::{META_CAPABILITIES, META_VERSION, TASKS, VERSION};

/// The capabilities of a client that supports tasks and forms.
pub fn able() -> Value {
    json!({"elicitation": {}, "extensions": {TASKS: {}}})
}

/// A request of a client with these capabilities.
pub fn request(id: Value, method: &str, mut params: Value, capabilities: &Value) -> Value {
    params["_meta"][META_VERSION] = VERSION.into();
    params["_meta"][META_CAPABILITIES] = capabilities.clone();
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}
