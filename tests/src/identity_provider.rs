//! A real token issuer on a port of this machine. A test can change its keys and make it fail.

use crate::site::listen;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use ed25519_dalek::pkcs8::EncodePrivateKey as _;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use jsonwebtoken::{Algorithm, EncodingKey};
use rsa::pkcs1::EncodeRsaPrivateKey as _;
use rsa::rand_core::{OsRng, RngCore as _};
use rsa::traits::PublicKeyParts as _;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex, OnceLock};

/// The audience of tokens, unless a test sets another one.
pub const RESOURCE: &str = "https://tools.example.com/mcp";

/// The issuer. It runs until its runtime ends.
pub struct IdentityProvider {
    port: u16,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    keys: Vec<Value>,
    fetches: usize,
    fails: bool,
}

/// A key pair.
pub struct Key {
    /// Its key id.
    pub kid: String,
    /// The name of its algorithm.
    pub alg: &'static str,
    /// The public key, as published.
    pub jwk: Value,
    secret: EncodingKey,
    algorithm: Algorithm,
}

impl IdentityProvider {
    /// A provider with this key alone.
    pub async fn of(key: Key) -> (Self, Key) {
        (Self::with(&[&key]).await, key)
    }

    /// An issuer with these keys.
    ///
    /// # Panics
    /// If there is no free port.
    pub async fn with(keys: &[&Key]) -> Self {
        let state = Arc::<Mutex<State>>::default();
        let served = state.clone();
        let (port, _) = listen(move |stream| {
            let (port, state) = (stream.local_addr().expect("bound").port(), served.clone());
            let service = service_fn(move |request| {
                let answer = answer(&request, port, &state);
                async move { Ok::<_, std::convert::Infallible>(answer) }
            });
            // The host closes the connection when it has read the response.
            async move { drop(http1::Builder::new().serve_connection(TokioIo::new(stream), service).await) }
        })
        .await;
        let provider = Self { port, state };
        provider.publish(keys);
        provider
    }

    /// Its `iss` value.
    pub fn issuer(&self) -> String {
        format!("http://127.0.0.1:{}/realm", self.port)
    }

    /// The URL of its keys.
    pub fn jwks_url(&self) -> String {
        format!("http://127.0.0.1:{}/jwks.json", self.port)
    }

    /// A host configuration that trusts it.
    pub fn config(&self) -> String {
        format!(
            "[auth]\nresource = \"{RESOURCE}\"\nscopes = [\"tools\"]\nleeway = \"0s\"\n\
             [[auth.issuers]]\nissuer = \"{}\"\njwks-url = \"{}\"\n",
            self.issuer(),
            self.jwks_url()
        )
    }

    /// Publishes these keys and no others.
    ///
    /// # Panics
    /// If its server has panicked.
    pub fn publish(&self, keys: &[&Key]) {
        self.state.lock().expect("state").keys = keys.iter().map(|key| key.jwk.clone()).collect();
    }

    /// Makes it fail, or work again.
    ///
    /// # Panics
    /// If its server has panicked.
    pub fn fail(&self, fails: bool) {
        self.state.lock().expect("state").fails = fails;
    }

    /// How often its keys were fetched.
    ///
    /// # Panics
    /// If its server has panicked.
    pub fn fetches(&self) -> usize {
        self.state.lock().expect("state").fetches
    }

    /// The claims of a token for this subject, valid for ten minutes.
    pub fn claims(&self, subject: &str) -> Value {
        json!({"iss": self.issuer(), "aud": RESOURCE, "sub": subject, "iat": now(), "exp": now() + 600,
            "scope": "tools"})
    }

    /// A token for this subject.
    pub fn token(&self, key: &Key, subject: &str) -> String {
        key.sign(&self.claims(subject))
    }
}

