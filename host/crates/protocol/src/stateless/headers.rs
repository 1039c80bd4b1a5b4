//! The HTTP headers that repeat a body, as values; the transport compares them (26H-3 to 26H-5).

use super::error::header_mismatch;
use crate::error::RpcError;
use crate::members::last;
use crate::method::Method;
use crate::raw::RawJson;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::borrow::Cow;

/// The value of a header: without the spaces and tabs around it, and decoded if it has the form
/// `=?base64?…?=` (26H-4, 26H-5). Any other text is literal, even if it only begins like that form.
///
/// # Errors
/// `-32020` if it has that form, and its content is not padded base64 of UTF-8.
pub fn value(raw: &str) -> Result<Cow<'_, str>, RpcError> {
    let raw = raw.trim_matches([' ', '\t']);
    let Some(inside) = raw.strip_prefix("=?base64?").and_then(|rest| rest.strip_suffix("?=")) else {
        return Ok(Cow::Borrowed(raw));
    };
    let bytes = STANDARD
        .decode(inside)
        .map_err(|_| header_mismatch("A header value is marked as base64, but is not valid base64"))?;
    String::from_utf8(bytes)
        .map(Cow::Owned)
        .map_err(|_| header_mismatch("A header value is marked as base64, but is not the base64 of UTF-8"))
}

/// The required value of `Mcp-Name` for this request; `None` if the body lacks the name, so that the
/// params are at fault (26H-7).
#[must_use]
pub fn name_of(method: &Method, params: Option<&RawJson>) -> Option<String> {
    let member = method.name_member()?;
    serde_json::from_str(last(params?.as_str(), member.as_str())?.get()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 26H-4, 26H-5: surrounding spaces and tabs are removed, and only the marked form is decoded.
    #[test]
    fn a_value_is_literal_unless_it_is_marked_as_base64() {
        for (raw, expected) in [
            (" \t echo\t ", "echo"),
            (" \t", ""),
            ("=?base64?SGVsbG8=?=", "Hello"),
            ("\t=?base64?SGVsbG8=?= ", "Hello"),
            ("=?base64?w6nwn5iA?=", "é😀"),
            ("=?base64??=", ""),
            ("=?base64?IGEg?=", " a "),
            ("=?base64?PT9iYXNlNjQ/YT89?=", "=?base64?a?="),
        ] {
            assert_eq!(value(raw).expect(raw), expected, "{raw:?}");
        }
        // Most of these are only similar to the marked form.
        let literals = "tools/call SGVsbG8= =?base64?SGVsbG8= SGVsbG8=?= =?base64?= =?base64? \
                        =?BASE64?SGVsbG8=?= =?Base64?SGVsbG8=?= =?utf-8?SGVsbG8=?= x=?base64?SGVsbG8=?= é \u{a0}a\u{a0}";
        for literal in literals.split(' ').chain(["", "a b"]) {
            assert_eq!(value(literal).expect(literal), literal);
        }
    }

    /// 26H-5: bad base64, bad padding, and text that is not UTF-8.
    #[test]
    fn a_marked_value_that_cannot_be_decoded_is_a_mismatch() {
        let malformed = "SGVsbG8 SGVsbG8== SGVs!!!bG8= = ==== A SGVsbG9= SGVsbG8=? _-8= é /w== 7aCA";
        for inside in malformed.split(' ').chain(["SGVs bG8=", "SGVsbG8=\n"]) {
            let error = value(&format!("=?base64?{inside}?=")).expect_err(inside);
            assert_eq!(error.code, -32020, "{inside}");
        }
    }

    /// 26H-3, 26T-26: the member that each method repeats.
    #[test]
    fn the_name_is_that_of_the_tool_the_prompt_the_resource_or_the_task() {
        let params = RawJson::trusted(r#"{"name":"n","uri":"a:b","taskId":"t"}"#);
        for (methods, name) in [
            ("tools/call prompts/get", Some("n")),
            ("resources/read", Some("a:b")),
            ("tasks/get tasks/update tasks/cancel", Some("t")),
            ("tasks/result tools/list server/discover subscriptions/listen Tools/call ", None),
        ] {
            for method in methods.split(' ') {
                assert_eq!(name_of(&Method::from(method), Some(&params)).as_deref(), name, "{method}");
            }
        }
    }

    /// 26H-7: if the body names nothing, its params are at fault.
    #[test]
    fn a_body_without_a_name_has_none_to_repeat() {
        assert_eq!(name_of(&Method::ToolsCall, None), None);
        for params in ["{}", r#"{"name":null}"#, r#"{"name":5}"#, r#"{"uri":"x"}"#, r#"{"name":"\ud800"}"#] {
            assert_eq!(name_of(&Method::ToolsCall, Some(&RawJson::trusted(params))), None, "{params}");
        }
        let escaped = RawJson::trusted(r#"{"n\u0061me":"\u00e9\/"}"#);
        assert_eq!(name_of(&Method::ToolsCall, Some(&escaped)).as_deref(), Some("é/"));
    }
}
