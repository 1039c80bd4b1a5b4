//! The runs of this process, and how many there may be at once.

pub(crate) mod admission;
pub(crate) mod heartbeat;
pub(crate) mod registry;
pub(crate) mod stop;
pub(crate) mod work;

use crate::error::Fault;
use crate::settings::Settings;
use admission::{Admission, LimitReached};
use registry::RunRegistry;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use stop::Stop;
use tokio::runtime::Handle;
use tokio_util::task::TaskTracker;

/// The runs of this process.
pub(crate) struct Slots {
    pub admission: Arc<Admission>,
    pub runs: RunRegistry,
    /// Spawned work that must end before the process does.
    pub tracker: TaskTracker,
    /// The runtime for guests that do not end in their first poll.
    pub guests: Handle,
    /// Set before the end begins: running calls become tasks if they may.
    pub leaving: Stop,
    /// Running calls of clients without tasks that may become tasks.
    pub promotable: AtomicUsize,
    /// Tasks that this host parked because it leaves.
    pub left: AtomicUsize,
    /// Calls of this host that wait for an approval.
    pub unapproved: AtomicUsize,
    /// Set when nothing new is taken in.
    pub closing: Stop,
    /// Set once every run has ended or was handed over.
    pub handed_over: Stop,
    settings: Arc<Settings>,
}

/// Counts one more until it is dropped.
pub(crate) struct Counted<'a>(&'a AtomicUsize);

impl<'a> Counted<'a> {
    pub fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(count)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Slots {
    pub fn new(settings: Arc<Settings>, guests: Handle) -> Self {
        Self {
            admission: Admission::new(settings.admission),
            runs: RunRegistry::default(),
            tracker: TaskTracker::new(),
            guests,
            leaving: Stop::default(),
            promotable: AtomicUsize::new(0),
            left: AtomicUsize::new(0),
            unapproved: AtomicUsize::new(0),
            closing: Stop::default(),
            handed_over: Stop::default(),
            settings,
        }
    }

    pub fn busy(&self, full: LimitReached) -> Fault {
        let bounds = &self.settings.admission;
        let what = match full {
            LimitReached::Host => format!("this host runs {} calls, its most", bounds.running),
            LimitReached::Principal => {
                let most = bounds.running_per_principal;
                format!("{most} of your calls are running, the most for one principal")
            }
            LimitReached::Plugin => {
                "as many calls of this plugin are running as its manifest allows".to_owned()
            }
            LimitReached::Queue(most) => {
                format!(
                    "{most} tasks of this plugin are waiting for their turn, as many as its manifest allows"
                )
            }
            LimitReached::Reservation(shortage) => shortage.to_string(),
        };
        Fault::busy(full.setting(), what)
    }
}
