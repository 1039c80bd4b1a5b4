//! The real clock, the real random numbers and the limits of the process. Only this file touches them.

#![allow(clippy::disallowed_methods, reason = "behind the ports that everybody else uses")]

use rustix::process::{Resource, getrlimit, setrlimit};
use std::ffi::OsString;
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};
use toolyard_detach::Variables;
use toolyard_dispatch::{Clock, Ids, Timestamp};

/// The clock of this machine.
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }
}

/// The time in nanoseconds since 1970, for traces.
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

/// The number of file descriptors that the process may open; `None` if there is no limit.
pub fn descriptor_limit() -> Option<u64> {
    getrlimit(Resource::Nofile).current
}

/// Raises the soft limit of file descriptors to the hard limit: connections and the files of guests need more
/// than the usual 1,024. A refusal does not stop the start.
pub fn raise_descriptor_limit() {
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        limit.current = limit.maximum;
        if let Err(error) = setrlimit(Resource::Nofile, limit) {
            tracing::debug!("the limit of file descriptors cannot be raised: {error}");
        }
    }
}

static ASKED: Mutex<Variables> = Mutex::new(Variables::new());

/// Reads an environment variable that a manifest names. Records the name, since a plugin's behaviour may
/// depend on it.
pub fn variable(name: &str) -> Option<OsString> {
    let value = std::env::var_os(name);
    ASKED.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), value.clone());
    value
}

/// The variables that manifests have named so far.
pub fn asked_variables() -> Variables {
    ASKED.lock().unwrap_or_else(PoisonError::into_inner).clone()
}
