//! Time and chance, as ports, so that a run can be repeated.

use crate::wire::Timestamp;
use uuid::Uuid;

/// Where the time comes from.
pub trait Clock: Send + Sync + 'static {
    /// Now, by the wall clock.
    fn now(&self) -> Timestamp;
}

/// Where random ids come from.
pub trait Ids: Send + Sync + 'static {
    /// A random UUID of version 4.
    fn uuid(&self) -> Uuid;
}
