//! The real clock and the real dice: the one place that reads them.

#![allow(clippy::disallowed_methods, reason = "behind the ports that everybody else uses")]

use std::time::{SystemTime, UNIX_EPOCH};
use toolyard_dispatch::{Clock, Ids, Timestamp};

/// The clock of this machine.
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }
}

/// The same in nanoseconds since 1970, for traces.
pub fn unix_nanos() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// Random ids from the operating system.
pub struct RandomIds;

impl Ids for RandomIds {
    fn uuid(&self) -> uuid::Uuid {
        uuid::Uuid::new_v4()
    }
}
