//! The public keys of an issuer (RFC 7517).

use super::Algorithm;
use super::algorithm::KeyKind;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::DecodingKey;
use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk};
use serde::Deserialize;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// The shortest RSA key that is trusted, in bits.
const MIN_RSA_BITS: usize = 2048;

/// The text is not a valid key set.
#[derive(Debug, thiserror::Error)]
#[error("not a JWK set: expected {{\"keys\":[…]}}")]
pub struct BadKeySet(#[source] serde_json::Error);

/// The keys of an issuer that can verify signatures.
pub struct KeySet {
    keys: Vec<Key>,
    /// The digest of the document, to recognize the same set.
    digest: [u8; 32],
}

struct Key {
    kid: Option<String>,
    /// The only algorithm that the key is for, if the key names one.
    alg: Option<String>,
    kind: KeyKind,
    of: DecodingKey,
}

#[derive(Deserialize)]
struct KeySetDocument {
    keys: Vec<Value>,
}

impl KeySet {
    /// Parses a key set. It skips keys for other purposes and of unknown kinds, as RFC 7517 requires, and
    /// also RSA keys that are too short and keys whose private part was published.
    ///
    /// # Errors
    /// [`BadKeySet`].
    pub fn read(document: &[u8]) -> Result<Self, BadKeySet> {
        let KeySetDocument { keys } = serde_json::from_slice(document).map_err(BadKeySet)?;
        let digest = Sha256::digest(document).into();
        Ok(Self { keys: keys.into_iter().filter_map(Key::read).collect(), digest })
    }

    /// The number of keys.
    #[must_use]
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether the set is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    pub(super) fn is_same_as(&self, other: &Self) -> bool {
        self.digest == other.digest
    }

    /// Whether a key has this name.
    pub(super) fn has(&self, kid: &str) -> bool {
        self.keys.iter().any(|key| key.kid.as_deref() == Some(kid))
    }

    /// The key with this name and for this algorithm. A token may omit the name only if the set has a single
    /// key.
    pub(super) fn find(&self, kid: Option<&str>, algorithm: Algorithm) -> Option<&DecodingKey> {
        let mut fit = self.keys.iter().filter(|key| key.is_for(algorithm));
        let key = match kid {
            Some(kid) => fit.find(|key| key.kid.as_deref() == Some(kid)),
            None => fit.next().filter(|_| self.keys.len() == 1),
        };
        key.map(|key| &key.of)
    }
}

impl Key {
    fn read(value: Value) -> Option<Self> {
        let alg = value.get("alg").map(|alg| alg.as_str().map(str::to_owned));
        // A key whose `alg` is not a string fits no algorithm.
        let alg = alg.map_or(Some(None), |alg| alg.map(Some))?;
        let for_signatures = value.get("use").is_none_or(|usage| usage == "sig")
            && value.get("key_ops").is_none_or(|operations| {
                operations.as_array().is_some_and(|all| all.iter().any(|one| one == "verify"))
            });
        let is_public = value.get("d").is_none() && value.get("k").is_none();
        if !for_signatures || !is_public {
            return None;
        }
        let jwk: Jwk = serde_json::from_value(value).ok()?;
        let kind = match &jwk.algorithm {
            AlgorithmParameters::RSA(key) => {
                let modulus = URL_SAFE_NO_PAD.decode(&key.n).ok()?;
                let leading = modulus.iter().take_while(|byte| **byte == 0).count();
                // The highest bit of a modulus must be set; otherwise the key is one bit shorter.
                let bits = (modulus.len() - leading) * 8
                    - modulus.get(leading).map_or(0, |byte| byte.leading_zeros() as usize);
                (bits >= MIN_RSA_BITS).then_some(KeyKind::Rsa)
            }
            AlgorithmParameters::EllipticCurve(key) => match key.curve {
                EllipticCurve::P256 => Some(KeyKind::P256),
                EllipticCurve::P384 => Some(KeyKind::P384),
                _ => None,
            },
            AlgorithmParameters::OctetKeyPair(key) => {
                (key.curve == EllipticCurve::Ed25519).then_some(KeyKind::Ed25519)
            }
            _ => None,
        }?;
        let of = DecodingKey::from_jwk(&jwk).ok()?;
        Some(Self { kid: jwk.common.key_id, alg, kind, of })
    }

    fn is_for(&self, algorithm: Algorithm) -> bool {
        self.kind == algorithm.kind && self.alg.as_deref().is_none_or(|alg| alg == algorithm.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn rsa(bytes: usize) -> Value {
        json!({"kty": "RSA", "e": "AQAB", "n": URL_SAFE_NO_PAD.encode(vec![0xff; bytes])})
    }

    fn with(mut key: Value, more: Value) -> Value {
        for (name, value) in more.as_object().expect("an object") {
            key[name] = value.clone();
        }
        key
    }

    fn set(keys: &[Value]) -> KeySet {
        KeySet::read(json!({"keys": keys}).to_string().as_bytes()).expect("a set")
    }

    fn named(name: &str) -> Algorithm {
        Algorithm::named(name).expect("an algorithm")
    }

    #[test]
    fn a_4_a_key_is_used_for_what_it_is_for_and_nothing_else() {
        let keys = set(&[
            with(rsa(256), json!({"kid": "r", "alg": "RS256", "use": "sig"})),
            with(rsa(256), json!({"kid": "any"})),
            json!({"kty": "EC", "crv": "P-256", "kid": "e", "x": "AA", "y": "AA"}),
            json!({"kty": "OKP", "crv": "Ed25519", "kid": "o", "x": "AA"}),
        ]);
        for (kid, fitting, others) in [
            (Some("r"), &["RS256"][..], &["RS512", "ES256"][..]),
            (Some("any"), &["RS256", "PS384"], &["EdDSA"]),
            (Some("e"), &["ES256"], &["ES384"]),
            (Some("o"), &["EdDSA"], &["ES256"]),
            (None, &[], &["RS256"]),
        ] {
            let finds = |algorithm: &&str| keys.find(kid, named(algorithm)).is_some();
            assert!(fitting.iter().all(finds) && !others.iter().any(finds), "{kid:?}");
        }
        assert!(keys.has("r") && keys.has("any"));
        for unknown in ["R", "../r", ""] {
            assert!(!keys.has(unknown) && keys.find(Some(unknown), named("RS256")).is_none(), "{unknown}");
        }
        let only = set(&[rsa(256)]);
        assert!(only.find(None, named("RS256")).is_some(), "there is no choice");
        assert!(only.find(None, named("ES256")).is_none());
    }

    #[test]
    fn a_4_weak_secret_and_strange_keys_are_passed_over() {
        let weak = URL_SAFE_NO_PAD.encode([&[0, 0x7f][..], &[0xff; 255]].concat());
        for key in [
            rsa(128),
            with(rsa(256), json!({"n": weak})),
            with(rsa(256), json!({"use": "enc"})),
            with(rsa(256), json!({"key_ops": ["encrypt"]})),
            with(rsa(256), json!({"alg": 7})),
            with(rsa(256), json!({"d": "AA"})),
            json!({"kty": "oct", "k": "c2VjcmV0", "kid": "s", "alg": "HS256"}),
            json!({"kty": "EC", "crv": "P-521", "x": "AA", "y": "AA"}),
            json!({"kid": "x"}),
            json!(7),
        ] {
            assert!(set(std::slice::from_ref(&key)).is_empty(), "{key}");
        }
        assert_eq!(set(&[rsa(256), json!({"kty": "new"}), rsa(512)]).len(), 2, "the others are taken");
        for document in ["", "[]", "{}", "{\"keys\":{}}", "<html>"] {
            assert!(KeySet::read(document.as_bytes()).is_err(), "{document}");
        }
    }
}
