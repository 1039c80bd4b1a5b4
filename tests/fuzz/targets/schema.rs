//! Schemas of components and values of clients: none causes a panic, compiling is not slow, a check keeps to
//! its budget, and a long check gives the same result as a short one.

#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::value::RawValue;
use toolyard_fuzz::{Budget, within};
use toolyard_protocol::RawJson;
use toolyard_readers::Reader;
use toolyard_schema::{Allowance, Bounds, Schema};

const BUDGET: Budget = Budget { fixed: 1_000_000, per_byte: 300 };

#[derive(serde::Deserialize)]
struct Input<'a> {
    #[serde(borrow)]
    schema: &'a RawValue,
    #[serde(borrow)]
    value: &'a RawValue,
}

fuzz_target!(|data: &[u8]| {
    within(BUDGET, Reader::Schema, data);
    let Ok(Input { schema, value }) = serde_json::from_slice(data) else { return };
    let schema = RawJson::trusted(schema.get().to_owned());
    let bounds = Bounds { bytes: 256 << 10, depth: 32 };
    let Ok(schema) = Schema::compile(&schema, bounds, &mut Allowance::of_component()) else { return };
    let value = RawJson::trusted(value.get().to_owned());
    let Some(short) = schema.check_quickly(&value) else { return };
    let mut look = || Ok(());
    let long = schema.check(&value, &mut toolyard_schema::Budget::looked_after(&mut look));
    assert_eq!(long, Ok(short));
});
