//! Gives back the memory of stacks that guests have used deeply.
//!
//! wasmtime hands a stack to the next run with all pages that the last one has touched, and uses the free stacks in
//! turn. So a guest that calls itself deeply, again and again, would make all stacks resident for as long as the host
//! runs, 2.5 MiB each. To clear each stack after its run (`Config::async_stack_zeroing`) would cost each call several
//! percent, so free stacks are trimmed from time to time instead.

use futures_util::FutureExt as _;
use rustix::mm::{Advice, madvise};
use wasmtime::{Func, Store};

/// The part of a stack that stays resident, at its top: ordinary runs use no more.
const KEPT: usize = 64 << 10;
/// wasmtime deals the stacks to at most so many shards, one for each core, and the threads of a process to the shards
/// in turn.
const MAX_SHARDS: usize = 16;

/// Trims the stacks of this size that no run uses now.
pub(crate) fn trim(wasm: &wasmtime::Engine, size: usize) {
    let Some(pool) = wasm.pooling_allocator_metrics() else { return };
    let shards = std::thread::available_parallelism().map_or(1, |cores| cores.get().min(MAX_SHARDS));
    for _ in 0..shards {
        // A thread gets stacks of its shard, the one that was free for longest first.
        let trim_shard = || (0..pool.unused_warm_stacks()).for_each(|_| trim_one(wasm, size));
        let thread = std::thread::Builder::new().name("stacks".to_owned());
        std::thread::scope(|scope| {
            // Without a thread there is no trim this time. It cannot panic.
            let _ = thread.spawn_scoped(scope, trim_shard).map(std::thread::ScopedJoinHandle::join);
        });
    }
}

/// Takes a stack, trims it from a function that runs on it, and gives it back.
fn trim_one(wasm: &wasmtime::Engine, size: usize) {
    let mut store = Store::new(wasm, ());
    let on_stack = Func::wrap_async(&mut store, move |_, (): ()| Box::new(async move { trim_own(size) }));
    // The function waits for nothing. If there is no stack, all are in use.
    let _ = on_stack.call_async(&mut store, &[], &mut []).now_or_never();
}

/// Trims the stack that this function runs on, which has `size` bytes and is nearly empty.
fn trim_own(size: usize) {
    let local = 0_u8;
    let here = std::hint::black_box(&raw const local);
    // Less than KEPT of the stack is above `here`, so the stack begins before this address.
    let Some(length) = size.checked_sub(2 * KEPT) else { return };
    let page = page_size();
    let end = here.map_addr(|here| (here - KEPT) / page * page).cast_mut();
    let begin = end.map_addr(|end| end - length / page * page);
    // SAFETY: the pages are part of the mapping of this stack, and more than KEPT below all that is on it. So nothing
    // is stored there, and a later run finds zeros.
    let _ = unsafe { madvise(begin.cast(), end.addr() - begin.addr(), Advice::LinuxDontNeed) };
}

/// The size of a page in bytes. Not by rustix, which reads the kernel's own library for it and crashes under valgrind.
pub(crate) fn page_size() -> usize {
    // SAFETY: the function has no preconditions.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(size).expect("pages have a size")
}

#[cfg(test)]
mod tests {
    use super::*;
    use wasmtime::{Config, Instance, InstanceAllocationStrategy, Module, PoolingAllocationConfig};

    /// No other engine of this process has stacks of this size.
    const SIZE: usize = (3 << 20) + (64 << 10);

    /// The resident bytes of all mappings of this size.
    fn resident() -> usize {
        let maps = std::fs::read_to_string("/proc/self/smaps").expect("Linux");
        let mut is_stack = false;
        let mut sum = 0;
        for line in maps.lines() {
            let first = line.split_whitespace().next().unwrap_or_default();
            if let Some((from, to)) = first.split_once('-') {
                let address = |text| usize::from_str_radix(text, 16).expect("an address");
                is_stack = address(to) - address(from) == SIZE;
            } else if first == "Rss:" && is_stack {
                sum +=
                    line.split_whitespace().nth(1).and_then(|text| text.parse::<usize>().ok()).unwrap_or(0)
                        << 10;
            }
        }
        sum
    }

    #[tokio::test]
    async fn stacks_that_were_used_deeply_are_given_back_and_serve_again() {
        let mut config = Config::new();
        config.concurrency_support(false).async_stack_size(SIZE).max_wasm_stack(2 << 20);
        let mut pool = PoolingAllocationConfig::new();
        pool.total_stacks(200).total_core_instances(200).total_memories(0).total_tables(0);
        config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool));
        let wasm = wasmtime::Engine::new(&config).expect("starts");
        let recurse = wat::parse_str("(module (func $f (export \"f\") (call $f)))").expect("valid WAT");
        let recurse = Module::new(&wasm, recurse).expect("compiles");
        let mut stores = Vec::new();
        // At once, so that each has its own stack.
        for _ in 0..20 {
            let mut store = Store::new(&wasm, ());
            let instance = Instance::new_async(&mut store, &recurse, &[]).await.expect("instantiates");
            let f = instance.get_typed_func::<(), ()>(&mut store, "f").expect("exported");
            f.call_async(&mut store, ()).await.expect_err("the stack is exhausted");
            stores.push(store);
        }
        let most = resident();
        assert!(most > 20 << 20, "{most}");
        trim(&wasm, SIZE);
        assert_eq!(resident(), most, "stacks in use stay as they are");
        drop(stores);
        assert_eq!(resident(), most, "wasmtime keeps them");
        trim(&wasm, SIZE);
        let kept = resident();
        assert!(kept <= 20 * 2 * KEPT, "{kept}");
        let mut store = Store::new(&wasm, ());
        let instance = Instance::new_async(&mut store, &recurse, &[]).await.expect("instantiates");
        let f = instance.get_typed_func::<(), ()>(&mut store, "f").expect("exported");
        f.call_async(&mut store, ()).await.expect_err("it has a stack again");
    }
}
