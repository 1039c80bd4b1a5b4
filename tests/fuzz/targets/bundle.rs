//! Signatures that come with plugins: none makes the parser panic, and none is slow.

#![no_main]

use libfuzzer_sys::fuzz_target;
use toolyard_fuzz::{Budget, within};
use toolyard_readers::Reader;

/// Verifying with one key costs most, and its cost is fixed.
const BUDGET: Budget = Budget { fixed: 200_000, per_byte: 60 };

fuzz_target!(|data: &[u8]| within(BUDGET, Reader::Bundle, data));
