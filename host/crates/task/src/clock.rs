//! Time and randomness, as ports, so that a run can be repeated.

use crate::wire::Timestamp;
use uuid::Uuid;

/// The source of time.
pub trait Clock: Send + Sync + 'static {
    /// Now, by the wall clock.
    fn now(&self) -> Timestamp;
}

/// The source of random ids.
pub trait Ids: Send + Sync + 'static {
    /// A random UUID of version 4.
    fn uuid(&self) -> Uuid;
}
