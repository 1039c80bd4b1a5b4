//! Several hosts on one store: recovery, work stealing, maintenance, drain.

pub(crate) mod broadcast_receiver;
pub(crate) mod drain;
pub(crate) mod maintenance;
pub(crate) mod parked;
pub(crate) mod recovery;
pub(crate) mod work_stealing;

use crate::run::deps::RunDeps;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use tokio::sync::OnceCell;
use toolyard_task::session::SessionStore;

/// The duties of this host besides its requests, alone or with other hosts.
pub(crate) struct Cluster {
    /// Set once the tasks of dead hosts were recovered for the first time.
    recovered: OnceCell<()>,
    /// The incarnation whose components the other hosts know.
    announced: AtomicU64,
    sessions: Arc<dyn SessionStore>,
    deps: Arc<RunDeps>,
}

impl Cluster {
    pub fn new(deps: Arc<RunDeps>, sessions: Arc<dyn SessionStore>) -> Self {
        Self { recovered: OnceCell::new(), announced: AtomicU64::new(0), sessions, deps }
    }
}
