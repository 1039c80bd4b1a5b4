//! The arguments of each tool.

use schemars::JsonSchema;
use serde::Deserialize;

/// A day, which is longer than every limit of a host.
const LONGEST_MS: u64 = 86_400_000;

/// All that a 32-bit guest can address.
const MOST_MIB: u32 = 4_096;

/// The arguments of `echo`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Text {
    /// The text to return.
    pub text: String,
}

/// The arguments of `wait` and `spin`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Duration {
    /// The duration in milliseconds.
    #[schemars(range(min = 0, max = LONGEST_MS))]
    pub ms: u64,
}

/// The arguments of `fail`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Failure {
    /// The message of the failure.
    pub message: String,
}

/// The arguments of `protocol_error`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProtocolError {
    /// The JSON-RPC error code, such as -32000.
    pub code: i32,
    /// The message of the error.
    pub message: String,
}

/// The arguments of `count` and `batch`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Steps {
    /// The number of steps.
    #[schemars(range(min = 0, max = 1_000_000))]
    pub steps: u32,
    /// The pause before each step, in milliseconds.
    #[schemars(range(min = 0, max = LONGEST_MS))]
    pub ms: u64,
}

/// The arguments of `ask` and `confirm`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Question {
    /// The question for the user.
    pub question: String,
}

/// The arguments of `grow` and `flood`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Size {
    /// The size in MiB.
    #[schemars(range(min = 0, max = MOST_MIB))]
    pub mib: u32,
}