fn answer(request: &Request<Incoming>, port: u16, state: &Mutex<State>) -> Response<Full<Bytes>> {
    let mut state = state.lock().expect("state");
    let base = format!("http://127.0.0.1:{port}");
    let body = match request.uri().path() {
        "/jwks.json" => {
            state.fetches += 1;
            json!({"keys": state.keys})
        }
        "/realm/.well-known/openid-configuration" => {
            json!({"issuer": format!("{base}/realm"), "jwks_uri": format!("{base}/jwks.json")})
        }
        _ => Value::Null,
    };
    let mut answer = Response::new(Full::from(body.to_string()));
    if state.fails {
        *answer.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
    } else if body.is_null() {
        *answer.status_mut() = StatusCode::NOT_FOUND;
    }
    answer
}

impl Key {
    /// One of two RSA keys, which are slow to generate.
    ///
    /// # Panics
    /// If it cannot be made.
    #[must_use]
    pub fn rsa(kid: &str, which: usize) -> Self {
        static KEYS: [OnceLock<rsa::RsaPrivateKey>; 2] = [OnceLock::new(), OnceLock::new()];
        let key = KEYS[which].get_or_init(|| rsa::RsaPrivateKey::new(&mut OsRng, 2048).expect("a key"));
        let (n, e) = (base64(&key.n().to_bytes_be()), base64(&key.e().to_bytes_be()));
        let der = key.to_pkcs1_der().expect("encodes");
        let jwk = json!({"kty": "RSA", "use": "sig", "kid": kid, "n": n, "e": e});
        Self::new(kid, ("RS256", Algorithm::RS256), jwk, EncodingKey::from_rsa_der(der.as_bytes()))
    }

    /// A new P-256 key.
    ///
    /// # Panics
    /// If it cannot be made.
    #[must_use]
    pub fn ec(kid: &str) -> Self {
        let key = p256::ecdsa::SigningKey::random(&mut OsRng);
        let point = key.verifying_key().to_encoded_point(false);
        let coordinate = |bytes: Option<&p256::FieldBytes>| base64(bytes.expect("a point"));
        let (x, y) = (coordinate(point.x()), coordinate(point.y()));
        let der = p256::SecretKey::from(key).to_pkcs8_der().expect("encodes");
        let jwk = json!({"kty": "EC", "crv": "P-256", "alg": "ES256", "kid": kid, "x": x, "y": y});
        Self::new(kid, ("ES256", Algorithm::ES256), jwk, EncodingKey::from_ec_der(der.as_bytes()))
    }

    /// A new Ed25519 key.
    ///
    /// # Panics
    /// If it cannot be made.
    #[must_use]
    pub fn ed(kid: &str) -> Self {
        let mut seed = [0; 32];
        OsRng.fill_bytes(&mut seed);
        let key = ed25519_dalek::SigningKey::from_bytes(&seed);
        let x = base64(key.verifying_key().as_bytes());
        let der = key.to_pkcs8_der().expect("encodes");
        let jwk = json!({"kty": "OKP", "crv": "Ed25519", "kid": kid, "x": x});
        Self::new(kid, ("EdDSA", Algorithm::EdDSA), jwk, EncodingKey::from_ed_der(der.as_bytes()))
    }

    fn new(kid: &str, (alg, algorithm): (&'static str, Algorithm), jwk: Value, secret: EncodingKey) -> Self {
        Self { kid: kid.to_owned(), alg, jwk, secret, algorithm }
    }

    /// The header of its tokens.
    pub fn header(&self) -> Value {
        json!({"alg": self.alg, "kid": self.kid, "typ": "at+jwt"})
    }

    /// A token with these claims.
    ///
    /// # Panics
    /// If it cannot be signed.
    pub fn sign(&self, claims: &Value) -> String {
        let signed = unsigned(&self.header(), claims);
        let signature = jsonwebtoken::crypto::sign(signed.as_bytes(), &self.secret, self.algorithm);
        format!("{signed}.{}", signature.expect("a signature"))
    }
}

/// The signed part of a token.
pub fn unsigned(header: &Value, claims: &Value) -> String {
    format!("{}.{}", base64(header.to_string().as_bytes()), base64(claims.to_string().as_bytes()))
}

/// URL-safe base64 without padding.
fn base64(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Seconds since 1970, by the same clock as the host's.
///
/// # Panics
/// If it is before 1970.
#[expect(clippy::disallowed_methods, reason = "an issuer reads a clock of its own")]
pub fn now() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_secs()
}
