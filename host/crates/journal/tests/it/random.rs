//! The generators are part of the format: other numbers would make every journal diverge.

use crate::format::hex;
use toolyard_journal::{Seed, insecure_random, insecure_seed, secure_random};

fn first(mut generator: impl rand::Rng) -> String {
    let mut bytes = [0; 32];
    generator.fill_bytes(&mut bytes);
    hex(&bytes)
}

#[test]
fn the_streams_of_a_seed_never_change() {
    // Computed by another implementation of ChaCha20.
    let seed = Seed(std::array::from_fn(|place| place as u8));
    let (secure, insecure) = (first(secure_random(&seed)), first(insecure_random(&seed)));
    assert_eq!(secure, "39fd2b7dd9c5196a8dbd0377b8dc4a498a35d86fbcde6accb2cc7d4cd8ea2492");
    assert_eq!(insecure, "2fa4f10250808e89a25231e50fdf6ee071c65f21ef9eee784c3f2d89061ae895");
    assert_eq!(insecure_seed(&seed), 0x0684_3ecf_99a4_c34a_17d8_654c_d175_b254);
}

#[test]
fn a_seed_is_not_shown() {
    assert_eq!(format!("{:?}", Seed([0x61; 32])), "Seed(…)");
    let json = serde_json::to_string(&Seed([0xa1; 32])).expect("JSON");
    assert_eq!(json, format!("\"{}\"", "a1".repeat(32)));
    assert_eq!(serde_json::from_str::<Seed>(&json).expect("a seed"), Seed([0xa1; 32]));
    for bad in ["\"\"", "\"a1\"", &json.replace('a', "g"), &json.replace("a1a1a1", "a1a1")] {
        assert!(serde_json::from_str::<Seed>(bad).is_err(), "{bad}");
    }
}
