//! The application: what happens when a client calls a tool or asks about a
//! task.
//!
//! What may not live here: wasm, HTTP, SQL, or a word of the wire beyond the
//! errors that clients see. Tools, stores, clocks and clients are reached through
//! ports, so everything here runs in tests without any of them.

mod access;
mod call;
mod catalog;
mod client;
mod cluster;
mod error;
mod node;
mod observe;
mod run;
mod settings;
mod slots;
mod task;

pub use access::Policy;
pub use access::caller::Caller;
pub use access::fair_share::{WeightSpec, Weights};
pub use access::principal::{Principal, Subject};
pub use access::rate_limit::{Operation, RateKey, Rates};
pub use access::rules;
pub use call::reply::{CallReply, Created};
pub use call::resources_prompts::{Fetched, Request};
pub use call::sessions::NewSession;
pub use call::tools_call::{Terms, ToolCall};
pub use catalog::changes::{Change, Lists, Offers};
pub use catalog::tools_list::ListFor;
pub use client::client_channel::{Line, NoOutlet, Notice, Outlet, Place, Presence};
pub use client::client_lookup::Reach;
pub use client::signed_token::{open as open_cursor, seal as seal_cursor};
pub use cluster::drain::{Drained, Parting};

pub use error::Fault;
pub use observe::call_end::CallEnd;
pub use observe::observer::{CallEvent, CallOutcome, ObservedCall, Observer};
pub use observe::trace::{EndedCall, Traces};
pub use run::round_trip::InputRequired;
pub use settings::{Bounds, Settings};
pub use slots::stop::Stop;
pub use task::handover::Handover;
pub use toolyard_protocol::response::RELATED_TASK;
pub use toolyard_protocol::tools::{CallParams, RequestedTtl, TaskSupport};
pub use toolyard_protocol::{RawJson, RpcError, Timestamp, TraceContext, visible};
pub use toolyard_task::audit::{Action, By, Entry, fingerprint, name_of};
pub use toolyard_task::grant::{AfterGrant, Grant, GrantId, GrantStore, Verdict};
pub use toolyard_task::node::Neighbour;
pub use toolyard_task::recovery::{Departure, Durability};
pub use toolyard_task::session::Session;
pub use toolyard_task::store::After;
pub use toolyard_task::task::{Era, Summary};
pub use toolyard_task::tool::{AskError, GivenAnswer, Report, Spent, ToolSpec};
pub use toolyard_task::{
    AuditStore, Catalog, Clock, Digest, Ids, Outcome, Owner, Rate, SessionDigest, SessionId, Task, TaskId,
    Wanted,
};

use access::Access;
use catalog::LiveCatalog;
use client::Clients;
use cluster::Cluster;
use node::Node;
use observe::Observers;
use observe::metrics::{Standing, StandingCollector};
use prometheus_client::registry::Registry;
use run::deps::RunDeps;
use slots::Slots;
use std::sync::Arc;
use std::time::Duration;
use task::Tasks;
use tokio::sync::{broadcast, watch};
use toolyard_protocol::stateless::param_headers::ParamHeader;
use toolyard_task::keys::KeyStore;
use toolyard_task::node::NodeStore;
use toolyard_task::session::SessionStore;
use toolyard_task::{Gossip, TaskStore};

/// The stores, as one value, so that it is plain which belong together.
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
    /// What people said once and for all when they were asked for a permission.
    pub grants: Arc<dyn GrantStore>,
    /// The way to the other hosts.
    pub gossip: Arc<dyn Gossip>,
    /// Audit entries; the same store as that of tasks, whose commits write them.
    pub audit: Arc<dyn AuditStore>,
}

