//! Provenance files: none makes the parser panic, none is slow, and one that was read is written again as it was.

#![no_main]

use libfuzzer_sys::fuzz_target;
use toolyard_fuzz::{Budget, within};
use toolyard_readers::Reader;
use toolyard_trust::provenance::Provenance;

/// A key is a point of the curve, which costs more than its bytes.
const BUDGET: Budget = Budget { fixed: 20_000, per_byte: 60 };

fuzz_target!(|data: &[u8]| {
    within(BUDGET, Reader::Provenance, data);
    let Ok(provenance) = Provenance::parse(data) else { return };
    assert_eq!(Provenance::parse(&provenance.to_json()).as_ref(), Ok(&provenance));
});
