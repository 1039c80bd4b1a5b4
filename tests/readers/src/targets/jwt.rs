//! Tokens: no input makes the reader panic, and it accepts nothing that the issuer did not sign. The issuer
//! signed one token, and its key no longer exists.

use crate::{NOW, TRUSTED, encoded_token};
use toolyard_transport::auth::KeySet;

const SIGNED: &str = include_str!("../../../fuzz/corpus/jwt/signed.txt");

pub(super) fn check(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let token = encoded_token(text);
    let (rules, keys) = &*TRUSTED;
    if let Ok(subject) = rules.verify(&token, keys, NOW) {
        assert_eq!(token, SIGNED, "{subject:?}");
    }
    // A key set also comes from outside.
    if let Ok(keys) = KeySet::read(data) {
        assert!(keys.len() <= data.len());
    }
}

#[cfg(test)]
#[test]
fn the_signed_token_is_accepted() {
    let (rules, keys) = &*TRUSTED;
    assert_eq!(keys.len(), 3);
    assert!(rules.verify(SIGNED, keys, NOW).is_ok());
}
