//! A store in memory whose k-th call, of whatever operation, meets a fault. The dispatcher decides
//! which operations a task's life needs, and in which order: a sweep of k from one until there is
//! no k-th call meets them all.

use async_trait::async_trait;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::{broadcast, watch};
use toolyard_kit::{Intercept, StoreProxy};
use toolyard_store::MemoryStore;
use toolyard_task::store::{Hint, Hints};
use toolyard_task::{StoreError, Task, TaskId};
use uuid::Uuid;

/// The fault of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// It fails, and does nothing.
    FailsBefore,
    /// It is done, and reports a failure.
    FailsAfter,
    /// It hangs until the fault goes, and does nothing before.
    HangsBefore,
    /// It is done, and then hangs until the fault goes.
    HangsAfter,
    /// It takes its time.
    Slow,
    /// Hints without a change.
    StaleHint,
}

pub const KINDS: [Kind; 6] =
    [Kind::FailsBefore, Kind::FailsAfter, Kind::HangsBefore, Kind::HangsAfter, Kind::Slow, Kind::StaleHint];

/// How long a slow call takes.
const SLOW: Duration = Duration::from_millis(30);

/// How long a call hangs at most; longer than clients wait.
const LONGEST: Duration = Duration::from_millis(400);

/// A store of which one call meets a fault.
pub type Swept = StoreProxy<Sweep>;

/// The fault, and its effects so far.
pub struct Sweep {
    kind: Kind,
    /// The call that meets it; none if zero.
    at: u32,
    calls: AtomicU32,
    /// The operation that met it.
    met: Mutex<Option<&'static str>>,
    /// True once the fault is gone.
    gone: watch::Sender<bool>,
    hints: broadcast::Sender<Hint>,
    named: Mutex<Vec<TaskId>>,
}

/// A handle of this store, whose call number `at` meets a fault of this kind.
pub fn swept(store: Arc<MemoryStore>, kind: Kind, at: u32) -> Arc<Swept> {
    StoreProxy::new(
        store,
        Sweep {
            kind,
            at,
            calls: AtomicU32::new(0),
            met: Mutex::default(),
            gone: watch::Sender::new(false),
            hints: broadcast::Sender::new(64),
            named: Mutex::default(),
        },
    )
}

impl Sweep {
    /// The operation that met the fault, if there was such a call.
    pub fn met(&self) -> Option<&'static str> {
        *self.met.lock().expect("no panic")
    }

    /// The fault goes: what hangs goes on.
    pub fn recover(&self) {
        self.gone.send_replace(true);
    }

    async fn until_gone(&self) {
        let mut gone = self.gone.subscribe();
        // The sender is here, so it is not closed.
        let goes = gone.wait_for(|gone| *gone);
        // A hanging call may be in the background.
        drop(tokio::time::timeout(LONGEST, goes).await);
    }
}

impl Intercept for Sweep {
    async fn call<T: Send, E: From<StoreError> + Send>(
        &self,
        name: &'static str,
        done: impl Future<Output = Result<T, E>> + Send,
    ) -> Result<T, E> {
        if self.calls.fetch_add(1, Ordering::SeqCst) + 1 != self.at {
            return done.await;
        }
        *self.met.lock().expect("no panic") = Some(name);
        let failed = || E::from(StoreError::Unavailable("a fault".into()));
        match self.kind {
            Kind::FailsBefore => Err(failed()),
            Kind::FailsAfter => done.await.and_then(|_| Err(failed())),
            Kind::HangsBefore => {
                self.until_gone().await;
                done.await
            }
            Kind::HangsAfter => {
                let done = done.await;
                self.until_gone().await;
                done
            }
            Kind::Slow => {
                tokio::time::sleep(SLOW).await;
                done.await
            }
            Kind::StaleHint => {
                let named: Vec<TaskId> = self.named.lock().expect("no panic").clone();
                let hints = named
                    .into_iter()
                    .map(Hint::Task)
                    .chain([Hint::Task(TaskId(Uuid::nil())), Hint::Anything]);
                // There may be no receiver.
                hints.for_each(|hint| drop(self.hints.send(hint)));
                done.await
            }
        }
    }

    fn hints(&self, hints: Box<dyn Hints>) -> Box<dyn Hints> {
        Box::new(Feed { inner: hints, stale: self.hints.subscribe() })
    }

    fn created(&self, task: &Task) {
        self.named.lock().expect("no panic").push(task.id);
    }
}

/// The hints of the store, and the stale ones.
struct Feed {
    inner: Box<dyn Hints>,
    stale: broadcast::Receiver<Hint>,
}

#[async_trait]
impl Hints for Feed {
    async fn next(&mut self) -> Option<Hint> {
        tokio::select! {
            biased;
            // The feed that is not chosen loses no hint.
            Ok(hint) = self.stale.recv() => Some(hint),
            hint = self.inner.next() => hint,
        }
    }
}
