//! Reading the clock costs no memory: a guest may do it a million times in a second.

use crate::script::{BASE, again, recorder};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: it passes every call on to the allocator of the system, and a thread-local cell without a destructor
// allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of `dealloc`, and `alloc` used the same allocator.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The allocations of this work on this thread.
fn allocations(work: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.get();
    work();
    ALLOCATIONS.get() - before
}

#[test]
fn equal_operations_in_a_row_allocate_nothing() {
    let mut run = recorder();
    let mut record = |times: u64| {
        for _ in 0..times {
            run.clock(5).expect("a reading");
        }
        for _ in 0..times {
            run.poll(3).expect("live");
            run.record_poll(3, &[2, 1]).expect("recorded");
        }
        for _ in 0..times {
            run.ready().expect("live");
            run.record_ready(false).expect("recorded");
        }
    };
    record(1);
    let few = allocations(|| record(10));
    let many = allocations(|| record(10_000));
    assert!(many <= few + 4, "{few} allocations for ten of each, {many} for ten thousand");
    let mut again = again(&mut run);
    let mut replay = |times: u64| {
        (0..times).for_each(|_| assert!(again.clock(0).is_ok()));
        (0..times).for_each(|_| assert!(again.poll(3).is_ok()));
        (0..times).for_each(|_| assert!(again.ready().is_ok()));
    };
    replay(1);
    let few = allocations(|| replay(10));
    let many = allocations(|| replay(10_000));
    assert!(many <= few + 4, "{few} allocations for ten of each, {many} for ten thousand");
}

#[test]
fn readings_of_new_steps_allocate_only_for_the_buffer() {
    let mut run = recorder();
    let many = allocations(|| (0..10_000).for_each(|ms| assert!(run.clock(BASE + ms).is_ok())));
    assert!(many < 20, "{many} allocations for the buffer as it grows");
    let mut again = again(&mut run);
    let none = allocations(|| (0..9_999).for_each(|ms| assert_eq!(again.clock(0), Ok(BASE + ms))));
    assert_eq!(none, 0);
}
