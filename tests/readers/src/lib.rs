//! The host's readers of data from outside, each as a function of bytes. The cost of each must not grow
//! faster than its input, even if an attacker wrote it.

pub mod targets;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::collections::BTreeSet;
use std::hint::black_box;
use std::sync::LazyLock;
use std::time::Duration;
use toolyard_dispatch::rules::{AccessRules, Object, RuleSpec};
use toolyard_dispatch::{Principal, Subject, Timestamp, open_cursor};
use toolyard_manifest::{Limits, Manifest};
use toolyard_protocol::initialize::InitializeParams;
use toolyard_protocol::message::{Incoming, Message, decode};
use toolyard_protocol::stateless::claim::ClaimedParams;
use toolyard_protocol::tools::CallParams;
use toolyard_protocol::{RawJson, response};
use toolyard_schema::{Allowance, Bounds, Budget, Halt, Schema};
use toolyard_task::keys::Key;
use toolyard_transport::auth::{Address, Algorithm, IssuerSettings, KeySet, KeySource, TokenRules};
use toolyard_trust::Digest;
use toolyard_trust::key::PublicKey;
use toolyard_trust::lock::Lock;
use toolyard_trust::provenance::Provenance;
use toolyard_trust::signature::{self, Keys, Signature};

/// A reader of data from outside.
#[derive(Debug, Clone, Copy)]
pub struct Reader {
    /// The name of the reader and of its fuzz target.
    pub name: &'static str,
    read: fn(&[u8]),
}

/// Messages of clients, and their params.
pub const DECODE: Reader = Reader { name: "decode", read: message };
/// Schemas of components, and values that are checked against them.
pub const SCHEMA: Reader = Reader { name: "schema", read: schema };
/// The arguments of calls, checked by access rules.
pub const RULES: Reader = Reader { name: "rules", read: rules };
/// Tokens.
pub const TOKEN: Reader = Reader { name: "jwt", read: token };
/// Cursors of lists.
pub const CURSOR: Reader = Reader { name: "cursor", read: cursor };
/// Manifests.
pub const MANIFEST: Reader = Reader { name: "manifest", read: manifest };
/// Signatures of plugins, in bundles.
pub const BUNDLE: Reader = Reader { name: "bundle", read: bundle };
/// Lock files of plugin folders.
pub const LOCK: Reader = Reader { name: "lock", read: lock };
/// Provenance files of components.
pub const PROVENANCE: Reader = Reader { name: "provenance", read: provenance };

impl Reader {
    /// Initializes what the host initializes at its start.
    pub fn prepare(self) {
        LazyLock::force(&TRUSTED);
        LazyLock::force(&AUTHORITY);
        LazyLock::force(&SIGNERS);
    }

    /// Reads an input as the host does.
    pub fn read(self, data: &[u8]) {
        (self.read)(data);
    }
}

fn message(data: &[u8]) {
    let text = Bytes::copy_from_slice(data);
    let message = |message: &Message| {
        if let Message::Request { method, params, .. } = message {
            let _ = black_box(CallParams::decode(params.as_ref()));
            let _ = black_box(InitializeParams::decode(params.as_ref()));
            let _ = black_box(ClaimedParams::by(method, params.as_ref()).open(params.as_ref()));
        }
    };
    match decode(&text) {
        Ok(Incoming::One(one)) => message(&one),
        Ok(Incoming::Batch(members)) => members.iter().flatten().for_each(message),
        Err(error) => drop(black_box(response::error(error.id.as_ref(), &error.error))),
    }
}

/// A schema, and a value for it.
#[derive(Deserialize)]
struct Checked<'a> {
    #[serde(borrow)]
    schema: &'a RawValue,
    #[serde(borrow)]
    value: &'a RawValue,
}

const BOUNDS: Bounds = Bounds { bytes: 256 << 10, depth: 32 };

fn schema(data: &[u8]) {
    let Ok(Checked { schema, value }) = serde_json::from_slice(data) else { return };
    let schema = RawJson::trusted(schema.get().to_owned());
    // Forms have tighter limits than components, and are compiled while a client waits.
    let Ok(schema) = Schema::compile(&schema, BOUNDS, &mut Allowance::of_forms()) else { return };
    let value = RawJson::trusted(value.get().to_owned());
    // 16,384 steps, about as many as on a serving thread.
    let mut look = || Err(Halt::Spent);
    let _ = black_box(schema.check(&value, &mut Budget::looked_after(&mut look)));
}

