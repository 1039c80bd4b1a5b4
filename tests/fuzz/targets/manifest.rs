//! Manifests, which come with plugins: none makes the parser panic, none is slow, and each error names a line
//! of the text.

#![no_main]

use libfuzzer_sys::fuzz_target;
use toolyard_fuzz::{Budget, within};
use toolyard_manifest::{Limits, Manifest};
use toolyard_readers::Reader;

const BUDGET: Budget = Budget { fixed: 40_000, per_byte: 60 };

fuzz_target!(|data: &[u8]| {
    within(BUDGET, Reader::Manifest, data);
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Err(error) = Manifest::parse("plugin.toml", text, &Limits::default()) {
        assert!(error.line.is_none_or(|line| (1..=text.split('\n').count()).contains(&line)), "{error}");
    }
});
