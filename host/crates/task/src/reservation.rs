//! The reservation of a run: its memory, instances and stacks, set aside before it begins, so that
//! nothing runs out in the middle of a call.

use std::fmt;

/// The resources reserved for one run. Dropping this releases them.
pub struct Reservation(Option<Box<dyn Send + Sync>>);

impl Reservation {
    /// For a run that needs nothing that could run out.
    pub const UNBOUNDED: Self = Self(None);

    /// A reservation that `guard` releases when it is dropped.
    pub fn new(guard: impl Send + Sync + 'static) -> Self {
        Self(Some(Box::new(guard)))
    }
}

impl fmt::Debug for Reservation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Reservation" } else { "Reservation (unbounded)" })
    }
}

/// Why nothing can be reserved for a run now. Other runs release theirs when they end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ReservationError {
    /// As many runs as this limit are under way.
    #[error("this host runs {0} calls, its most")]
    Runs(u32),
    /// The pool of linear memories, which has this many, is used up.
    #[error("the pool of {0} memories is used up by other runs")]
    Memories(u32),
    /// The pool of tables, which has this many, is used up.
    #[error("the pool of {0} tables is used up by other runs")]
    Tables(u32),
    /// The memory mappings that the kernel allows a process are used up; this many are for guests.
    #[error("the {0} memory mappings that this machine has for guests are used up by other runs")]
    Mappings(u32),
    /// The memory for guests, this many bytes, is used up.
    #[error("the {} MiB of memory for guests are used up by other runs", .0 >> 20)]
    Memory(u64),
    /// The run needs more than all the memory for guests, which is this many bytes.
    #[error("the run needs more than the {} MiB of memory for all guests", .0 >> 20)]
    MemoryEver(u64),
}

impl ReservationError {
    /// Whether waiting does not help, because the machine never has what the run needs.
    #[must_use]
    pub const fn is_for_ever(self) -> bool {
        matches!(self, Self::MemoryEver(_))
    }

    /// The setting of the host, or of the machine, that it comes from.
    #[must_use]
    pub const fn setting(self) -> &'static str {
        match self {
            Self::Runs(_) | Self::Memories(_) | Self::Tables(_) => "calls.running",
            Self::Mappings(_) => "vm.max_map_count",
            Self::Memory(_) | Self::MemoryEver(_) => "calls.memory",
        }
    }
}
