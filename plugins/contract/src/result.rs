//! Making results and messages.

use serde_json::Value;

use crate::prompts::{Message, Role};
use crate::{Content, TextBlock, ToolResult};

/// One block of text.
pub fn block(text: impl Into<String>) -> Content {
    Content::Text(TextBlock { text: text.into(), annotations: None, meta: None })
}

/// A result that is one text.
pub fn text(text: impl Into<String>) -> ToolResult {
    ToolResult { content: vec![block(text)], structured_content: None, is_error: false, meta: None }
}

/// A failure of the tool's own work, for the model to read.
pub fn failure(message: impl Into<String>) -> ToolResult {
    ToolResult { is_error: true, ..text(message) }
}

/// A result for programs, with the same as text for whoever cannot read it.
pub fn structured(readable: impl Into<String>, value: &Value) -> ToolResult {
    ToolResult { structured_content: Some(value.to_string()), ..text(readable) }
}

/// A message of the user.
pub fn from_user(content: Content) -> Message {
    Message { role: Role::User, content }
}
