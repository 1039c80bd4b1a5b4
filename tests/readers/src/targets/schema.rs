//! Schemas of components and values of clients: none causes a panic, compiling is not slow, a check keeps to
//! its budget, and a long check gives the same result as a short one.

use crate::{BOUNDS, Checked};
use toolyard_protocol::RawJson;
use toolyard_schema::{Allowance, Budget, Schema};

pub(super) fn check(data: &[u8]) {
    let Ok(Checked { schema, value }) = serde_json::from_slice(data) else { return };
    let schema = RawJson::trusted(schema.get().to_owned());
    let Ok(schema) = Schema::compile(&schema, BOUNDS, &mut Allowance::of_component()) else { return };
    let value = RawJson::trusted(value.get().to_owned());
    let Some(short) = schema.check_quickly(&value) else { return };
    let mut look = || Ok(());
    let long = schema.check(&value, &mut Budget::looked_after(&mut look));
    assert_eq!(long, Ok(short));
}
