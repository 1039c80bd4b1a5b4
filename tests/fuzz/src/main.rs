//! Fuzzes the target that the environment variable `FUZZ_TARGET` names. Counts the cost of each input, and leads
//! the fuzzer to inputs that cost more.
//!
//! The compiler calls `__sanitizer_cov_trace_pc_guard` on every edge of the control flow, in the code of all
//! crates. The number of calls is the same on every machine, and grows like the number of instructions.
//! Precompiled code of the standard library, such as copying bytes, does not count.

#![no_main]

use libfuzzer_sys::fuzz_target;
use std::path::PathBuf;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use toolyard_readers::targets::{Budget, TARGETS, Target};

/// The number of edges so far. Exported by name for the assembly below.
#[unsafe(export_name = "toolyard_fuzz_edges")]
static EDGES: AtomicU64 = AtomicU64::new(0);

// In assembly, because a function in Rust would be instrumented and call itself.
#[cfg(target_arch = "x86_64")]
std::arch::global_asm!(
    ".globl __wrap___sanitizer_cov_trace_pc_guard",
    "__wrap___sanitizer_cov_trace_pc_guard:",
    "inc qword ptr [rip + toolyard_fuzz_edges]",
    "ret",
);
#[cfg(target_arch = "aarch64")]
std::arch::global_asm!(
    ".globl __wrap___sanitizer_cov_trace_pc_guard",
    "__wrap___sanitizer_cov_trace_pc_guard:",
    "adrp x0, toolyard_fuzz_edges",
    "add x0, x0, :lo12:toolyard_fuzz_edges",
    "ldr x1, [x0]",
    "add x1, x1, #1",
    "str x1, [x0]",
    "ret",
);

/// Called once for each object file; the edges need no numbers.
#[unsafe(no_mangle)]
extern "C" fn __wrap___sanitizer_cov_trace_pc_guard_init(_: *mut u32, _: *mut u32) {}

/// One counter for every two percent of a budget. libFuzzer keeps an input that sets a new one.
#[unsafe(link_section = "__libfuzzer_extra_counters")]
static COUNTERS: [AtomicU8; 64] = [const { AtomicU8::new(0) }; 64];

/// The file for the costliest input so far, from the environment.
static COSTLIEST: LazyLock<Option<PathBuf>> =
    LazyLock::new(|| std::env::var_os("COSTLIEST").map(PathBuf::from));

/// The share of its budget that this input uses, in per mille.
static MOST: AtomicU64 = AtomicU64::new(0);

static TARGET: LazyLock<Target> = LazyLock::new(|| {
    let name = std::env::var("FUZZ_TARGET").unwrap_or_default();
    TARGETS.into_iter().find(|target| target.name == name).unwrap_or_else(|| {
        eprintln!("FUZZ_TARGET={name} is not one of {}", TARGETS.map(|target| target.name).join(", "));
        std::process::exit(2);
    })
});

fuzz_target!(init: { LazyLock::force(&TARGET); }, |data: &[u8]| TARGET.run(data, within));

/// Lets the host read an input.
///
/// # Panics
/// If the cost exceeds the budget: the input is slow.
fn within(budget: Budget, data: &[u8]) {
    budget.reader.prepare();
    let before = EDGES.load(Ordering::Relaxed);
    budget.reader.read(data);
    let edges = EDGES.load(Ordering::Relaxed) - before;
    let allowed = budget.fixed + budget.per_byte * data.len() as u64;
    let share = usize::try_from(edges * 50 / allowed).unwrap_or(usize::MAX);
    COUNTERS[share.min(COUNTERS.len() - 1)].store(1, Ordering::Relaxed);
    if let Some(file) = &*COSTLIEST
        && MOST.fetch_max(edges * 1_000 / allowed, Ordering::Relaxed) < edges * 1_000 / allowed
    {
        std::fs::write(file, data).expect("COSTLIEST names a file that can be written");
        eprintln!(
            "COSTLIEST {edges} edges for {} bytes, {} % of the budget",
            data.len(),
            edges * 100 / allowed
        );
    }
    assert!(
        edges <= allowed,
        "a slow input: {} of {} bytes takes {edges} edges, the budget is {allowed}",
        TARGET.name,
        data.len()
    );
}
