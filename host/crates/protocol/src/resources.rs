//! `resources/*` (R-1 to R-8).

use crate::error::RpcError;
use crate::method::Method;
use crate::raw::RawJson;
use serde::Deserialize;

/// The resource does not exist (R-5).
pub const RESOURCE_NOT_FOUND: i32 = -32002;
/// The longest URI that is accepted, in bytes.
pub const MAX_URI_BYTES: usize = 8 << 10;

/// The `uri` of the params of `resources/read`, `subscribe` and `unsubscribe`.
///
/// # Errors
/// `-32602` if it is missing, or not an absolute URI (RFC 3986).
pub fn uri(method: &Method, params: Option<&RawJson>) -> Result<String, RpcError> {
    let Some(uri) = params.and_then(uri_of) else {
        return Err(RpcError::invalid_params(format!("{method}: `uri` is required and must be a string")));
    };
    if is_uri(&uri) {
        Ok(uri)
    } else {
        Err(RpcError::invalid_params(format!("{method}: `uri` must be an absolute URI (RFC 3986)")))
    }
}

/// Whether a text has the form of an absolute URI: a scheme, and after it only
/// characters that RFC 3986 allows, with whole percent-encodings.
#[must_use]
pub fn is_uri(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once(':') else { return false };
    let mut letters = scheme.bytes();
    let scheme_fits = letters.next().is_some_and(|first| first.is_ascii_alphabetic())
        && letters.all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'));
    scheme_fits && text.len() <= MAX_URI_BYTES && is_uri_text(rest.as_bytes())
}

fn is_uri_text(text: &[u8]) -> bool {
    let mut bytes = text.iter();
    while let Some(byte) = bytes.next() {
        let fits = match byte {
            b'%' => {
                let mut hex = || bytes.next().is_some_and(u8::is_ascii_hexdigit);
                hex() && hex()
            }
            byte => byte.is_ascii_alphanumeric() || b"-._~:/?#[]@!$&'()*+,;=".contains(byte),
        };
        if !fits {
            return false;
        }
    }
    true
}

/// The `uri` of params, or of an entry of `resources/list`.
#[must_use]
pub fn uri_of(entry: &RawJson) -> Option<String> {
    #[derive(Deserialize)]
    struct Entry {
        uri: String,
    }
    Some(entry.decode::<Entry>().ok()?.uri)
}

/// The error for a resource that does not exist (R-5).
#[must_use]
pub fn not_found(uri: &str) -> RpcError {
    RpcError::new(RESOURCE_NOT_FOUND, "Resource not found").with_data(&serde_json::json!({"uri": uri}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r_5_a_uri_has_a_scheme_and_only_characters_of_rfc_3986() {
        for uri in ["file:///a/b.md", "test://x", "notes:%20a", "urn:isbn:1", "a+b-c.d:x?y#z", "x:"] {
            assert!(is_uri(uri), "{uri}");
        }
        for other in "|a|/a/b|:a|1a:b|x:%2|x:%zz|a b:c|test://a b|x:\u{e9}|x:\n|x:\"\"".split('|') {
            assert!(!is_uri(other), "{other:?}");
        }
        assert!(!is_uri(&format!("x:{}", "a".repeat(MAX_URI_BYTES))));
        for params in ["{}", r#"{"uri":5}"#, r#"{"uri":"no scheme"}"#] {
            let error = uri(&Method::ResourcesRead, Some(&RawJson::trusted(params))).expect_err(params);
            assert_eq!(error.code, -32602);
        }
    }
}
