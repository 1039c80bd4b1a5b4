//! Public keys of cosign.

use crate::signed::{public, text};
use toolyard_trust::key::{KeyError, MAX_KEY, PublicKey};

#[test]
fn a_public_key_is_read_and_written_as_cosign_writes_it_and_its_fingerprint_is_that_of_the_der() {
    assert_eq!(public("cosign3.pub").to_pem(), text("cosign3.pub"));
    let pem = format!("\n{}\n", text("cosign3.pub").replace('\n', "\r\n"));
    assert_eq!(PublicKey::from_pem(&pem).unwrap(), public("cosign3.pub"));
    let pem = "-----BEGIN PUBLIC KEY-----\n\
        MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEeFUe+eyZLys3G66U0GXVU+ZBBQWn\n\
        ad8xVPW+GVsbCp0cB4bIpNrwBH0i1krY8pnaoSgy0rh5CbvYAmUdB7DseA==\n\
        -----END PUBLIC KEY-----\n";
    let key = PublicKey::from_pem(pem).unwrap();
    assert_eq!(key.fingerprint(), "SHA256:lRPwy+FU8/0OHiK5I3WBd7WQK7wL1bUlqoV5CHAaOSs");
}

#[test]
fn what_is_not_a_public_key_of_cosign_is_refused_by_name() {
    assert_eq!(
        PublicKey::from_pem(&text("cosign3.key")).unwrap_err().to_string(),
        "the file holds \"ENCRYPTED SIGSTORE PRIVATE KEY\", and this needs \"PUBLIC KEY\"; name the other file of the \
         key pair"
    );
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
    for text in ["", "key", "-----BEGIN PUBLIC KEY-----\n", "\u{202e}"] {
        assert_eq!(PublicKey::from_pem(text).unwrap_err(), KeyError::NotPem, "{text}");
    }
    let long = " ".repeat(MAX_KEY + 1);
    assert_eq!(PublicKey::from_pem(&long).unwrap_err(), KeyError::TooLarge(MAX_KEY + 1));
}