/// The rules of an operator. Only arguments come from outside.
static AUTHORITY: LazyLock<AccessRules> = LazyLock::new(|| {
    let rules = r#"[
        {"effect": "deny", "tools": ["*"], "arguments": {"/path": "/etc/.*", "/options/0/name": ".*[0-9]+.*x"}},
        {"effect": "deny", "tools": ["rm"], "arguments": {"/n": "[5-9]"}},
        {"effect": "allow", "tools": ["*"]}
    ]"#;
    let rules: Vec<RuleSpec> = serde_json::from_str(rules).expect("rules");
    AccessRules::new(rules).expect("valid rules")
});

fn rules(data: &[u8]) {
    let Ok(arguments) = RawJson::parse(Bytes::copy_from_slice(data)) else { return };
    let principal = Principal::Subject(Subject {
        issuer: "https://i.example".to_owned(),
        subject: "s".to_owned(),
        client: None,
        scopes: BTreeSet::new(),
        claims: serde_json::Value::Null,
        expires_at: None,
    });
    let _ = black_box(AUTHORITY.allows(&principal, Object::Tool("rm"), &arguments));
}

/// A time at which the signed token of the fuzz target is valid.
const NOW: Timestamp = Timestamp(1_800_000_000_000);

static TRUSTED: LazyLock<(TokenRules, KeySet)> = LazyLock::new(|| {
    let settings = IssuerSettings {
        issuer: Address::parse("https://i.example").expect("an address"),
        audience: vec!["us".to_owned()],
        keys: KeySource::File("keys.json".into()),
        algorithms: Algorithm::ALL.to_vec(),
    };
    let keys = KeySet::read(include_bytes!("jwks.json")).expect("a key set");
    (TokenRules::new(&settings, Duration::from_secs(60)), keys)
});

/// A complete token as it is; or, after `=`, the token with these lines as header, claims and signature.
fn encoded_token(text: &str) -> String {
    let Some(spelled) = text.strip_prefix('=') else { return text.to_owned() };
    let mut parts = spelled.splitn(3, '\n');
    let mut part = || parts.next().unwrap_or_default();
    let encoded = |part: &str| URL_SAFE_NO_PAD.encode(part);
    format!("{}.{}.{}", encoded(part()), encoded(part()), part())
}

fn token(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let (rules, keys) = &*TRUSTED;
    let _ = black_box(rules.verify(&encoded_token(text), keys, NOW));
}

/// The list to which the cursors belong.
const SCOPE: &str = "tasks:x";

fn cursor_keys() -> [Key; 2] {
    [1, 2].map(|id| Key { id: id.into(), secret: [id; 32] })
}

fn cursor(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let _ = black_box(open_cursor(&cursor_keys(), SCOPE, text));
}

fn manifest(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let _ = black_box(Manifest::parse("plugin.toml", text, &Limits::default()));
}

/// The key of an operator, and the component and manifest in `tests/fixtures/signed`.
static SIGNERS: LazyLock<(Keys, [signature::Subject; 2])> = LazyLock::new(|| {
    let key = PublicKey::from_pem(include_str!("../../fixtures/signed/cosign3.pub")).expect("a key");
    let component = Digest::of(include_bytes!("../../fixtures/signed/component.wasm"));
    let manifest = Digest::of(include_bytes!("../../fixtures/signed/manifest.json"));
    (Keys(vec![key]), [Some(manifest), None].map(|manifest| signature::Subject { manifest, component }))
});

/// A signature over the manifest, and one over the component.
fn bundle(data: &[u8]) {
    let (keys, subjects) = &*SIGNERS;
    let signatures = [Signature::Bundle(data.to_vec())];
    subjects.iter().for_each(|subject| drop(black_box(keys.verify(subject, &signatures))));
}

fn lock(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let _ = black_box(Lock::parse(text));
}

fn provenance(data: &[u8]) {
    drop(black_box(Provenance::parse(data)));
}
