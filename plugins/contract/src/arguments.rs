//! Reading the arguments of a call.

use serde::de::DeserializeOwned;

use crate::{CallError, RpcError};

/// JSON-RPC: the arguments are not what the tool takes.
pub const INVALID_PARAMS: i32 = -32602;

/// Reads the arguments into a type of the tool's own. The host has checked them
/// against the input schema, so an error here means that schema and type differ.
pub fn read<T: DeserializeOwned>(arguments: &str) -> Result<T, CallError> {
    serde_json::from_str(arguments).map_err(|error| invalid(format!("The arguments do not fit: {error}.")))
}

/// The answer to a call of a tool that the component never listed.
pub fn unknown_tool(name: &str) -> CallError {
    invalid(format!("There is no tool named {name} here."))
}

/// The error for params that do not fit.
pub fn invalid_params(message: impl Into<String>) -> RpcError {
    RpcError { code: INVALID_PARAMS, message: message.into(), data: None }
}

fn invalid(message: String) -> CallError {
    CallError::Rpc(invalid_params(message))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(error: CallError) -> String {
        match error {
            CallError::Rpc(error) => {
                assert_eq!(error.code, INVALID_PARAMS);
                error.message
            }
            CallError::MissingCapability(json) => panic!("an rpc error, not {json}"),
        }
    }

    #[test]
    fn reads_what_fits() {
        assert_eq!(read::<Vec<u8>>("[1, 2]").ok(), Some(vec![1, 2]));
    }

    #[test]
    fn says_what_does_not_fit() {
        let error = read::<Vec<u8>>("[300]").expect_err("300 is no byte");
        assert!(message(error).contains("300"));
    }

    #[test]
    fn names_the_unknown_tool() {
        assert!(message(unknown_tool("nix")).contains("nix"));
    }
}
