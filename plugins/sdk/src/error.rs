//! Errors of a call: a tool error, which the model reads, or a request error.

use std::fmt::{self, Display};

use serde_json::Value;

use crate::raw;

/// JSON-RPC: the arguments are invalid.
pub const INVALID_PARAMS: i32 = -32602;

/// The reason why a call has no result. `?` converts any [`std::error::Error`] to a tool error, whose message
/// includes those of its sources.
///
/// It does not implement [`std::error::Error`] itself, because that would conflict with this conversion.
pub struct Error(Box<Kind>);

enum Kind {
    Tool(String),
    Protocol(raw::RpcError),
    MissingCapability(Value),
}

impl Error {
    /// A tool error: a result that is marked as an error. The model reads the message and may correct its
    /// call, so say what would help.
    pub fn new(message: impl Display) -> Self {
        Self(Box::new(Kind::Tool(message.to_string())))
    }

    /// A request error: a JSON-RPC error with this code, and no result.
    pub fn protocol(code: i32, message: impl Display) -> Self {
        Self(Box::new(Kind::Protocol(raw::RpcError { code, message: message.to_string(), data: None })))
    }

    /// [`Error::protocol`] with the code for arguments that fit the schema but are invalid.
    pub fn invalid_params(message: impl Display) -> Self {
        Self::protocol(INVALID_PARAMS, message)
    }

    /// The client lacks a capability that the call needs. `capability` has the shape of MCP
    /// `ClientCapabilities`, such as `{"sampling": {}}`.
    pub fn missing_capability(capability: Value) -> Self {
        Self(Box::new(Kind::MissingCapability(capability)))
    }

    /// The call is being cancelled.
    pub fn cancelled() -> Self {
        Self::new("The call is being stopped.")
    }

    /// Adds `data` to a JSON-RPC error. Other errors stay unchanged.
    pub fn with_data(mut self, data: Value) -> Self {
        if let Kind::Protocol(error) = &mut *self.0 {
            error.data = Some(data.to_string());
        }
        self
    }

    /// Puts a description of the failed operation before the message.
    pub fn context(mut self, what: impl Display) -> Self {
        match &mut *self.0 {
            Kind::Tool(message) => *message = format!("{what}: {message}"),
            Kind::Protocol(error) => error.message = format!("{what}: {}", error.message),
            Kind::MissingCapability(_) => {}
        }
        self
    }

    /// The outcome for the host.
    pub fn into_outcome(self) -> Result<raw::ToolResult, raw::CallError> {
        match *self.0 {
            Kind::Tool(message) => Ok(crate::ToolResult::failure(message).into_raw()),
            Kind::Protocol(error) => Err(raw::CallError::Rpc(error)),
            Kind::MissingCapability(what) => Err(raw::CallError::MissingCapability(what.to_string())),
        }
    }
}

impl<E: std::error::Error> From<E> for Error {
    fn from(error: E) -> Self {
        let mut message = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            let cause_text = cause.to_string();
            // Many errors already include their source in their message.
            if !message.contains(&cause_text) {
                message.push_str(": ");
                message.push_str(&cause_text);
            }
            source = cause.source();
        }
        Self::new(message)
    }
}

impl Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.0 {
            Kind::Tool(message) => f.write_str(message),
            Kind::Protocol(error) => write!(f, "{} ({})", error.message, error.code),
            Kind::MissingCapability(what) => write!(f, "the client lacks {what}"),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Display::fmt(self, f)
    }
}

/// `.context("reading the table")?`: adds the operation that failed to an error.
pub trait Context<T> {
    /// The value, or an error that begins with `what`.
    fn context(self, what: impl Display) -> Result<T, Error>;
}

impl<T, E: Into<Error>> Context<T> for Result<T, E> {
    fn context(self, what: impl Display) -> Result<T, Error> {
        self.map_err(|error| error.into().context(what))
    }
}

impl<T> Context<T> for Option<T> {
    fn context(self, what: impl Display) -> Result<T, Error> {
        self.ok_or_else(|| Error::new(what))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn failing(text: &str) -> Result<u8, Error> {
        text.parse::<u8>().context("the number of legs")
    }

    #[test]
    fn any_error_becomes_a_failure_of_the_tool_with_what_was_done() {
        assert_eq!(failing("8").map_err(|error| error.to_string()), Ok(8));
        let failure = failing("many").map_err(Error::into_outcome).expect_err("no number");
        let Ok(result) = failure else { panic!("a result") };
        assert!(result.is_error);
        let [raw::Content::Text(block)] = &result.content[..] else { panic!("a text") };
        assert_eq!(block.text, "the number of legs: invalid digit found in string");
        assert_eq!(
            None::<u8>.context("There is none.").map_err(|error| error.to_string()),
            Err("There is none.".into())
        );
    }

    #[derive(Debug)]
    struct Outer(std::num::ParseIntError);

    impl Display for Outer {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("the table is broken")
        }
    }

    impl std::error::Error for Outer {
        fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
            Some(&self.0)
        }
    }

    #[test]
    fn sources_are_said_once() {
        let inner = "x".parse::<u8>().expect_err("no number");
        assert_eq!(
            Error::from(Outer(inner)).to_string(),
            "the table is broken: invalid digit found in string"
        );
    }

    #[test]
    fn protocol_errors_keep_code_message_and_data() {
        let error = Error::protocol(-32000, "no").with_data(json!({ "a": 1 })).context("why");
        match error.into_outcome() {
            Err(raw::CallError::Rpc(error)) => {
                assert_eq!((error.code, error.message.as_str()), (-32000, "why: no"));
                assert_eq!(error.data.as_deref(), Some("{\"a\":1}"));
            }
            _ => panic!("a protocol error"),
        }
        match Error::missing_capability(json!({ "roots": {} })).into_outcome() {
            Err(raw::CallError::MissingCapability(json)) => assert_eq!(json, "{\"roots\":{}}"),
            _ => panic!("a missing capability"),
        }
    }
}
