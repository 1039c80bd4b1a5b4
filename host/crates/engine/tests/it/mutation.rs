//! Damaged components: each is refused or loaded, and none crashes the host.

use crate::kit::{engine, guest, settings};
use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};
use std::time::Duration;
use toolyard_engine::{LoadError, Settings};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damaged_components_are_refused_or_loaded() {
    let whole = guest("versioned_v1");
    let engine = engine(&Settings { list_time: Duration::from_millis(200), ..settings() });
    let folder = crate::kit::Folder::new();
    let (mut loaded, mut refused) = (0, 0);
    let seeds = if std::env::var_os("NIGHTLY").is_some() { 300_u64 } else { 100 };
    for seed in 1..=seeds {
        let mut dice = SmallRng::seed_from_u64(seed);
        let mut bytes = whole.clone();
        match dice.random_range(0..4) {
            0 => bytes.truncate(dice.random_range(0..whole.len())),
            1 => {
                let at = dice.random_range(0..whole.len());
                bytes[at] ^= 1 << dice.random_range(0..8_u32);
            }
            2 => {
                // Most of the structure is near the beginning.
                let at = dice.random_range(0..4096.min(whole.len()));
                bytes[at] = dice.random_range(0..=u8::MAX);
            }
            _ => {
                let at = dice.random_range(0..whole.len());
                let end = (at + 1 + dice.random_range(0..64_usize)).min(whole.len());
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
