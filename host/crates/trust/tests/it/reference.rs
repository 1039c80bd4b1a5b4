//! The examples in `host/docs/reference/toolyard-lock.md` are what this crate writes. `UPDATE_DOCS=1` rewrites them.

use crate::lock::{entry, lock, unsigned};
use crate::signed::public;
use toolyard_trust::provenance::Provenance;
use toolyard_trust::signature::Signature;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/toolyard-lock.md");

#[test]
fn the_reference_shows_the_files_as_they_are_written() {
    let provenance = Provenance {
        manifest: Some(b"{}".to_vec()),
        signatures: vec![
            Signature::SimpleSigning { payload: b"{}".to_vec(), signature: vec![0x30, 0x06] },
            Signature::Bundle(b"{}".to_vec()),
        ],
        keys: vec![public("cosign3.pub")],
    };
    let provenance = String::from_utf8(provenance.to_json()).unwrap();
    let lock = lock(&[entry("fetch.wasm"), unsigned("hash.wasm")]).to_text();
    let old = std::fs::read_to_string(PAGE).unwrap();
    let page = with_block(&with_block(&old, "toml", &lock), "json", &provenance);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(PAGE, &page).unwrap();
    } else {
        assert_eq!(old, page, "UPDATE_DOCS=1 rewrites the examples");
    }
}

/// The page with this text in its only block of a language.
fn with_block(page: &str, language: &str, text: &str) -> String {
    let (before, rest) = page.split_once(&format!("```{language}\n")).expect("a block");
    let (_, after) = rest.split_once("```").expect("its end");
    format!("{before}```{language}\n{text}```{after}")
}
