//! The arguments of each tool.

use schemars::JsonSchema;
use serde::Deserialize;

/// A day, which outlasts every limit of a host.
const LONGEST_MS: u64 = 86_400_000;

/// All a 32-bit guest could ever address.
const MOST_MIB: u32 = 4_096;

/// Of `echo`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Text {
    /// The text to return.
    pub text: String,
}

/// Of `wait` and `spin`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Duration {
    /// How long, in milliseconds.
    #[schemars(range(min = 0, max = LONGEST_MS))]
    pub ms: u64,
}

/// Of `fail`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Failure {
    /// What the failure says.
    pub message: String,
}

/// Of `protocol_error`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProtocolError {
    /// The JSON-RPC error code, such as -32000.
    pub code: i32,
    /// The message of the error.
    pub message: String,
}

/// Of `count` and `batch`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Steps {
    /// How far to count.
    #[schemars(range(min = 0, max = 1_000_000))]
    pub steps: u32,
    /// How long to sleep before each step, in milliseconds.
    #[schemars(range(min = 0, max = LONGEST_MS))]
    pub ms: u64,
}

/// Of `ask` and `confirm`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Question {
    /// What to ask.
    pub question: String,
}

/// Of `grow` and `flood`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Size {
    /// How much, in MiB.
    #[schemars(range(min = 0, max = MOST_MIB))]
    pub mib: u32,
}
