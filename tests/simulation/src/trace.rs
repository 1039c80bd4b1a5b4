//! The record of one run: its events and their counts, and the first promise that was broken.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::hash::{DefaultHasher, Hasher as _};
use std::sync::{Arc, Mutex, MutexGuard};

/// The number of times that each event happened.
pub type Counts = BTreeMap<&'static str, u64>;

/// The outcome of a run.
pub struct Course {
    /// The promise that was broken, if one was.
    pub broken: Option<String>,
    /// The counts of its events.
    pub counts: Counts,
    /// A hash of all events in order.
    pub hash: u64,
    /// The lines of its trace, if kept.
    pub lines: Vec<String>,
}

/// The events so far.
#[derive(Default)]
pub struct Trace {
    /// The first promise that was broken.
    pub broken: Option<String>,
    counts: Counts,
    hash: DefaultHasher,
    lines: Option<Vec<String>>,
}

impl Trace {
    /// An empty trace. Keeps its lines if `keep`.
    #[must_use]
    pub fn new(keep: bool) -> Self {
        Self { lines: keep.then(Vec::new), ..Self::default() }
    }

    /// The outcome of the run.
    pub fn course(&self) -> Course {
        let (broken, counts) = (self.broken.clone(), self.counts.clone());
        Course { broken, counts, hash: self.hash.finish(), lines: self.lines.clone().unwrap_or_default() }
    }
}

/// [`Observed::demand`] with the promise as a format string.
macro_rules! demand {
    ($seen:expr, $holds:expr, $($promise:tt)+) => {
        $seen.demand($holds, format_args!($($promise)+))
    };
}
pub(crate) use demand;

/// The observations of a run.
pub trait Observed {
    /// The trace of the run.
    fn trace(&mut self) -> &mut Trace;

    /// Milliseconds since the beginning.
    fn time(&self) -> i64;

    /// Adds an event to the hash, and to the lines if kept.
    fn note(&mut self, what: fmt::Arguments<'_>) {
        let mut line = String::new();
        write!(line, "{:>9} ms  {what}", self.time()).expect("a string takes everything");
        let trace = self.trace();
        trace.hash.write(line.as_bytes());
        trace.lines.iter_mut().for_each(|lines| lines.push(line.clone()));
    }

    /// Counts an event.
    fn count(&mut self, event: &'static str) {
        *self.trace().counts.entry(event).or_default() += 1;
    }

    /// Records a broken promise.
    fn broke(&mut self, promise: fmt::Arguments<'_>) {
        self.note(format_args!("BROKEN: {promise}"));
        self.trace().broken.get_or_insert_with(|| promise.to_string());
    }

    /// Records a broken promise unless `holds`.
    fn demand(&mut self, holds: bool, promise: fmt::Arguments<'_>) {
        if !holds {
            self.broke(promise);
        }
    }
}

/// The observed world, shared by all its hosts and clients.
pub struct World<S>(Arc<Mutex<S>>);

impl<S> Clone for World<S> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<S> World<S> {
    /// A world with these observations.
    #[must_use]
    pub fn of(seen: S) -> Self {
        Self(Arc::new(Mutex::new(seen)))
    }

    /// The observations. The caller holds the guard while nothing else may happen, and never across an await.
    pub fn see(&self) -> MutexGuard<'_, S> {
        self.0.lock().expect("no thread panics here")
    }
}
