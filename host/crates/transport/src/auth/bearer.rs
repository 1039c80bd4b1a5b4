//! The `Authorization` header (RFC 6750, section 2.1).

use http::HeaderMap;
use http::header::AUTHORIZATION;

/// The longest token, in bytes. Issuers put groups and roles into their tokens, and many proxies refuse headers
/// that are larger.
const MAX_TOKEN_BYTES: usize = 8 << 10;

/// There is an `Authorization` header, but it cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the Authorization header is malformed")]
pub struct Malformed;

/// The bearer token of a request. `None` if there is none. Credentials of another scheme count as none: in
/// both cases the answer says how to authenticate (RFC 6750, section 3.1).
///
/// # Errors
/// [`Malformed`], also if the token is longer than 8 KiB.
pub fn bearer(headers: &HeaderMap) -> Result<Option<&str>, Malformed> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let Some(value) = values.next() else { return Ok(None) };
    // There are two headers: a proxy in front may have checked the other one.
    if values.next().is_some() {
        return Err(Malformed);
    }
    let text = value.to_str().map_err(|_| Malformed)?;
    let (scheme, rest) = text.split_once(' ').unwrap_or((text, ""));
    if scheme.is_empty() || !scheme.bytes().all(is_token) {
        return Err(Malformed);
    }
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Ok(None);
    }
    let token = rest.trim_start_matches(' ');
    if token.len() <= MAX_TOKEN_BYTES && is_token68(token) { Ok(Some(token)) } else { Err(Malformed) }
}

/// Whether the byte may occur in a `token` of RFC 9110.
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

fn is_token68(token: &str) -> bool {
    let body = token.trim_end_matches('=');
    !body.is_empty() && body.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~+/".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn read(values: &[&str]) -> Result<Option<String>, Malformed> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(AUTHORIZATION, HeaderValue::from_bytes(value.as_bytes()).expect("a header"));
        }
        bearer(&headers).map(|token| token.map(str::to_owned))
    }

    #[test]
    fn a_5_a_bearer_token_is_read_and_other_schemes_are_none() {
        for value in ["Bearer abc.d_e-f", "bearer abc.d_e-f", "BEARER   abc.d_e-f"] {
            assert_eq!(read(&[value]), Ok(Some("abc.d_e-f".to_owned())), "{value}");
        }
        assert_eq!(read(&["Bearer a+/~=="]), Ok(Some("a+/~==".to_owned())));
        for values in [&[][..], &["Basic dXNlcg=="], &["Bearerabc"], &["Digest a=b, c=d"], &["abc"]] {
            assert_eq!(read(values), Ok(None), "{values:?}");
        }
    }

    #[test]
    fn a_3_what_is_malformed_is_told_apart_from_nothing() {
        let one = "|Bearer|Bearer |Bearer ==|Bearer a b|Bearer a,b|Bearer a=b|Bearer\ta|Bearer \ta\
                   |Bearer \"a\"|Bearer \u{e9}| Bearer a";
        for value in one.split('|') {
            assert_eq!(read(&[value]), Err(Malformed), "{value:?}");
        }
        let longest = "a".repeat(MAX_TOKEN_BYTES);
        assert_eq!(read(&[&format!("Bearer {longest}a")]), Err(Malformed));
        assert_eq!(read(&[&format!("Bearer {longest}")]), Ok(Some(longest)));
        for values in [["Bearer a", "Bearer a"], ["Basic a", "Bearer a"]] {
            assert_eq!(read(&values), Err(Malformed), "{values:?}");
        }
    }
}
