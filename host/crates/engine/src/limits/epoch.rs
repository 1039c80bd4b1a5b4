//! The thread that advances wasmtime's epoch while guests compute.
//!
//! Guests check the epoch at every loop head and call. A change makes them call
//! [`crate::limits::cpu_meter`], which stops them or lets others run. The thread sleeps while no
//! guest is being polled, so an idle host uses no processor time.

use crate::limits::stacks;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often computing guests are interrupted for a check.
pub(crate) const TICK: Duration = Duration::from_millis(1);

/// How long the thread continues after the last guest has stopped computing, so that a series of
/// quick calls does not pay for waking it each time.
const LINGER: Duration = Duration::from_millis(20);

/// How long after the first run since the last trim free stacks are trimmed again.
const TRIM_AFTER: Duration = Duration::from_secs(10);

/// Owns the thread; dropping it ends the thread.
pub(crate) struct Ticker {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    polling: AtomicUsize,
    parked: AtomicBool,
    ended: AtomicBool,
}

/// The epoch advances while this value exists.
pub(crate) struct Ticking<'a>(&'a Shared);

impl Ticker {
    /// Starts the thread. `stack` is the size of the engine's stacks in bytes.
    pub fn start(engine: wasmtime::Engine, stack: usize) -> std::io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let thread = std::thread::Builder::new().name("epoch".to_owned()).spawn({
            let shared = shared.clone();
            move || tick(&shared, &engine, stack)
        })?;
        Ok(Self { shared, thread: Some(thread) })
    }

    pub fn ticking(&self) -> Ticking<'_> {
        // `tick` uses the reverse order. Together they ensure that no wake-up is lost.
        self.shared.polling.fetch_add(1, Ordering::SeqCst);
        if self.shared.parked.load(Ordering::SeqCst) {
            self.wake();
        }
        Ticking(&self.shared)
    }

    fn wake(&self) {
        if let Some(thread) = &self.thread {
            thread.thread().unpark();
        }
    }
}

impl Drop for Ticking<'_> {
    fn drop(&mut self) {
        self.0.polling.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::SeqCst);
        self.wake();
        if let Some(thread) = self.thread.take() {
            // The thread cannot panic, and there would be nothing to do if it did.
            let _ = thread.join();
        }
    }
}

fn tick(shared: &Shared, engine: &wasmtime::Engine, stack: usize) {
    let mut idle_since = Instant::now();
    let mut trims = StackTrims { engine, stack, at: None, thread: None };
    while !shared.ended.load(Ordering::SeqCst) {
        if shared.polling.load(Ordering::SeqCst) > 0 {
            idle_since = Instant::now();
            trims.at.get_or_insert(idle_since + TRIM_AFTER);
        } else if idle_since.elapsed() > LINGER {
            shared.parked.store(true, Ordering::SeqCst);
            while shared.polling.load(Ordering::SeqCst) == 0 && !shared.ended.load(Ordering::SeqCst) {
                trims.begin_if_due();
                match trims.at {
                    Some(at) => std::thread::park_timeout(at.saturating_duration_since(Instant::now())),
                    None => std::thread::park(),
                }
            }
            shared.parked.store(false, Ordering::SeqCst);
            idle_since = Instant::now();
        }
        trims.begin_if_due();
        std::thread::sleep(TICK);
        engine.increment_epoch();
    }
    trims.join();
}

/// The trims of free stacks. Each has a thread of its own, because the ticks must not wait for it.
struct StackTrims<'a> {
    engine: &'a wasmtime::Engine,
    /// The size of a stack in bytes.
    stack: usize,
    /// When to trim; `None` if no guest has run since the last trim.
    at: Option<Instant>,
    /// The thread of the last trim.
    thread: Option<JoinHandle<()>>,
}

impl StackTrims<'_> {
    fn begin_if_due(&mut self) {
        if self.at.take_if(|at| *at <= Instant::now()).is_none() {
            return;
        }
        self.join();
        let (engine, stack) = (self.engine.clone(), self.stack);
        let thread = std::thread::Builder::new().name("trim".to_owned());
        // Without a thread there is no trim this time.
        self.thread = thread.spawn(move || stacks::trim(&engine, stack)).ok();
    }

    /// Waits for the end of the last trim.
    fn join(&mut self) {
        if let Some(thread) = self.thread.take() {
            // A trim cannot panic, and there would be nothing to do if it did.
            let _ = thread.join();
        }
    }
}
