//! The real clock, the real random numbers and the limits of the process. Only this file touches them.

#![allow(clippy::disallowed_methods, reason = "behind the ports that everybody else uses")]

use rustix::process::{Resource, getrlimit, setrlimit};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};
use toolyard_detach::Variables;
use toolyard_dispatch::{Clock, Ids, Timestamp};
use toolyard_manifest::{Limits, Manifest, Source};

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

/// The environment variables that the manifests in this folder name as secrets, with their values. A manifest
/// that is not valid has none: its plugin is not loaded.
pub fn named_variables(plugins: &Path) -> Variables {
    let entries = std::fs::read_dir(plugins).into_iter().flatten().flatten();
    let manifests = entries.map(|entry| entry.path()).filter(|path| {
        path.extension().is_some_and(|kind| kind == "toml")
            && path.metadata().is_ok_and(|file| file.is_file() && file.len() <= toolyard_manifest::MAX_BYTES)
    });
    let texts = manifests.filter_map(|path| std::fs::read_to_string(path).ok());
    let secrets = texts
        .filter_map(|text| Manifest::parse("", &text, &Limits::default()).ok())
        .flat_map(|manifest| manifest.secrets);
    let named = secrets.filter_map(|secret| match secret.source {
        Source::Variable(name) => Some(name),
        Source::File(_) | Source::Command(_) => None,
    });
    named.map(|name| (name.clone(), std::env::var_os(&name))).collect()
}
