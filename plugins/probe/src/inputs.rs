//! The arguments of each tool, as types; `declarations` has them as schemas.

use serde::Deserialize;

/// Of `echo`.
#[derive(Deserialize)]
pub struct Text {
    pub text: String,
}

/// Of `wait` and `spin`.
#[derive(Deserialize)]
pub struct Duration {
    pub ms: u64,
}

/// Of `fail`.
#[derive(Deserialize)]
pub struct Message {
    pub message: String,
}

/// Of `protocol_error`.
#[derive(Deserialize)]
pub struct ProtocolError {
    pub code: i32,
    pub message: String,
}

/// Of `count` and `batch`.
#[derive(Deserialize)]
pub struct Steps {
    pub steps: u32,
    pub ms: u64,
}

/// Of `ask` and `confirm`.
#[derive(Deserialize)]
pub struct Question {
    pub question: String,
}

/// Of `grow` and `flood`.
#[derive(Deserialize)]
pub struct Size {
    pub mib: u32,
}
