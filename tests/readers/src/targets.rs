//! The fuzz targets: the checks of the readers that hold for any bytes. `tests/fuzz` searches for inputs that
//! fail; `tests/corpus.rs` runs the inputs in `tests/fuzz/corpus`.

mod bearer;
mod cursor;
mod decode;
mod guard;
mod http_headers;
mod journal;
mod jwt;
mod lock;
mod registry;
mod rules;
mod schema;
mod stateless;

use crate::{BUNDLE, CURSOR, DECODE, LOCK, MANIFEST, PROVENANCE, RULES, Reader, SCHEMA, TOKEN};
use serde_json::value::RawValue;
use toolyard_manifest::{Limits, Manifest};
use toolyard_protocol::RawJson;
use toolyard_trust::provenance::Provenance;

/// All targets.
pub const TARGETS: [Target; 15] = [
    unlimited("bearer", bearer::check),
    // Verifying with one key costs most, and its cost is fixed.
    limited(BUNDLE, 200_000, 60, |_| {}),
    limited(CURSOR, 2_000, 10, cursor::check),
    limited(DECODE, 5_000, 60, decode::check),
    unlimited("guard", guard::check),
    unlimited("http_headers", http_headers::check),
    unlimited("journal", journal::check),
    limited(TOKEN, 500_000, 60, jwt::check),
    limited(LOCK, 20_000, 120, lock::check),
    limited(MANIFEST, 40_000, 60, manifest),
    // A key is a point of the curve, which costs more than its bytes.
    limited(PROVENANCE, 20_000, 60, provenance),
    unlimited("registry", registry::check),
    limited(RULES, 10_000, 100, rules::check),
    limited(SCHEMA, 1_000_000, 300, schema::check),
    unlimited("stateless", stateless::check),
];

/// The checks of one kind of data.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// The name, also of the target's folder in `tests/fuzz/corpus`.
    pub name: &'static str,
    /// The most that reading an input may cost; `None` without a limit.
    pub budget: Option<Budget>,
    check: fn(&[u8]),
}

/// The most control-flow edges for reading an input: a fixed number, and a number per byte.
#[derive(Debug, Clone, Copy)]
pub struct Budget {
    /// The reader that must keep to the budget.
    pub reader: Reader,
    /// The edges for an empty input.
    pub fixed: u64,
    /// The edges for each byte.
    pub per_byte: u64,
}

const fn unlimited(name: &'static str, check: fn(&[u8])) -> Target {
    Target { name, budget: None, check }
}

const fn limited(reader: Reader, fixed: u64, per_byte: u64, check: fn(&[u8])) -> Target {
    Target { name: reader.name, budget: Some(Budget { reader, fixed, per_byte }), check }
}

impl Target {
    /// Checks an input. `measure` lets the reader of the budget read its bytes, if the target has a budget.
    ///
    /// # Panics
    /// If a check fails.
    pub fn run(&self, data: &[u8], measure: impl FnOnce(Budget, &[u8])) {
        match self.budget {
            Some(budget) if budget.reader.name == RULES.name => {
                if let Some(arguments) = rules::arguments(data) {
                    measure(budget, arguments.as_bytes());
                }
            }
            Some(budget) => measure(budget, data),
            None => {}
        }
        (self.check)(data);
    }
}

/// Each error of a manifest names a line of its text.
fn manifest(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Err(error) = Manifest::parse("plugin.toml", text, &Limits::default()) {
        assert!(error.line.is_none_or(|line| (1..=text.split('\n').count()).contains(&line)), "{error}");
    }
}

/// A provenance file that was read is written again as it was.
fn provenance(data: &[u8]) {
    let Ok(provenance) = Provenance::parse(data) else { return };
    assert_eq!(Provenance::parse(&provenance.to_json()).as_ref(), Ok(&provenance));
}

fn well_formed(json: &RawJson) {
    let text: Result<&RawValue, _> = serde_json::from_slice(json.as_bytes());
    assert!(text.is_ok(), "{json:?}: {text:?}");
}
