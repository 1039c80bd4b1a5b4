//! The application: it runs the calls of clients and answers their requests about tasks.
//!
//! Not here: wasm, HTTP, SQL, or anything of the wire beyond the errors that clients see. Tools,
//! stores, clocks and clients are behind ports, so all of this runs in tests without them.

mod access;
mod application;
mod bridge;
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
pub use access::grants::{GrantFilter, owner_name};
pub use access::principal::{Principal, Subject};
pub use access::rate_limit::{Operation, RateKey, Rates};
pub use access::rules;
pub use access::shares::{ClientShares, Held, NoRoom, PrincipalUse, Shares, UNCOUNTED};
pub use access::{Access, Policy};
pub use application::{Dispatch, Stores};
pub use call::reply::{CallReply, CreatedTask, HandOff, TaskQuestions};
pub use call::resources_prompts::{FetchReply, ProviderRequest};
pub use call::sessions::NewSession;
pub use call::tools_call::{Terms, ToolCall};
pub use catalog::LiveCatalog;
pub use catalog::changes::{ListVersions, OfferChange, Offers};
pub use catalog::tools_list::ListFor;
pub use client::client_channel::{
    ClientChannel, ClientPresence, ClientRoute, NoClientChannel, Notice, RouteScope,
};
pub use client::client_lookup::ClientLookup;
pub use client::signed_token::{open as open_cursor, seal as seal_cursor};
pub use cluster::drain::{DrainMode, DrainReport};

pub use error::{Fault, RETRY_AFTER_MS};
pub use node::Node;
pub use node::membership::Lease;
pub use observe::Observers;
pub use observe::call_end::CallEnd;
pub use observe::call_history::{
    CallDetails, CallHistory, CallOrder, CallPosition, CallRecord, Capture, CapturedText,
};
pub use observe::host_call_log::{HostCalls, TimedHostCall};
pub use observe::load::Load;
pub use observe::observer::{CallEvent, CallOutcome, ObservedCall, Observer};
pub use observe::trace::{EndedCall, Traces};
pub use run::questions::round_trip::InputRequired;
pub use settings::bridge::{BridgeSettings, BridgeTerms, BridgedClient, ClientPattern, OutputSchemas};
pub use settings::{Bounds, MAX_PAGE, Settings};
pub use slots::stop::{Stop, StopCause};
pub use task::Tasks;
pub use task::handover::Handover;
pub use toolyard_protocol::question::form::{Field, Form, misfit};
pub use toolyard_protocol::response::RELATED_TASK;
pub use toolyard_protocol::tools::{CallParams, RequestedTtl, TaskSupport};
pub use toolyard_protocol::{RawJson, RpcError, Timestamp, TraceContext, visible};
pub use toolyard_task::audit::{Action, By, Entry, fingerprint, name_of};
pub use toolyard_task::erasure::{DataOwner, Holdings};
pub use toolyard_task::grant::{AfterGrant, Grant, GrantId, GrantStore, Verdict};
pub use toolyard_task::store::TaskQuestion;
/// Requests, sockets and waits of guests.
pub mod host_call {
    pub use toolyard_task::host_call::{HostAction, HostCall, HostCallCounts, HttpRequest};
}
pub use toolyard_task::http_tape::{HttpTape, ResponseOutcome, TapeAnswer, TapeRequest};
pub use toolyard_task::node::{Neighbour, lacked_components};
pub use toolyard_task::recovery::{Departure, Durability};
/// The search of tasks; [`Tasks::find_tasks`] takes these.
pub mod search {
    pub use toolyard_task::search::{Direction, Filter, Page, Position, Window};
}
pub use toolyard_task::approval::{Approval, ConfirmBy, Decision as ApprovalDecision, MAX_NOTE};
pub use toolyard_task::session::Session;
pub use toolyard_task::task::{Era, Question, Summary};
pub use toolyard_task::timeline::{EventKind, LeftOut, RunRecord, Timeline, TimelineEvent};
pub use toolyard_task::tool::{ArgumentCheck, GivenAnswer, OnClientTimeout, Report, RunUsage, ToolSpec};
pub use toolyard_task::wire::{QuestionKind, TaskStatus};
pub use toolyard_task::{
    AccessRequest, AskError, AuditStore, Catalog, Clock, Digest, Ids, Incarnation, Outcome, Owner, Rate,
    SessionDigest, SessionId, Task, TaskId,
};
