//! Damaged components: each is refused or loaded, and none crashes the host.

use crate::kit::{engine, guest, settings};
use std::time::Duration;
use toolyard_engine::{LoadError, Settings};

/// A small random number generator, so that a failure can be reproduced from its seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damaged_components_are_refused_or_loaded() {
    let whole = guest("versioned_v1");
    let engine = engine(&Settings { list_time: Duration::from_millis(200), ..settings() });
    let folder = crate::kit::Folder::new();
    let (mut loaded, mut refused) = (0, 0);
    let seeds = if std::env::var_os("NIGHTLY").is_some() { 300_u64 } else { 100 };
    for seed in 1..=seeds {
        let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut bytes = whole.clone();
        match dice.below(4) {
            0 => bytes.truncate(dice.below(whole.len())),
            1 => {
                let at = dice.below(whole.len());
                bytes[at] ^= 1 << dice.below(8);
            }
            2 => {
                // Most of the structure is near the beginning.
                let at = dice.below(4096.min(whole.len()));
                bytes[at] = dice.below(256) as u8;
            }
            _ => {
                let at = dice.below(whole.len());
                let end = (at + 1 + dice.below(64)).min(whole.len());
                bytes.drain(at..end);
            }
        }
        let name = format!("m{seed}.wasm");
        folder.put(&name, &bytes);
        match engine.check(&folder.file(&name)).await {
            Ok(_) => loaded += 1,
            Err(LoadError { why: toolyard_engine::Refusal::Internal(what), .. }) => {
                panic!("seed {seed}: {what}")
            }
            Err(_) => refused += 1,
        }
        folder.remove(&name);
    }
    assert!(loaded > 0 && refused > seeds / 3, "{loaded} loaded, {refused} refused");
}
