//! Key pairs of cosign and of our own.

use crate::signed::{PASSWORD, private, public, text};
use toolyard_trust::key::{KeyError, MAX_KEY, PrivateKey, PublicKey};

/// The JSON of an encrypted key with these parameters of scrypt, as PEM text.
fn pem_with(params: &str) -> String {
    pem_of(&format!(
        r#"{{"kdf":{{"name":"scrypt","params":{params},"salt":"c2FsdA=="}},"cipher":{{"name":"nacl/secretbox","nonce":"{}"}},"ciphertext":"eA=="}}"#,
        "A".repeat(32)
    ))
}

fn pem_of(json: &str) -> String {
    let label = "ENCRYPTED SIGSTORE PRIVATE KEY";
    p256::pkcs8::der::pem::encode_string(label, p256::pkcs8::LineEnding::LF, json.as_bytes()).expect("PEM")
}

#[test]
fn keys_of_cosign_are_read_also_with_its_first_label_and_an_empty_password() {
    assert!(text("cosign1.key").starts_with("-----BEGIN ENCRYPTED COSIGN PRIVATE KEY-----"));
    for (pair, of) in [("cosign1", "cosign2"), ("cosign2", "cosign2"), ("cosign3", "cosign3")] {
        assert_eq!(private(&format!("{pair}.key")).public(), public(&format!("{of}.pub")), "{pair}");
    }
    let key = PrivateKey::from_encrypted_pem(&text("no-password.key"), "").unwrap();
    assert_eq!(key.public(), public("no-password.pub"));
}

#[test]
fn neither_another_password_nor_a_changed_ciphertext_opens_a_key() {
    let pem = text("cosign3.key");
    assert_eq!(PrivateKey::from_encrypted_pem(&pem, "wrong horse").unwrap_err(), KeyError::Password);
    let (_, json) = p256::pkcs8::der::pem::decode_vec(pem.trim().as_bytes()).unwrap();
    let mut value: serde_json::Value = serde_json::from_slice(&json).unwrap();
    let ciphertext = value["ciphertext"].as_str().unwrap();
    let changed = format!("{}{}", if ciphertext.starts_with('A') { "B" } else { "A" }, &ciphertext[1..]);
    value["ciphertext"] = changed.into();
    let opened = PrivateKey::from_encrypted_pem(&pem_of(&value.to_string()), PASSWORD);
    assert_eq!(opened.unwrap_err(), KeyError::Password);
}

#[test]
fn our_keys_are_written_in_the_format_of_cosign_each_with_another_encryption() {
    let key = PrivateKey::generate();
    let pem = key.to_encrypted_pem("pass").unwrap();
    assert!(pem.starts_with("-----BEGIN ENCRYPTED SIGSTORE PRIVATE KEY-----\n"), "{pem}");
    let (_, json) = p256::pkcs8::der::pem::decode_vec(pem.trim().as_bytes()).unwrap();
    let value: serde_json::Value = serde_json::from_slice(&json).unwrap();
    assert_eq!(value["kdf"]["params"], serde_json::json!({"N": 65_536, "r": 8, "p": 1}));
    assert_eq!(PrivateKey::from_encrypted_pem(&pem, "pass").unwrap().public(), key.public());
    assert_ne!(key.to_encrypted_pem("pass").unwrap(), pem);
    assert_ne!(key.public(), PrivateKey::generate().public());
}

#[test]
fn a_public_key_is_written_as_cosign_writes_it_and_read_with_line_ends_of_windows() {
    assert_eq!(public("cosign3.pub").to_pem(), text("cosign3.pub"));
    let pem = format!("\n{}\n", text("cosign3.pub").replace('\n', "\r\n"));
    assert_eq!(PublicKey::from_pem(&pem).unwrap(), public("cosign3.pub"));
}

#[test]
fn a_fingerprint_is_the_digest_of_the_der() {
    let pem = "-----BEGIN PUBLIC KEY-----\n\
        MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEeFUe+eyZLys3G66U0GXVU+ZBBQWn\n\
        ad8xVPW+GVsbCp0cB4bIpNrwBH0i1krY8pnaoSgy0rh5CbvYAmUdB7DseA==\n\
        -----END PUBLIC KEY-----\n";
    let key = PublicKey::from_pem(pem).unwrap();
    assert_eq!(key.fingerprint(), "SHA256:lRPwy+FU8/0OHiK5I3WBd7WQK7wL1bUlqoV5CHAaOSs");
}

