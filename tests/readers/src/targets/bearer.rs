//! The `Authorization` header: an accepted token is valid, and was the only one.

use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderValue};
use toolyard_transport::auth::bearer;

/// Each line is a header.
pub(super) fn check(data: &[u8]) {
    let mut headers = HeaderMap::new();
    for line in data.split(|byte| *byte == b'\n') {
        if let Ok(value) = HeaderValue::from_bytes(line) {
            headers.append(AUTHORIZATION, value);
        }
    }
    let count = headers.get_all(AUTHORIZATION).iter().count();
    match bearer(&headers) {
        Ok(Some(token)) => {
            assert!(count == 1 && !token.is_empty(), "{token:?}");
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte);
            assert!(token.bytes().all(plain), "{token:?}");
            let again = HeaderValue::from_str(&format!("Bearer {token}")).expect("it was one");
            let token = token.to_owned();
            headers.insert(AUTHORIZATION, again);
            assert_eq!(bearer(&headers), Ok(Some(token.as_str())));
        }
        Ok(None) => assert!(count <= 1, "two headers are never ignored"),
        Err(_) => assert!(count >= 1, "nothing is never malformed"),
    }
}
