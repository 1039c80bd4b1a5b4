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

/// How long after the first run since then free stacks are trimmed again.
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
    // When to trim stacks; `None` if no guest has run since they were trimmed.
    let mut trim_at = None;
    while !shared.ended.load(Ordering::SeqCst) {
        if shared.polling.load(Ordering::SeqCst) > 0 {
            idle_since = Instant::now();
            trim_at.get_or_insert(idle_since + TRIM_AFTER);
        } else if idle_since.elapsed() > LINGER {
            shared.parked.store(true, Ordering::SeqCst);
            while shared.polling.load(Ordering::SeqCst) == 0 && !shared.ended.load(Ordering::SeqCst) {
                match trim_at.map(|at: Instant| at.saturating_duration_since(Instant::now())) {
                    Some(Duration::ZERO) => trim(engine, stack, &mut trim_at),
                    Some(time) => std::thread::park_timeout(time),
                    None => std::thread::park(),
                }
            }
            shared.parked.store(false, Ordering::SeqCst);
            idle_since = Instant::now();
        }
        if trim_at.is_some_and(|at| at <= Instant::now()) {
            trim(engine, stack, &mut trim_at);
        }
        std::thread::sleep(TICK);
        engine.increment_epoch();
    }
}

fn trim(engine: &wasmtime::Engine, stack: usize, trim_at: &mut Option<Instant>) {
    *trim_at = None;
    stacks::trim(engine, stack);
}
