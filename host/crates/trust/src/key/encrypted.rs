//! Private keys as cosign encrypts them: PEM of JSON with scrypt, XSalsa20-Poly1305 ("nacl/secretbox") and
//! PKCS #8.

use super::{KeyError, MAX_KEY};
use crypto_secretbox::XSalsa20Poly1305;
use crypto_secretbox::aead::{Aead as _, KeyInit as _};
use p256::SecretKey;
use p256::ecdsa::SigningKey;
use p256::elliptic_curve::rand_core::{OsRng, RngCore as _};
use p256::pkcs8::der::pem;
use p256::pkcs8::{DecodePrivateKey as _, EncodePrivateKey as _, LineEnding};
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

const LABEL: &str = "ENCRYPTED SIGSTORE PRIVATE KEY";
/// The label of cosign before version 2. cosign still reads it.
const OLD_LABEL: &str = "ENCRYPTED COSIGN PRIVATE KEY";

/// The parameters that cosign writes, and the only ones besides older ones that it reads: 64 MiB.
const PARAMS: Params = Params { n: 65_536, r: 8, p: 1 };
/// The largest parameters that a file may ask for.
const MAX_PARAMS: Params = Params { n: 1 << 20, r: 16, p: 4 };
/// The most memory that a file may ask for, in bytes.
const MAX_MEMORY: u64 = 256 << 20;

#[derive(Serialize, Deserialize)]
struct Envelope {
    kdf: Kdf,
    cipher: Cipher,
    #[serde(with = "crate::base64_text")]
    ciphertext: Vec<u8>,
}

#[derive(Serialize, Deserialize)]
struct Kdf {
    name: String,
    params: Params,
    #[serde(with = "crate::base64_text")]
    salt: Vec<u8>,
}

#[derive(Serialize, Deserialize)]
struct Params {
    #[serde(rename = "N")]
    n: u64,
    r: u64,
    p: u64,
}

#[derive(Serialize, Deserialize)]
struct Cipher {
    name: String,
    #[serde(with = "crate::base64_text")]
    nonce: Vec<u8>,
}

/// The label of PEM text that is short enough for a key.
pub(super) fn label(text: &str) -> Result<&str, KeyError> {
    if text.len() > MAX_KEY {
        return Err(KeyError::TooLarge(text.len()));
    }
    pem::decode_label(text.trim().as_bytes()).map_err(|_| KeyError::NotPem)
}

pub(super) fn open(text: &str, password: &str) -> Result<SecretKey, KeyError> {
    let label = label(text)?;
    if label != LABEL && label != OLD_LABEL {
        return Err(KeyError::OtherLabel { found: label.to_owned(), wanted: LABEL });
    }
    let (_, json) = pem::decode_vec(text.trim().as_bytes()).map_err(|_| KeyError::NotPem)?;
    let envelope: Envelope =
        serde_json::from_slice(&json).map_err(|_| KeyError::Encryption("its JSON is not that of cosign"))?;
    if envelope.kdf.name != "scrypt" {
        return Err(KeyError::Encryption("it names another key derivation than scrypt"));
    }
    if envelope.cipher.name != "nacl/secretbox" {
        return Err(KeyError::Encryption("it names another cipher than nacl/secretbox"));
    }
    let nonce: [u8; 24] =
        envelope.cipher.nonce.try_into().map_err(|_| KeyError::Encryption("its nonce has not 24 bytes"))?;
    let key = derive(password, &envelope.kdf.salt, &envelope.kdf.params)?;
    let plain = XSalsa20Poly1305::new((&*key).into())
        .decrypt((&nonce).into(), envelope.ciphertext.as_slice())
        .map(Zeroizing::new)
        .map_err(|_| KeyError::Password)?;
    SecretKey::from_pkcs8_der(&plain).map_err(|_| KeyError::OtherAlgorithm)
}

pub(super) fn seal(key: &SigningKey, password: &str) -> Result<String, KeyError> {
    let (mut salt, mut nonce) = ([0; 32], [0; 24]);
    for random in [&mut salt[..], &mut nonce[..]] {
        OsRng.try_fill_bytes(random).map_err(|_| KeyError::Encryption("the system has no random numbers"))?;
    }
    let plain = key.to_pkcs8_der().map_err(|_| KeyError::OtherAlgorithm)?;
    let derived = derive(password, &salt, &PARAMS)?;
    let ciphertext = XSalsa20Poly1305::new((&*derived).into())
        .encrypt((&nonce).into(), plain.as_bytes())
        .map_err(|_| KeyError::Encryption("the cipher failed"))?;
    let envelope = Envelope {
        kdf: Kdf { name: "scrypt".to_owned(), params: PARAMS, salt: salt.to_vec() },
        cipher: Cipher { name: "nacl/secretbox".to_owned(), nonce: nonce.to_vec() },
        ciphertext,
    };
    let json =
        serde_json::to_vec(&envelope).map_err(|_| KeyError::Encryption("its JSON cannot be written"))?;
    pem::encode_string(LABEL, LineEnding::LF, &json).map_err(|_| KeyError::NotPem)
}

/// The key of the cipher. Checks first whether a file asks for more than the limits.
fn derive(password: &str, salt: &[u8], params: &Params) -> Result<Zeroizing<[u8; 32]>, KeyError> {
    let &Params { n, r, p } = params;
    let costly = KeyError::Costly { n, r, p };
    if n > MAX_PARAMS.n || r > MAX_PARAMS.r || p > MAX_PARAMS.p || 128 * n * r > MAX_MEMORY {
        return Err(costly);
    }
    let invalid = KeyError::Encryption("its parameters of scrypt are not valid");
    let (true, Ok(r), Ok(p)) = (n.is_power_of_two(), u32::try_from(r), u32::try_from(p)) else {
        return Err(invalid);
    };
    let log_n = u8::try_from(n.trailing_zeros()).map_err(|_| invalid.clone())?;
    let params = scrypt::Params::new(log_n, r, p, 32).map_err(|_| invalid.clone())?;
    let mut key = Zeroizing::new([0; 32]);
    scrypt::scrypt(password.as_bytes(), salt, &params, &mut *key).map_err(|_| invalid)?;
    Ok(key)
}
