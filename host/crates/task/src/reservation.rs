//! The reservation of a run: its memory, instances and stacks, set aside before it begins, so that
//! nothing runs out in the middle of a call.

use std::fmt;

/// The resources reserved for one run. Dropping this releases them.
pub struct Reservation(Option<Box<dyn Send + Sync>>);

impl Reservation {
    /// For a run that takes nothing that could run out.
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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReservationError {
    /// So many runs are under way, the most.
    Runs(u32),
    /// The pool of linear memories, so many, is used up.
    Memories(u32),
    /// The pool of tables, so many, is used up.
    Tables(u32),
    /// The memory mappings that the kernel allows a process are used up; so many are
    /// for guests.
    Mappings(u32),
    /// The memory for guests, so many bytes, is used up.
    Memory(u64),
}

impl ReservationError {
    /// The setting of the host, or of the machine, that it comes from.
    #[must_use]
    pub const fn setting(self) -> &'static str {
        match self {
            Self::Runs(_) | Self::Memories(_) | Self::Tables(_) => "calls.running",
            Self::Mappings(_) => "vm.max_map_count",
            Self::Memory(_) => "calls.memory",
        }
    }
}

impl fmt::Display for ReservationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Runs(most) => write!(f, "this host runs {most} calls, its most"),
            Self::Memories(most) => write!(f, "the pool of {most} memories is used up by other runs"),
            Self::Tables(most) => write!(f, "the pool of {most} tables is used up by other runs"),
            Self::Mappings(most) => {
                write!(
                    f,
                    "the {most} memory mappings that this machine has for guests are used up by other runs"
                )
            }
            Self::Memory(most) => {
                write!(f, "the {} MiB of memory for guests are used up by other runs", most >> 20)
            }
        }
    }
}
