//! Converts values between guests and MCP: arguments in, results and errors out.

pub(crate) mod encode;
pub(crate) mod form;
pub(crate) mod guest_error;
pub(crate) mod guest_input;
pub(crate) mod typed;
