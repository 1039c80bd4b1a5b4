//! The view of an observer who sees everything: each write when the store makes it, the start and end of each
//! run, and each reply when it arrives. It checks the promises about them.
//!
//! It keeps the first broken promise, which ends the simulation.

use crate::clients::{Known, Unfinished};
use crate::ledger::Ledger;
use crate::runs::Runs;
use crate::tally::{Happened, Tally};
use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::hash::{DefaultHasher, Hasher as _};
use std::sync::{Arc, Mutex, MutexGuard};
use toolyard_task::TaskId;

/// The observed world, shared by all its hosts and clients.
#[derive(Clone)]
pub struct World(Arc<Mutex<Seen>>);

/// The observations so far.
pub struct Seen {
    /// Milliseconds since the beginning.
    pub now: i64,
    /// The tasks, as they were written.
    pub ledger: Ledger,
    /// The runs of guests.
    pub runs: Runs,
    /// The counts of events.
    pub tally: Tally,
    /// Tasks that their clients know.
    pub known: Vec<Known>,
    /// The result of each task, as its client got it.
    pub results: BTreeMap<TaskId, String>,
    /// Questions that have reached a client with a connection.
    pub asked: Vec<Delivered>,
    /// Questions that a stateless client has seen.
    pub open: Vec<(TaskId, Vec<String>)>,
    /// Calls that the stateless client has to repeat.
    pub unfinished: Vec<Unfinished>,
    /// Whether no store call fails or is slow.
    pub calm: bool,
    /// The first promise that was broken.
    pub broken: Option<String>,
    trace: Trace,
}

/// A question that has reached a client with a connection.
#[derive(Debug, Clone)]
pub struct Delivered {
    /// The host that sent it.
    pub host: usize,
    /// The number of the client.
    pub client: usize,
    /// The id of the request.
    pub request: String,
}

struct Trace {
    hash: DefaultHasher,
    lines: Option<Vec<String>>,
}

impl World {
    /// An empty world. Keeps the lines of the trace if `keep`.
    #[must_use]
    pub fn new(keep: bool) -> Self {
        Self(Arc::new(Mutex::new(Seen {
            now: 0,
            ledger: Ledger::default(),
            runs: Runs::default(),
            tally: Tally::default(),
            known: Vec::new(),
            results: BTreeMap::new(),
            asked: Vec::new(),
            open: Vec::new(),
            unfinished: Vec::new(),
            calm: false,
            broken: None,
            trace: Trace { hash: DefaultHasher::new(), lines: keep.then(Vec::new) },
        })))
    }

    /// The observations. The caller holds the guard while nothing else may happen, and never across an await.
    pub fn see(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().expect("no thread panics here")
    }
}

impl Seen {
    /// Adds an event to the hash, and to the trace if kept.
    pub fn note(&mut self, what: fmt::Arguments<'_>) {
        struct Into<'a>(&'a mut DefaultHasher);
        impl fmt::Write for Into<'_> {
            fn write_str(&mut self, text: &str) -> fmt::Result {
                self.0.write(text.as_bytes());
                Ok(())
            }
        }
        self.trace.hash.write_i64(self.now);
        write!(Into(&mut self.trace.hash), "{what}").expect("a hash takes everything");
        if let Some(lines) = &mut self.trace.lines {
            lines.push(format!("{:>9} ms  {what}", self.now));
        }
    }

    /// Counts an event.
    pub fn count(&mut self, happened: Happened) {
        self.tally.count(happened);
    }

    /// Records a broken promise.
    pub fn broke(&mut self, promise: fmt::Arguments<'_>) {
        self.note(format_args!("BROKEN: {promise}"));
        if self.broken.is_none() {
            self.broken = Some(promise.to_string());
        }
    }

    /// Records a broken promise unless `holds`.
    pub fn demand(&mut self, holds: bool, promise: fmt::Arguments<'_>) {
        if !holds {
            self.broke(promise);
        }
    }

    /// A hash of all events so far.
    #[must_use]
    pub fn hash(&self) -> u64 {
        self.trace.hash.finish()
    }

    /// The lines of the trace, if kept.
    #[must_use]
    pub fn lines(&self) -> &[String] {
        self.trace.lines.as_deref().unwrap_or_default()
    }
}

/// The name of a task in a trace: ids are random, so their first characters differ.
pub fn short(id: TaskId) -> String {
    id.to_string()[..8].to_owned()
}