#[test]
fn a_file_asks_for_bounded_work_and_memory() {
    for (params, n, r, p) in [
        (r#"{"N":2097152,"r":8,"p":1}"#, 2_097_152, 8, 1),
        (r#"{"N":65536,"r":17,"p":1}"#, 65_536, 17, 1),
        (r#"{"N":65536,"r":8,"p":5}"#, 65_536, 8, 5),
        // 1 GiB.
        (r#"{"N":1048576,"r":8,"p":1}"#, 1_048_576, 8, 1),
        (r#"{"N":18446744073709551615,"r":8,"p":1}"#, u64::MAX, 8, 1),
    ] {
        let opened = PrivateKey::from_encrypted_pem(&pem_with(params), "");
        assert_eq!(opened.unwrap_err(), KeyError::Costly { n, r, p }, "{params}");
    }
}

#[test]
fn other_ways_to_encrypt_and_parameters_that_scrypt_does_not_have_are_refused() {
    let pem = pem_with(r#"{"N":2,"r":1,"p":1}"#);
    let (_, json) = p256::pkcs8::der::pem::decode_vec(pem.trim().as_bytes()).unwrap();
    let json = String::from_utf8(json).unwrap();
    for (from, to) in [
        ("scrypt", "pbkdf2"),
        ("nacl/secretbox", "aes-gcm"),
        (r#""salt""#, r#""pepper""#),
        ("AAAA", "AA"),
        (r#""N":2"#, r#""N":0"#),
        (r#""N":2"#, r#""N":65535"#),
        (r#""r":1"#, r#""r":0"#),
        (r#""p":1"#, r#""p":0"#),
        ("c2FsdA==", "c2FsdA"),
        (r#""kdf""#, r#""kdf":{},"kdf""#),
    ] {
        let opened = PrivateKey::from_encrypted_pem(&pem_of(&json.replace(from, to)), "");
        assert!(matches!(opened, Err(KeyError::Encryption(_))), "{to}: {opened:?}");
    }
    assert_eq!(PrivateKey::from_encrypted_pem(&pem, "").unwrap_err(), KeyError::Password);
}

#[test]
fn a_public_key_for_a_private_one_is_named() {
    let error = PrivateKey::from_encrypted_pem(&text("cosign3.pub"), PASSWORD).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the file holds \"PUBLIC KEY\", and this needs \"ENCRYPTED SIGSTORE PRIVATE KEY\"; name the other file of the \
         key pair"
    );
    let error = PublicKey::from_pem(&text("cosign3.key")).unwrap_err();
    assert!(matches!(error, KeyError::OtherLabel { .. }), "{error}");
}

#[test]
fn keys_of_other_algorithms_are_refused() {
    let pems = [
        // Ed25519.
        "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\n-----END PUBLIC KEY-----\n",
        // P-384.
        "-----BEGIN PUBLIC KEY-----\nMHYwEAYHKoZIzj0CAQYFK4EEACIDYgAERJAXYIAw2tDEJUva8kkZ9VuQO8IwBIQf\ngu5/C/Fo3gga+7B/jf1NNV5vTf0Qf0eIrAM3Hh93HGNdzdogMrUD+yxoz9Elnhpd\nEKZBAeeQEKSgx33LztnLVhWxsAz43/pd\n-----END PUBLIC KEY-----\n",
        "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n",
    ];
    for pem in pems {
        assert_eq!(PublicKey::from_pem(pem).unwrap_err(), KeyError::OtherAlgorithm, "{pem}");
    }
}

#[test]
fn text_that_is_not_a_key_is_refused() {
    for text in ["", "key", "-----BEGIN PUBLIC KEY-----\n", "\u{202e}"] {
        assert_eq!(PublicKey::from_pem(text).unwrap_err(), KeyError::NotPem, "{text}");
        assert_eq!(PrivateKey::from_encrypted_pem(text, "").unwrap_err(), KeyError::NotPem, "{text}");
    }
    let long = " ".repeat(MAX_KEY + 1);
    assert_eq!(PublicKey::from_pem(&long).unwrap_err(), KeyError::TooLarge(MAX_KEY + 1));
}

#[test]
fn a_private_key_is_not_shown_in_logs() {
    let key = PrivateKey::generate();
    assert_eq!(format!("{key:?}"), format!("PrivateKey {{ public: {:?}, .. }}", key.public()));
}
