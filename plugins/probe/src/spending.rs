//! Tools that use up processor time, memory or output, or crash.

use std::hint::black_box;
use std::time::{Duration, Instant};

use toolyard_plugin::Error;

use crate::inputs::Size;

const MIB: usize = 1 << 20;

/// The number of rounds between two reads of the clock. Reading it calls the host, and this tool demonstrates
/// a guest that computes without calling the host. A hundred thousand rounds take well under a millisecond.
const ROUNDS_PER_LOOK: u64 = 100_000;

/// Computes until the clock has advanced by `ms` milliseconds.
pub fn spin(ms: u64, clock: impl Fn() -> Instant) {
    let began = clock();
    let length = Duration::from_millis(ms);
    let mut state = 1_u64;
    loop {
        for _ in 0..ROUNDS_PER_LOOK {
            state = black_box(state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
        }
        if clock().duration_since(began) >= length {
            return;
        }
    }
}

/// Traps, as a guest with a bug would.
pub fn trap() -> ! {
    #[cfg(target_arch = "wasm32")]
    core::arch::wasm32::unreachable();
    #[cfg(not(target_arch = "wasm32"))]
    std::process::abort();
}

/// Allocates memory and writes to every page of it, so that it is really used. If the host refuses more, the
/// result says how much was allocated.
pub fn grow(Size { mib }: Size) -> Result<String, Error> {
    let mut taken: Vec<Vec<u8>> = Vec::new();
    for had in 0..mib {
        let mut chunk = Vec::new();
        if taken.try_reserve(1).is_err() || chunk.try_reserve_exact(MIB).is_err() {
            // The memory is freed first, or the message might not fit.
            drop(taken);
            return Err(Error::new(format!("memory was refused after {had} of {mib} MiB")));
        }
        chunk.resize(MIB, 0xA5);
        taken.push(black_box(chunk));
    }
    Ok(format!("grew {mib} MiB"))
}

/// A text of `mib` MiB, in lines of 64 bytes.
pub fn flood(Size { mib }: Size) -> Result<String, Error> {
    const LINE: &str = "The quick brown fox jumps over the lazy dog, again and again...\n";
    const { assert!(MIB.is_multiple_of(LINE.len()), "whole lines make a MiB") };
    // On a 64-bit host this cannot overflow; on wasm32, 4,096 MiB would.
    let mut text = String::new();
    match (mib as usize).checked_mul(MIB) {
        Some(bytes) if text.try_reserve_exact(bytes).is_ok() => {
            for _ in 0..bytes / LINE.len() {
                text.push_str(LINE);
            }
            Ok(text)
        }
        _ => Err(Error::new(format!("memory was refused for {mib} MiB of text"))),
    }
}
