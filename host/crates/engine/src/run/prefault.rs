//! Prefaults the memory pages that every run of a tool writes.
//!
//! A guest's memory begins as a private mapping of its component's image. If a guest reads a page and writes it
//! later, the kernel replaces the page by a copy, and each such fault interrupts the other cores that run this
//! process. A run of Python writes some 400 scattered pages, and wasmtime keeps at most 32 regions of them from
//! run to run (`host/docs/upstream/wasmtime-pagemap-regions.md`). So with two callers a Python tool was slower than
//! with one. Copying a page that nothing has read yet interrupts no other core.
//!
//! The first runs of a tool show which pages all of them write. Their content does not depend on it, only their cost.

use crate::component::exports::Called;
use crate::guest::state::GuestState;
use crate::limits::stacks::page_size;
use crate::run::invoke::Call;
use parking_lot::Mutex;
use rustix::mm::{Advice, madvise};
use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::sync::OnceLock;
use wasmtime::component::__internal::{CanonicalAbiInfo, InstanceType, InterfaceType, LowerContext};
use wasmtime::component::{ComponentExportIndex, ComponentType, Instance, Lower};
use wasmtime::{Result, Store};

/// The number of runs that are observed.
const OBSERVED_RUNS: u32 = 8;
/// The maximum size of the observed part of a memory, in bytes.
const MAX_OBSERVED_BYTES: usize = 64 << 20;
/// If wasmtime keeps all but so few pages from run to run, a tool is left alone.
const MIN_PAGES: usize = 32;
/// Two ranges with at most this many pages between them are prefaulted by one system call.
const MAX_GAP: usize = 1;

/// The pages that every run of one tool writes.
#[derive(Debug, Default)]
pub(crate) struct Prefault {
    observed: Mutex<Observed>,
    /// Ranges of page numbers, ascending; set when enough runs are observed.
    ranges: OnceLock<Box<[Range<usize>]>>,
}

/// The runs so far.
#[derive(Debug, Default)]
struct Observed {
    runs: u32,
    /// The pages that all of them have written, ascending.
    pages: Vec<usize>,
}

/// A memory at the begin of an observed run.
struct AtBegin {
    addresses: Range<usize>,
    /// The pages that wasmtime has kept from an earlier run, ascending.
    kept: Vec<usize>,
}

impl Prefault {
    /// Prefaults the pages, or begins to observe a run if they are not known yet.
    fn begin(&self, memory: &mut [u8]) -> Option<AtBegin> {
        let Some(ranges) = self.ranges.get() else {
            let start = memory.as_ptr().addr();
            let addresses = start..start + memory.len().min(MAX_OBSERVED_BYTES);
            let Ok(kept) = written_pages(&addresses) else {
                // Without `/proc` nothing can be learned.
                let _ = self.ranges.set(Box::default());
                return None;
            };
            return Some(AtBegin { addresses, kept });
        };
        let size = page_size();
        for pages in ranges {
            // A memory may begin smaller than it was when it was observed.
            let Some(part) = memory.get_mut(pages.start * size..pages.end * size) else { break };
            // A failure costs only time: the guest's own faults copy what this did not.
            //
            // SAFETY: the slice is mapped and exclusively borrowed, and this advice changes no content.
            let _ = unsafe { madvise(part.as_mut_ptr().cast(), part.len(), Advice::LinuxPopulateWrite) };
        }
        None
    }

    /// Learns from the end of an observed run which pages runs write.
    fn learn(&self, begun: &AtBegin) {
        let Ok(mut pages) = written_pages(&begun.addresses) else { return };
        let mut observed = self.observed.lock();
        if observed.runs > 0 {
            pages.retain(|page| observed.pages.binary_search(page).is_ok());
        }
        observed.pages = pages;
        observed.runs += 1;
        if observed.runs == OBSERVED_RUNS {
            let pages = std::mem::take(&mut observed.pages);
            let dropped = pages.iter().filter(|page| begun.kept.binary_search(page).is_err()).count();
            // All pages if any: with the small gaps filled, wasmtime keeps more of them.
            let ranges = if dropped < MIN_PAGES { Box::default() } else { ranges(&pages) };
            // Only one run is the last of those, so it is not set yet.
            let _ = self.ranges.set(ranges);
        }
    }
}

