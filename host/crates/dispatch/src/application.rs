//! The application: a facade over its components.

use crate::access::{Access, Policy};
use crate::catalog::LiveCatalog;
use crate::client::Clients;
use crate::client::client_lookup::ClientLookup;
use crate::cluster::Cluster;
use crate::cluster::drain::{DrainMode, DrainReport};
use crate::error::Fault;
use crate::node::Node;
use crate::observe::Observers;
use crate::observe::load::Load;
use crate::observe::metrics::GaugeCollector;
use crate::run::deps::RunDeps;
use crate::settings::Settings;
use crate::slots::Slots;
use crate::task::Tasks;
use prometheus_client::registry::Registry;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use toolyard_task::journal::JournalStore;
use toolyard_task::keys::KeyStore;
use toolyard_task::node::{Neighbour, NodeStore};
use toolyard_task::session::SessionStore;
use toolyard_task::store::Total;
use toolyard_task::wire::Timestamp;
use toolyard_task::{AuditStore, Broadcast, Clock, GrantStore, Ids, StoreError, TaskStore, TimelineStore};

/// The stores, as one value, so that it is clear which belong together.
#[derive(Clone)]
pub struct Stores {
    /// Tasks.
    pub tasks: Arc<dyn TaskStore>,
    /// Hosts.
    pub nodes: Arc<dyn NodeStore>,
    /// Sessions.
    pub sessions: Arc<dyn SessionStore>,
    /// Keys.
    pub keys: Arc<dyn KeyStore>,
    /// Permanent permissions that users gave.
    pub grants: Arc<dyn GrantStore>,
    /// The way to the other hosts.
    pub broadcast: Arc<dyn Broadcast>,
    /// Timelines of tasks; the same store as that of tasks, whose commits write their lifecycle.
    pub timeline: Arc<dyn TimelineStore>,
    /// Journals of tasks that resume; the same store as that of tasks, whose commits move their fences.
    pub journals: Arc<dyn JournalStore>,
    /// Audit entries; the same store as that of tasks, whose commits write them.
    pub audit: Arc<dyn AuditStore>,
}

/// The application: a facade over its components. One per process, shared by all connections.
pub struct Dispatch {
    /// The components that a run needs as well.
    pub(crate) deps: Arc<RunDeps>,
    pub(crate) sessions: Arc<dyn SessionStore>,
    pub(crate) cluster: Cluster,
}

impl Dispatch {
    /// An application with an empty catalog. `guests` is the runtime for guests
    /// that take longer than their first poll.
    #[must_use]
    pub fn new(
        settings: Settings,
        stores: Stores,
        clock: Arc<dyn Clock>,
        ids: Arc<dyn Ids>,
        guests: tokio::runtime::Handle,
    ) -> Arc<Self> {
        let Stores { tasks, nodes, sessions, keys, grants, broadcast, timeline, journals, audit } = stores;
        let number = ids.uuid().as_u64_pair().1;
        let is_shared = tasks.is_shared();
        let settings = Arc::new(settings);
        let observers = Arc::new(Observers::new(settings.log_rate));
        let access = Arc::new(Access::new(audit, grants, is_shared, clock.clone(), observers.clone()));
        let clients = Arc::new(Clients::new(keys));
        let slots = Arc::new(Slots::new(settings.clone(), guests));
        let node = Arc::new(Node::new(nodes, broadcast, is_shared, number, access.clone(), slots.clone()));
        let tasks = Arc::new(Tasks::new(
            (tasks, timeline, journals),
            (settings.clone(), clock.clone(), ids.clone()),
            access.clone(),
            clients.clone(),
            observers.clone(),
            slots.clone(),
            node.clone(),
        ));
        let catalog = Arc::new(LiveCatalog::new(
            settings.clone(),
            access.clone(),
            clients.clone(),
            observers.clone(),
            node.clone(),
        ));
        let deps = Arc::new(RunDeps {
            settings,
            clock,
            ids,
            access,
            observers,
            clients,
            slots,
            node,
            tasks,
            catalog,
            console: OnceLock::new(),
        });
        let cluster = Cluster::new(deps.clone(), sessions.clone());
        Arc::new(Self { deps, sessions, cluster })
    }

