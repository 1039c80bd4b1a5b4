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

pub use access::caller::Caller;
pub use access::fair_share::{WeightSpec, Weights};
pub use access::principal::{Principal, Subject};
pub use access::rate_limit::{Operation, RateKey, Rates};
pub use access::rules;
pub use call::reply::{CallReply, Created, Handover};
pub use call::resources_prompts::{Fetched, Request};
pub use call::sessions::NewSession;
pub use call::tools_call::{Terms, ToolCall};
pub use catalog::changes::{Change, Lists, Offers};
pub use catalog::tools_list::ListFor;
pub use client::client_channel::{Line, NoOutlet, Notice, Outlet, Place, Presence};
pub use client::signed_token::{open as open_cursor, seal as seal_cursor};
pub use cluster::drain::{Drained, Parting};
pub use cluster::recovery::Reach;
pub use error::Fault;
pub use observe::call_end::CallEnd;
pub use observe::observer::{CallEvent, CallOutcome, ObservedCall, Observer};
pub use observe::trace::{EndedCall, Traces};
pub use run::round_trip::InputRequired;
pub use settings::Settings;
pub use slots::admission::Bounds;
pub use slots::stop::Stop;
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

use arc_swap::ArcSwap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use tokio::sync::{OnceCell, watch};
use tokio_util::task::TaskTracker;
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

/// Who may do what, and how often.
#[derive(Debug, Default)]
pub struct Policy {
    authority: access::rules::Authority,
    paces: access::rate_limit::Paces,
    weights: Weights,
}

impl Policy {
    /// These rules, and these rates of each principal. Without rules everything is
    /// allowed.
    #[must_use]
    pub fn new(authority: access::rules::Authority, rates: &Rates) -> Self {
        Self { authority, paces: access::rate_limit::Paces::new(rates), weights: Weights::default() }
    }

    /// The same, with these weights of principals.
    #[must_use]
    pub fn weighing(self, weights: Weights) -> Self {
        Self { weights, ..self }
    }
}

/// The application. One a process; shared by every connection.
pub struct Dispatch {
    settings: Settings,
    stores: Stores,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    /// Where guests run that do not end in their first poll.
    guests: tokio::runtime::Handle,
    offer: ArcSwap<catalog::tools_list::Offer>,
    /// Who may do what, and how often.
    policy: ArcSwap<Policy>,
    /// Whoever follows these tells its clients.
    feeds: catalog::changes::Feeds,
    /// Questions of tasks that are out.
    desk: task::questions::Desk,
    /// Our own requests that wait for responses.
    requests: client::pending_requests::Requests,
    admission: Arc<slots::admission::Admission>,
    runs: slots::registry::Runs,
    /// The resources that plugins listed.
    resources: catalog::resource_index::ResourceIndex,
    tracker: TaskTracker,
    waiters: task::waiters::Waiters,
    refusals: access::audit::Refusals,
    /// This process as a host that holds tasks.
    membership: node::membership::Membership,
    /// Set once the tasks of dead hosts were seen to for the first time.
    recovered: OnceCell<()>,
    /// How much is kept of tasks.
    kept: task::kept::Kept,
    /// Tells this process from others in what they tell each other.
    number: u64,
    /// What was used here of the rates since the others were told.
    used: node::broadcast::Used,
    /// The incarnation that the others were told of the components of.
    announced: AtomicU64,
    /// Whether tasks were left that another host should take over.
    unadopted: watch::Sender<bool>,
    /// Set when a catalog was put in place: a task may have waited for a tool of it.
    published: AtomicBool,
    /// Where clients are reached whose requests are over.
    reach: OnceLock<Arc<dyn Reach>>,
    /// Itself, for what it spawns.
    this: Weak<Dispatch>,
    closing: Stop,
    /// Set once everything that ran has ended or was parted with.
    parted: Stop,
    metrics: observe::metrics::Metrics,
    /// Who keeps traces, if anybody does.
    traces: OnceLock<Arc<dyn Traces>>,
    /// Who looks on, if anybody does.
    gallery: observe::observer::Gallery,
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
        let number = ids.uuid().as_u64_pair().1;
        Arc::new_cyclic(|this| Self {
            admission: slots::admission::Admission::new(settings.admission),
            settings,
            stores,
            clock,
            ids,
            guests,
            offer: ArcSwap::from_pointee(catalog::tools_list::Offer::default()),
            policy: ArcSwap::default(),
            feeds: catalog::changes::Feeds::default(),
            desk: task::questions::Desk::default(),
            requests: client::pending_requests::Requests::default(),
            runs: slots::registry::Runs::default(),
            resources: catalog::resource_index::ResourceIndex::default(),
            tracker: TaskTracker::new(),
            waiters: task::waiters::Waiters::default(),
            refusals: access::audit::Refusals::default(),
            membership: node::membership::Membership::default(),
            recovered: OnceCell::new(),
            kept: task::kept::Kept::default(),
            number,
            used: node::broadcast::Used::default(),
            announced: AtomicU64::new(0),
            unadopted: watch::Sender::new(false),
            published: AtomicBool::new(false),
            reach: OnceLock::new(),
            this: this.clone(),
            closing: Stop::default(),
            parted: Stop::default(),
            metrics: observe::metrics::Metrics::default(),
            traces: OnceLock::new(),
            gallery: observe::observer::Gallery::default(),
        })
    }

    /// Puts a new catalog in place of the old. Calls under way keep the tools
    /// that they resolved.
    pub fn publish(&self, catalog: Arc<Catalog>) {
        let measured = self.metrics.measure(&self.catalog(), &catalog);
        let offer = catalog::tools_list::Offer::of(catalog.clone(), measured, &self.offer.load());
        let former = self.offer.swap(Arc::new(offer));
        self.resources.retain(catalog.providers());
        self.feeds.compare(&former.catalog, &catalog);
        self.published.store(true, Ordering::Relaxed);
    }

    /// Puts this policy in force, before anybody is served. Until then everybody may
    /// do everything, as at the command line.
    pub fn enforce(&self, policy: Policy) {
        self.policy.store(Arc::new(policy));
    }

    /// The policy in force.
    pub(crate) fn policy(&self) -> arc_swap::Guard<Arc<Policy>> {
        self.policy.load()
    }

    /// The catalog in force.
    #[must_use]
    pub fn catalog(&self) -> Arc<Catalog> {
        self.offer.load().catalog.clone()
    }

    /// A random id, for whatever needs one.
    #[must_use]
    pub fn random_id(&self) -> uuid::Uuid {
        self.ids.uuid()
    }

    /// What was set.
    #[must_use]
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Whether it has begun to close, so that nothing new is taken in.
    #[must_use]
    pub fn is_closing(&self) -> bool {
        self.closing.is_set()
    }

    /// Whether nothing is under way: no task runs or waits, and no plain call goes on.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.tracker.is_empty()
    }

    /// Runs that hold a slot now.
    #[must_use]
    pub fn running(&self) -> u32 {
        self.admission.running()
    }
}