/// Joins ascending page numbers to ranges.
fn ranges(pages: &[usize]) -> Box<[Range<usize>]> {
    let mut ranges: Vec<Range<usize>> = Vec::new();
    for &page in pages {
        match ranges.last_mut() {
            Some(last) if page - last.end <= MAX_GAP => last.end = page + 1,
            _ => ranges.push(page..page + 1),
        }
    }
    ranges.into()
}

/// The pages of these addresses that are in memory and belong to no file, ascending and counted from the first: the
/// written ones of a private mapping. Source: `Documentation/admin-guide/mm/pagemap.rst` of Linux.
fn written_pages(addresses: &Range<usize>) -> io::Result<Vec<usize>> {
    const PRESENT: u64 = 1 << 63;
    const OF_FILE: u64 = 1 << 61;
    let size = page_size();
    let mut entries = vec![0; addresses.len() / size * 8];
    File::open("/proc/self/pagemap")?.read_exact_at(&mut entries, (addresses.start / size * 8) as u64)?;
    let entries =
        entries.chunks_exact(8).map(|entry| u64::from_ne_bytes(entry.try_into().unwrap_or_default()));
    let written = entries.enumerate().filter(|(_, entry)| entry & (PRESENT | OF_FILE) == PRESENT);
    Ok(written.map(|(page, _)| page).collect())
}

/// A call of the contract's function `call`, whose pages are prefaulted.
pub(crate) struct PrefaultedCall<'a> {
    pub export: &'a ComponentExportIndex,
    pub name: &'a str,
    pub arguments: &'a str,
    pub prefault: &'a Prefault,
}

impl Call for PrefaultedCall<'_> {
    type Returned = Called;

    async fn call(self, store: &mut Store<GuestState>, instance: Instance) -> Result<Called> {
        let Self { export, name, arguments, prefault } = self;
        let name = FirstArgument { text: name, prefault, begun: OnceLock::new() };
        let function = instance.get_typed_func::<(&FirstArgument<'_>, &str), Called>(&mut *store, export)?;
        let called = function.call_async(&mut *store, (&name, arguments)).await;
        if let Some(begun) = name.begun.get() {
            // Before the store is dropped, which resets the memory.
            prefault.learn(begun);
        }
        called
    }
}

/// The first argument of a call. It is copied into the guest's memory before the guest runs, and nothing else tells a
/// host where the memory of a component is.
struct FirstArgument<'a> {
    text: &'a str,
    prefault: &'a Prefault,
    /// Set if this run is observed.
    begun: OnceLock<AtBegin>,
}

// SAFETY: all items are those of `str`.
unsafe impl ComponentType for FirstArgument<'_> {
    type Lower = <str as ComponentType>::Lower;
    const ABI: CanonicalAbiInfo = <str as ComponentType>::ABI;

    fn typecheck(ty: &InterfaceType, types: &InstanceType<'_>) -> Result<()> {
        <str as ComponentType>::typecheck(ty, types)
    }
}