    /// The settings.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.deps.settings
    }

    /// The access of callers: the policy in force, what it refused, and the permissions that users gave.
    #[must_use]
    pub fn access(&self) -> &Access {
        &self.deps.access
    }

    /// The catalog in force, and its changes.
    #[must_use]
    pub fn catalog(&self) -> &LiveCatalog {
        &self.deps.catalog
    }

    /// The observers of calls.
    #[must_use]
    pub fn observers(&self) -> &Observers {
        &self.deps.observers
    }

    /// The process as one of the hosts that share a store.
    #[must_use]
    pub fn node(&self) -> &Node {
        &self.deps.node
    }

    /// A random id, for whatever needs one.
    #[must_use]
    pub fn random_id(&self) -> uuid::Uuid {
        self.deps.ids.uuid()
    }

    /// Puts this policy in force. Until the first one, every caller may do everything, as at the command line. Calls
    /// under way keep their permits. Clients learn that lists may have changed.
    pub fn enforce(&self, policy: Policy) {
        self.deps.access.enforce(policy);
        self.deps.catalog.announce_lists();
    }

    /// The time now, by the clock of the host.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.deps.clock.now()
    }

    /// Whether this is the name of a host tool, with which clients without tasks ask about their tasks.
    #[must_use]
    pub fn is_host_tool(&self, name: &str) -> bool {
        let is_on = self.deps.settings.bridge.is_some() && self.deps.settings.tasks;
        is_on && self.deps.catalog.snapshot().host_tools().find(name).is_some()
    }

    /// Sets the address of the console, which texts for models name. The first one stays.
    pub fn set_console(&self, address: String) {
        // A second one would be of a second console of the same host.
        let _ = self.deps.console.set(address);
    }

    /// Registers the metrics of this crate. Gauges, such as the number of waiting tasks, are
    /// computed on demand.
    pub fn register_metrics(self: &Arc<Self>, registry: &mut Registry) {
        self.deps.observers.metrics.register(registry);
        let this = Arc::downgrade(self);
        registry.register_collector(Box::new(GaugeCollector(move || Some(this.upgrade()?.load()))));
    }

    /// Asks the store for the number of parked tasks, which the next reading of the metrics shows. Without an answer
    /// within this time, that metric is absent.
    pub async fn count_parked(&self, most: Duration) {
        let count = tokio::time::timeout(most, self.deps.tasks.store.total(Total::Parked)).await;
        self.deps.observers.metrics.set_parked(count.ok().and_then(Result::ok));
    }

    /// How busy this host is now.
    #[must_use]
    pub fn load(&self) -> Load {
        let task_counts = self.deps.slots.runs.task_counts();
        Load {
            waiting: task_counts.waiting,
            working: task_counts.working,
            asking: task_counts.asking,
            runs: self.deps.slots.admission.running(),
            questions: self.deps.tasks.inflight.count() + self.deps.clients.requests.count(),
            approvals: self.deps.slots.unapproved.load(Ordering::Relaxed),
            bounds: self.deps.settings.admission,
            live_tasks: self.deps.settings.live_tasks,
        }
    }

    /// Sets the look-up of clients whose requests have ended. The first one stays.
    pub fn set_client_lookup(&self, lookup: Arc<dyn ClientLookup>) {
        self.deps.clients.set_client_lookup(lookup);
    }

    /// The living hosts that share the store, the oldest first. Empty if the store has one host.
    ///
    /// # Errors
    /// [`Fault::Store`].
    pub async fn hosts(&self) -> Result<Vec<Neighbour>, Fault> {
        Ok(self.deps.node.store.living().await?)
    }

    /// The service that renews this host's registration; runs until `stop` is cancelled. It is separate
    /// from the service for periodic work, because that one may wait for the store.
    pub async fn keep_lease(self: Arc<Self>, stop: CancellationToken) {
        self.deps.node.keep_lease(stop).await;
    }

    /// The service for periodic work and for messages of other hosts; runs until `stop` is cancelled.
    /// It touches nothing before the first request about a task, so that a process that only answers a
    /// probe leaves the data folder alone.
    pub async fn keep_time(self: Arc<Self>, stop: CancellationToken) {
        self.cluster.keep_time(stop).await;
    }

    /// Recovers the tasks of dead hosts now: the host need not wait for a first request or for the
    /// next tick. Retries while the store fails.
    pub async fn recover_now(&self) {
        self.cluster.recover_now().await;
    }

    /// Accepts no more calls, lets runs go on for `grace`, then stops them. Unfinished tasks fail
    /// with a message that says why, or are handed over. Tasks that wait for a slot end at once.
    pub async fn drain(&self, grace: Duration, mode: DrainMode) -> DrainReport {
        self.cluster.drain(grace, mode).await
    }

    /// Whether it has begun to close, so that it accepts nothing new.
    #[must_use]
    pub fn is_closing(&self) -> bool {
        self.deps.slots.closing.is_set()
    }

    /// Whether nothing is under way: no task runs or waits, and no plain call goes on.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.deps.slots.tracker.is_empty()
    }

    /// Whether a task of this store is parked, whether it is due or not.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn has_parked(&self) -> Result<bool, StoreError> {
        Ok(self.deps.tasks.store.total(Total::Parked).await? > 0)
    }
}
