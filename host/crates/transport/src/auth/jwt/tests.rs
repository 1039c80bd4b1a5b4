use super::super::{Address, KeySource};
use super::*;
use serde_json::json;

const KEYS: &str = r#"{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"one","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}"#;
const NOW: Timestamp = Timestamp(1_000_000_000);

fn rules() -> TokenRules {
    let settings = IssuerSettings {
        issuer: Address::parse("https://i.example").expect("an address"),
        audience: vec!["us".to_owned()],
        keys: KeySource::File("keys.json".into()),
        algorithms: Algorithm::ALL.to_vec(),
    };
    TokenRules::new(&settings, Duration::from_secs(60))
}

fn keys() -> KeySet {
    KeySet::read(KEYS.as_bytes()).expect("a key set")
}

fn written(header: &Value, claims: &Value, signature: &str) -> String {
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    format!("{}.{}.{signature}", part(header), part(claims))
}

fn good_claims() -> Value {
    json!({"iss": "https://i.example", "aud": "us", "sub": "alice", "exp": NOW.0 / 1000 + 60})
}

/// The reason why a token with valid claims and this header is refused.
fn refused(header: &Value, signature: &str) -> TokenRejection {
    let token = written(header, &good_claims(), signature);
    rules().verify(&token, &keys(), NOW).expect_err("refused")
}

#[test]
fn a_4_a_header_that_asks_for_less_than_a_signature_is_refused() {
    let wrong = URL_SAFE_NO_PAD.encode([7; 64]);
    let jwk = json!({"kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"});
    for name in ["none", "None", "", "HS256", "HS384", "HS512", "rs256", "ES256K", "RSA-OAEP"] {
        let header = json!({"alg": name, "kid": "one"});
        assert_eq!(refused(&header, &wrong), TokenRejection::Algorithm, "{name}");
    }
    for (header, why) in [
        (json!({"alg": ["EdDSA"], "kid": "one"}), TokenRejection::Algorithm),
        (json!({"kid": "one"}), TokenRejection::Algorithm),
        (json!({"alg": "EdDSA", "kid": "one", "crit": ["b64"], "b64": false}), TokenRejection::Critical),
        (json!({"alg": "EdDSA", "kid": "one", "crit": null}), TokenRejection::Critical),
        (json!({"alg": "EdDSA", "kid": "one", "typ": "logout+jwt"}), TokenRejection::Type),
        (json!({"alg": "EdDSA", "kid": "one", "typ": 7}), TokenRejection::Type),
        (json!({"alg": "EdDSA", "kid": 1}), TokenRejection::Unreadable),
        // The sender chooses no keys in the token itself.
        (json!({"alg": "EdDSA", "kid": "two", "jwk": jwk, "jku": "http://[::1]:1/"}), TokenRejection::Key),
        (json!({"alg": "ES256", "kid": "one"}), TokenRejection::Key),
        (json!({"alg": "EdDSA"}), TokenRejection::Signature),
        (json!({"alg": "EdDSA", "kid": "one", "typ": "AT+JWT"}), TokenRejection::Signature),
    ] {
        assert_eq!(refused(&header, &wrong), why, "{header}");
    }
    let header = json!({"alg": "EdDSA", "kid": "one"});
    for signature in ["", "AA", "=", "*", "AAAA====", &wrong] {
        assert_eq!(refused(&header, signature), TokenRejection::Signature, "{signature}");
    }
}

#[test]
fn a_3_what_is_no_jwt_is_unknown_or_unreadable() {
    for (tokens, why) in [
        (&["", "abc", "a.b", "a.b.c.d", "a.b.c.d.e"][..], TokenRejection::Unknown),
        (&["..", "W10.e30.AA"], TokenRejection::Unreadable),
        (&["e30.e30."], TokenRejection::Algorithm),
    ] {
        for token in tokens {
            assert_eq!(rules().verify(token, &keys(), NOW).expect_err(token), why, "{token}");
        }
    }
}