// SAFETY: the functions of `str` do the lowering.
unsafe impl Lower for FirstArgument<'_> {
    fn linear_lower_to_flat<T>(
        &self,
        cx: &mut LowerContext<'_, T>,
        ty: InterfaceType,
        dst: &mut MaybeUninit<Self::Lower>,
    ) -> Result<()> {
        if let Some(begun) = self.prefault.begin(cx.as_slice_mut()) {
            // An argument is lowered once.
            let _ = self.begun.set(begun);
        }
        self.text.linear_lower_to_flat(cx, ty, dst)
    }

    fn linear_lower_to_memory<T>(
        &self,
        cx: &mut LowerContext<'_, T>,
        ty: InterfaceType,
        offset: usize,
    ) -> Result<()> {
        self.text.linear_lower_to_memory(cx, ty, offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

    const PAGES: usize = 256;

    /// Like a guest's memory: a private mapping of a file.
    struct Memory(*mut u8);

    impl Memory {
        fn map(image: &File) -> Self {
            let protection = ProtFlags::READ | ProtFlags::WRITE;
            // SAFETY: a new mapping, at an address of the kernel's choice.
            let start = unsafe {
                mmap(std::ptr::null_mut(), PAGES * page_size(), protection, MapFlags::PRIVATE, image, 0)
            };
            Self(start.expect("maps").cast())
        }

        fn bytes(&mut self) -> &mut [u8] {
            // SAFETY: mapped by `map`, for as long as `self` lives.
            unsafe { std::slice::from_raw_parts_mut(self.0, PAGES * page_size()) }
        }

        /// Runs a guest that reads everything and writes these pages, and returns its page faults.
        fn run(&mut self, prefault: &Prefault, writes: &[usize]) -> i64 {
            let begun = prefault.begin(self.bytes());
            let faults = || {
                let stat = std::fs::read_to_string("/proc/thread-self/stat").expect("/proc");
                let fields = stat.rsplit(')').next().expect("fields").split(' ');
                fields.clone().nth(8).and_then(|faults| faults.parse::<i64>().ok()).expect("minflt")
            };
            // Reading is no part of the comparison.
            let sum: usize = self.bytes().iter().step_by(page_size()).map(|byte| usize::from(*byte)).sum();
            assert_eq!(sum, PAGES * 7, "the image");
            let before = faults();
            for page in writes {
                self.bytes()[page * page_size()] = 7;
            }
            let after = faults();
            if let Some(begun) = begun {
                prefault.learn(&begun);
            }
            after - before
        }
    }

    impl Drop for Memory {
        fn drop(&mut self) {
            // SAFETY: no reference to the mapping is left.
            unsafe { munmap(self.0.cast(), PAGES * page_size()) }.expect("unmaps");
        }
    }

    fn image() -> File {
        let file = tempfile::tempfile().expect("a file");
        file.write_all_at(&vec![7; PAGES * page_size()], 0).expect("an image");
        file
    }

    #[test]
    fn pages_that_every_run_writes_cause_no_faults_once_they_are_known() {
        let image = image();
        let always: Vec<usize> = (0..PAGES).step_by(4).collect();
        let prefault = Prefault::default();
        for run in 0..OBSERVED_RUNS as usize {
            let mut writes = always.clone();
            writes.push(run * 4 + 2);
            let faults = Memory::map(&image).run(&prefault, &writes);
            assert!(faults >= writes.len() as i64, "run {run}: {faults} faults");
        }
        assert_eq!(Memory::map(&image).run(&prefault, &always), 0);
        let others: Vec<usize> = always.iter().map(|page| page + 2).collect();
        let faults = Memory::map(&image).run(&prefault, &others);
        assert!(faults >= others.len() as i64, "pages of single runs are not copied: {faults} faults");
    }

    #[test]
    fn pages_that_are_kept_between_runs_need_no_system_calls() {
        let writes: Vec<usize> = (0..PAGES).step_by(4).collect();
        let prefault = Prefault::default();
        let mut memory = Memory::map(&image());
        for _ in 0..OBSERVED_RUNS {
            memory.run(&prefault, &writes);
        }
        assert_eq!(prefault.ranges.get().map(|ranges| ranges.len()), Some(0));
    }

    #[test]
    fn neighbours_are_prefaulted_together() {
        assert_eq!(*ranges(&[0, 1, 2, 4, 7, 9]), [0..5, 7..10]);
        assert!(ranges(&[]).is_empty());
    }
}
