//! The random numbers of a run. They follow from its seed, so the journal has no entry for them.

use crate::begin::Seed;
use rand::rngs::ChaCha20Rng;
use rand::{Rng as _, SeedableRng as _};

/// The streams of one seed are independent: a guest that sees one of them learns nothing about another.
const SECURE: u64 = 0;
const INSECURE: u64 = 1;
const INSECURE_SEED: u64 = 2;

fn stream(seed: &Seed, number: u64) -> ChaCha20Rng {
    let mut generator = ChaCha20Rng::from_seed(seed.0);
    generator.set_stream(number);
    generator
}

/// The generator for `wasi:random/random`: ChaCha20, from the beginning of its stream.
#[must_use]
pub fn secure_random(seed: &Seed) -> ChaCha20Rng {
    stream(seed, SECURE)
}

/// The generator for `wasi:random/insecure`: ChaCha20, from the beginning of its stream.
#[must_use]
pub fn insecure_random(seed: &Seed) -> ChaCha20Rng {
    stream(seed, INSECURE)
}

/// The value of `wasi:random/insecure-seed`.
#[must_use]
pub fn insecure_seed(seed: &Seed) -> u128 {
    let mut generator = stream(seed, INSECURE_SEED);
    let mut bytes = [0; 16];
    generator.fill_bytes(&mut bytes);
    u128::from_le_bytes(bytes)
}
