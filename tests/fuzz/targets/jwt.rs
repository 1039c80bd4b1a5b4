//! Tokens: no input makes the reader panic, and it accepts nothing that the issuer did not sign. The issuer
//! signed one token, and its key no longer exists.

#![no_main]

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;
use std::time::Duration;
use toolyard_dispatch::Timestamp;
use toolyard_fuzz::{Budget, within};
use toolyard_readers::Reader;
use toolyard_transport::auth::{Address, Algorithm, IssuerSettings, KeySet, KeySource, TokenRules};

const SIGNED: &str = include_str!("signed.txt");
const NOW: Timestamp = Timestamp(1_800_000_000_000);

static KEYS: LazyLock<KeySet> =
    LazyLock::new(|| KeySet::read(include_bytes!("jwks.json")).expect("a key set"));

static RULES: LazyLock<TokenRules> = LazyLock::new(|| {
    let settings = IssuerSettings {
        issuer: Address::parse("https://i.example").expect("an address"),
        audience: vec!["us".to_owned()],
        keys: KeySource::File("keys.json".into()),
        algorithms: Algorithm::ALL.to_vec(),
    };
    let rules = TokenRules::new(&settings, Duration::from_secs(60));
    assert_eq!(KEYS.len(), 3);
    assert!(rules.verify(SIGNED, &KEYS, NOW).is_ok(), "the one token is accepted");
    rules
});

const BUDGET: Budget = Budget { fixed: 500_000, per_byte: 60 };

// A complete token; or, after `=`, lines with header, claims and signature, which are encoded here.
fuzz_target!(|data: &[u8]| {
    within(BUDGET, Reader::Token, data);
    let Ok(text) = std::str::from_utf8(data) else { return };
    let token = match text.strip_prefix('=') {
        None => text.to_owned(),
        Some(spelled) => {
            let mut parts = spelled.splitn(3, '\n');
            let mut part = || parts.next().unwrap_or_default();
            let encoded = |part: &str| URL_SAFE_NO_PAD.encode(part);
            format!("{}.{}.{}", encoded(part()), encoded(part()), part())
        }
    };
    if let Ok(subject) = RULES.verify(&token, &KEYS, NOW) {
        assert_eq!(token, SIGNED, "{subject:?}");
    }
    // A key set also comes from outside.
    if let Ok(keys) = KeySet::read(data) {
        assert!(keys.len() <= data.len());
    }
});
