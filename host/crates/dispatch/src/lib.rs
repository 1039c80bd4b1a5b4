//! The application: what happens when a client calls a tool or asks about a
//! task.
//!
//! What may not live here: wasm, HTTP, SQL, or a word of the wire beyond the
//! errors that clients see. Tools, stores, clocks and clients are reached through
//! ports, so everything here runs in tests without any of them.

mod admit;
mod argument_check;
mod ask;
mod asked;
mod audit;
pub mod authority;
mod call;
mod change;
mod cursor;
mod desk;
mod drain;
mod due;
mod error;
mod follow;
mod grants;
mod kept;
mod listing;
mod membership;
mod metrics;
mod neighbours;
mod observe;
mod offered;
mod outlet;
mod permission;
mod permit;
mod principal;
mod promote;
mod query;
mod rates;
mod recover;
mod reports;
mod requests;
mod resource_index;
mod resources;
mod retrieve;
mod rounds;
mod run;
mod runs;
mod sessions;
mod settings;
mod sharing;
mod stateless;
mod stop;
mod task_list;
mod trace;
mod wake;
mod weights;

pub use admit::Bounds;
pub use call::{CallReply, Terms, ToolCall};
pub use cursor::{open as open_cursor, seal as seal_cursor};
pub use drain::{Drained, Parting};
pub use error::Fault;
pub use listing::ListFor;
pub use observe::{CallEvent, CallOutcome, ObservedCall, Observer};
pub use offered::{Change, Lists, Offers};
pub use outlet::{Line, NoOutlet, Notice, Outlet, Place, Presence};
pub use principal::{Principal, Subject};
pub use promote::{Created, Handover};
pub use query::Caller;
pub use rates::{Operation, RateKey, Rates};
pub use recover::Reach;
pub use retrieve::{Fetched, Request};
pub use rounds::InputRequired;
pub use sessions::NewSession;
pub use settings::Settings;
pub use stop::Stop;
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
pub use trace::{CallEnd, EndedCall, Traces};
pub use weights::{WeightSpec, Weights};

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
    authority: authority::Authority,
    paces: rates::Paces,
    weights: Weights,
}

impl Policy {
    /// These rules, and these rates of each principal. Without rules everything is
    /// allowed.
    #[must_use]
    pub fn new(authority: authority::Authority, rates: &Rates) -> Self {
        Self { authority, paces: rates::Paces::new(rates), weights: Weights::default() }
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
    offer: ArcSwap<listing::Offer>,
    /// Who may do what, and how often.
    policy: ArcSwap<Policy>,
    /// Whoever follows these tells its clients.
    feeds: offered::Feeds,
    /// Questions of tasks that are out.
    desk: desk::Desk,
    /// Our own requests that wait for responses.
    requests: requests::Requests,
    admission: Arc<admit::Admission>,
    runs: runs::Runs,
    /// The resources that plugins listed.
    resources: resource_index::ResourceIndex,
    tracker: TaskTracker,
    waiters: wake::Waiters,
    refusals: audit::Refusals,
    /// This process as a host that holds tasks.
    membership: membership::Membership,
    /// Set once the tasks of dead hosts were seen to for the first time.
    recovered: OnceCell<()>,
    /// How much is kept of tasks.
    kept: kept::Kept,
    /// Tells this process from others in what they tell each other.
    number: u64,
    /// What was used here of the rates since the others were told.
    used: neighbours::Used,
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
    metrics: metrics::Metrics,
    /// Who keeps traces, if anybody does.
    traces: OnceLock<Arc<dyn Traces>>,
    /// Who looks on, if anybody does.
    gallery: observe::Gallery,
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
            admission: admit::Admission::new(settings.admission),
            settings,
            stores,
            clock,
            ids,
            guests,
            offer: ArcSwap::from_pointee(listing::Offer::default()),
            policy: ArcSwap::default(),
            feeds: offered::Feeds::default(),
            desk: desk::Desk::default(),
            requests: requests::Requests::default(),
            runs: runs::Runs::default(),
            resources: resource_index::ResourceIndex::default(),
            tracker: TaskTracker::new(),
            waiters: wake::Waiters::default(),
            refusals: audit::Refusals::default(),
            membership: membership::Membership::default(),
            recovered: OnceCell::new(),
            kept: kept::Kept::default(),
            number,
            used: neighbours::Used::default(),
            announced: AtomicU64::new(0),
            unadopted: watch::Sender::new(false),
            published: AtomicBool::new(false),
            reach: OnceLock::new(),
            this: this.clone(),
            closing: Stop::default(),
            parted: Stop::default(),
            metrics: metrics::Metrics::default(),
            traces: OnceLock::new(),
            gallery: observe::Gallery::default(),
        })
    }

    /// Puts a new catalog in place of the old. Calls under way keep the tools
    /// that they resolved.
    pub fn publish(&self, catalog: Arc<Catalog>) {
        let measured = self.metrics.measure(&self.catalog(), &catalog);
        let offer = listing::Offer::of(catalog.clone(), measured, &self.offer.load());
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
