//! Room for a run: what it takes of the machine, kept free for it before it begins,
//! so that nothing runs out in the middle of a call.

use std::fmt;

/// Room for one run. It is given back when this is dropped.
pub struct Room(Option<Box<dyn Send + Sync>>);

impl Room {
    /// For a run that takes nothing that could run out.
    pub const UNBOUNDED: Self = Self(None);

    /// Room that `held` gives back when it is dropped.
    pub fn held(held: impl Send + Sync + 'static) -> Self {
        Self(Some(Box::new(held)))
    }
}

impl fmt::Debug for Room {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Room" } else { "Room (unbounded)" })
    }
}

/// Why there is no room. More of it comes free when other runs end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shortage {
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

impl Shortage {
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

impl fmt::Display for Shortage {
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
