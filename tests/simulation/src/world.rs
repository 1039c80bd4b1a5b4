//! What an observer sees who sees everything: each write as it lands, each run as it
//! begins and ends, each reply as it arrives; and what must hold of them.
//!
//! The first promise that is found broken is kept and ends the simulation.

use crate::clients::{Known, Unfinished};
use crate::ledger::Ledger;
use crate::runs::Runs;
use crate::tally::{Happened, Tally};
use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::hash::{DefaultHasher, Hasher as _};
use std::sync::{Arc, Mutex, MutexGuard};
use toolyard_task::TaskId;

/// The world, shared by all its hosts and clients.
#[derive(Clone)]
pub struct World(Arc<Mutex<Seen>>);

/// What was seen so far.
pub struct Seen {
    /// Milliseconds since the beginning.
    pub now: i64,
    /// The tasks, as they were written.
    pub ledger: Ledger,
    /// The runs of guests.
    pub runs: Runs,
    /// How often what happened.
    pub tally: Tally,
    /// Tasks that their clients were told of.
    pub known: Vec<Known>,
    /// What each task came to, as its client was told.
    pub results: BTreeMap<TaskId, String>,
    /// Questions that have reached a client with a connection.
    pub asked: Vec<Delivered>,
    /// Questions that a stateless client has seen.
    pub open: Vec<(TaskId, Vec<String>)>,
    /// Calls of the stateless client that have to be made again.
    pub unfinished: Vec<Unfinished>,
    /// No store fails, and none is slow.
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
    /// Which client.
    pub client: usize,
    /// The id of the request.
    pub request: String,
}

struct Trace {
    hash: DefaultHasher,
    lines: Option<Vec<String>>,
}

impl World {
    /// Nothing has happened yet. Lines of what happens are kept if `keep`.
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

    /// What was seen. Held for as long as nothing else may happen, and never over an await.
    pub fn see(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().expect("nobody panics here")
    }
}

impl Seen {
    /// Writes down that this happened.
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

    /// Counts it.
    pub fn count(&mut self, happened: Happened) {
        self.tally.count(happened);
    }

    /// A promise is broken.
    pub fn broke(&mut self, promise: fmt::Arguments<'_>) {
        self.note(format_args!("BROKEN: {promise}"));
        if self.broken.is_none() {
            self.broken = Some(promise.to_string());
        }
    }

    /// Breaks the promise unless this holds.
    pub fn demand(&mut self, holds: bool, promise: fmt::Arguments<'_>) {
        if !holds {
            self.broke(promise);
        }
    }

    /// A number for all that has happened so far.
    #[must_use]
    pub fn hash(&self) -> u64 {
        self.trace.hash.finish()
    }

    /// What happened, if it was kept.
    #[must_use]
    pub fn lines(&self) -> &[String] {
        self.trace.lines.as_deref().unwrap_or_default()
    }
}

/// A task's name in a trace: ids are random, so their beginnings differ.
pub fn short(id: TaskId) -> String {
    id.to_string()[..8].to_owned()
}