/// The application: a facade over its components. One a process; shared by every connection.
pub struct Dispatch {
    settings: Arc<Settings>,
    access: Arc<Access>,
    observers: Arc<Observers>,
    clients: Arc<Clients>,
    slots: Arc<Slots>,
    node: Arc<Node>,
    tasks: Arc<Tasks>,
    catalog: Arc<LiveCatalog>,
    sessions: Arc<dyn SessionStore>,
    /// The same components, for runs.
    deps: Arc<RunDeps>,
    cluster: Arc<Cluster>,
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
        let Stores { tasks, nodes, sessions, keys, grants, gossip, audit } = stores;
        let number = ids.uuid().as_u64_pair().1;
        let is_shared = tasks.is_shared();
        let settings = Arc::new(settings);
        let observers = Arc::new(Observers::default());
        let access = Arc::new(Access::new(audit, grants, is_shared, clock.clone(), observers.clone()));
        let clients = Arc::new(Clients::new(keys));
        let slots = Arc::new(Slots::new(settings.clone(), guests));
        let node = Arc::new(Node::new(nodes, gossip, is_shared, number, access.clone(), slots.clone()));
        let tasks = Arc::new(Tasks::new(
            tasks,
            (settings.clone(), clock.clone(), ids.clone()),
            access.clone(),
            clients.clone(),
            observers.clone(),
            slots.clone(),
        ));
        let catalog = Arc::new(LiveCatalog::new(
            settings.clone(),
            access.clone(),
            clients.clone(),
            observers.clone(),
            node.clone(),
        ));
        let deps = Arc::new(RunDeps {
            settings: settings.clone(),
            clock,
            ids,
            access: access.clone(),
            observers: observers.clone(),
            clients: clients.clone(),
            slots: slots.clone(),
            node: node.clone(),
            tasks: tasks.clone(),
            catalog: catalog.clone(),
        });
        let cluster = Arc::new(Cluster::new(deps.clone(), sessions.clone()));
        Arc::new(Self {
            settings,
            access,
            observers,
            clients,
            slots,
            node,
            tasks,
            catalog,
            sessions,
            deps,
            cluster,
        })
    }

    /// What was set.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// A random id, for whatever needs one.
    #[must_use]
    pub fn random_id(&self) -> uuid::Uuid {
        self.deps.ids.uuid()
    }

    /// Puts this policy in force, before anybody is served. Until then everybody may
    /// do everything, as at the command line.
    pub fn enforce(&self, policy: Policy) {
        self.access.enforce(policy);
    }

    /// Counts an operation of this principal.
    ///
    /// # Errors
    /// [`Fault::TooOften`]; the operation must not be done.
    pub fn pace(&self, who: &RateKey, operation: Operation) -> Result<(), Fault> {
        self.access.pace(who, operation)
    }

    /// Whether the caller may be told of this resource.
    #[must_use]
    pub fn may_hear_of(&self, caller: &Caller, uri: &str) -> bool {
        self.access.may_hear_of(caller, uri)
    }

    /// Whether the caller may subscribe to this resource. One that it may not read
    /// is as one that does not exist: it is never told of it.
    ///
    /// # Errors
    /// [`Fault::InsufficientScope`].
    pub fn may_subscribe(&self, caller: &Caller, uri: &str) -> Result<(), Fault> {
        self.access.may_subscribe(caller, uri)
    }

    /// Notes that a request came with credentials that are none, or without any.
    /// The reason is one of ours: never the credentials, nor anything in them.
    pub fn note_unauthenticated(&self, reason: &str) {
        self.access.note_unauthenticated(reason);
    }

    /// Everybody's grants after this one, the oldest first. For the operator only;
    /// no request of a client leads here.
    ///
    /// # Errors
    /// [`Fault::Store`].
    pub async fn grants(&self, after: Option<AfterGrant>, limit: u32) -> Result<Vec<Grant>, Fault> {
        self.access.list_grants(after, limit).await
    }

    /// Takes a grant back, in this and every other host on the store: it counts no
    /// more at the next use. Gives what it was, if it was there.
    ///
    /// # Errors
    /// [`Fault::Store`].
    pub async fn revoke_grant(&self, caller: &Caller, id: GrantId) -> Result<Option<Grant>, Fault> {
        self.access.revoke_grant(caller, id).await
    }

    /// Puts a new catalog in place of the old. Calls under way keep the tools
    /// that they resolved.
    pub fn publish(&self, catalog: Arc<Catalog>) {
        self.catalog.publish(catalog);
    }

    /// The catalog in force.
    #[must_use]
    pub fn catalog(&self) -> Arc<Catalog> {
        self.catalog.current()
    }

    /// What plugins offer besides tools now.
    #[must_use]
    pub fn offers(&self) -> Offers {
        self.catalog.offers()
    }

    /// Follows the changes of the lists.
    #[must_use]
    pub fn lists(&self) -> watch::Receiver<Lists> {
        self.catalog.lists()
    }

    /// Follows the resources that changed, by URI; none where it is not known which,
    /// so that it may be any.
    #[must_use]
    pub fn updates(&self) -> broadcast::Receiver<Option<Arc<str>>> {
        self.catalog.updates()
    }

    /// Follows what guests say has changed. What has changed in the plugin folder is
    /// not among it: every process sees that for itself.
    #[must_use]
    pub fn announcements(&self) -> broadcast::Receiver<Change> {
        self.catalog.announcements()
    }

    /// A guest says that something has changed, here or in another process of this machine.
    pub fn announce(&self, change: Change) {
        self.catalog.announce(change);
    }

    /// Guests in another process have said that things changed, and what is not known
    /// any more.
    pub fn announce_anything(&self) {
        self.catalog.announce_anything();
    }

    /// The parameters of this tool that HTTP clients repeat in headers (26XH-2); none
    /// of one that there is not, that the caller is not to know of, or that is refused
    /// to a client without tasks in any case, which is said first (26H-14).
    #[must_use]
    pub fn param_headers(&self, caller: &Caller, tool: &str, has_tasks: bool) -> Arc<[ParamHeader]> {
        self.catalog.param_headers(caller, tool, has_tasks)
    }

    /// The result of `tools/list` (TL-2, N-1): what the caller may use. No tasks are offered to clients
    /// whose revision has none.
    ///
    /// # Errors
    /// [`Fault::InvalidCursor`].
    pub async fn list_tools(
        &self,
        caller: &Caller,
        whom: ListFor,
        cursor: Option<&str>,
    ) -> Result<RawJson, Fault> {
        self.catalog.list_tools(caller, whom, cursor).await
    }

    /// Has somebody look on at calls from now on. Only the first to be named counts.
    pub fn observe_by(&self, observer: Arc<dyn Observer>) {
        self.observers.observe_by(observer);
    }

    /// Has calls traced from now on. Only the first to be named counts.
    pub fn trace_to(&self, traces: Arc<dyn Traces>) {
        self.observers.trace_to(traces);
    }

    /// Registers what is counted here. What stands rather than grows, such as how
    /// many tasks wait, is looked up when it is asked for.
    pub fn register_metrics(self: &Arc<Self>, registry: &mut Registry) {
        self.observers.metrics.register(registry);
        let this = Arc::downgrade(self);
        registry.register_collector(Box::new(StandingCollector(move || Some(this.upgrade()?.standing()))));
    }

    fn standing(&self) -> Standing {
        let census = self.slots.runs.census();
        Standing {
            waiting: census.waiting,
            working: census.working,
            asking: census.asking,
            runs: self.slots.admission.running(),
            questions: self.tasks.desk.open() + self.clients.requests.open(),
        }
    }

    /// Says where clients are reached whose requests are over. The first word counts.
    pub fn reach_by(&self, reach: Arc<dyn Reach>) {
        self.clients.reach_by(reach);
    }

    /// Passes a notice on to the host where its client listens. Says nothing where there is
    /// no other host.
    pub fn pass_on(&self, session: &SessionId, task: Option<TaskId>, notice: &Notice) {
        self.node.pass_on(session, task, notice);
    }

    /// Whether hosts on other machines share the store.
    #[must_use]
    pub fn has_neighbours(&self) -> bool {
        self.node.is_shared
    }

    /// The service that keeps this host alive to the others; runs until `stop` turns
    /// true. Apart from the service that keeps time, since that one may wait for the
    /// store.
    pub async fn keep_lease(self: Arc<Self>, stop: watch::Receiver<bool>) {
        self.node.keep_lease(stop).await;
    }

    /// The service that keeps time, and hears what other hosts say; runs until `stop` turns
    /// true. It touches nothing before the first request about a task, so that a process that
    /// only answers a probe leaves the data folder alone.
    pub async fn keep_time(self: Arc<Self>, stop: watch::Receiver<bool>) {
        self.cluster.keep_time(stop).await;
    }

    /// Sees to the tasks of dead hosts now, where a host need not wait for its first
    /// request, or for the next time that it looks. A store that fails is tried again.
    pub async fn recover_now(&self) {
        self.cluster.recover_now().await;
    }

    /// Whether there are tasks to be taken over, and this host is one that takes none
    /// over: somebody may want to start one that does.
    #[must_use]
    pub fn unadopted(&self) -> watch::Receiver<bool> {
        self.cluster.unadopted()
    }

    /// Takes no more calls, lets what runs go on for `grace`, then stops it. Tasks
    /// that did not end are failed with a message that says why, or handed over; tasks
    /// that wait for a slot are seen to at once.
    pub async fn drain(&self, grace: Duration, parting: Parting) -> Drained {
        self.cluster.drain(grace, parting).await
    }

    /// Whether it has begun to close, so that nothing new is taken in.
    #[must_use]
    pub fn is_closing(&self) -> bool {
        self.slots.closing.is_set()
    }

    /// Whether nothing is under way: no task runs or waits, and no plain call goes on.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.slots.tracker.is_empty()
    }

    /// Runs that hold a slot now.
    #[must_use]
    pub fn running(&self) -> u32 {
        self.slots.admission.running()
    }
}
