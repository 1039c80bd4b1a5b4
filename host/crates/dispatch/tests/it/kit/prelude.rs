//! The imports that most tests of the application share.

pub use crate::kit::application::{
    audit_lines, dispatch, dispatch_by, eventually, in_memory, keep_time, listed, result_of, running, serve,
    task_of, tasks_of, until,
};
pub use crate::kit::calls::{
    Counted, anonymous, asks, call, call_on, create, create_alone, mute, plain_call, stranger,
};
pub use crate::kit::client::Client;
pub use crate::kit::faulty::faulty;
pub use futures_util::FutureExt as _;
pub use futures_util::future::BoxFuture;
pub use serde_json::{Value, json};
pub use std::collections::HashMap;
pub use std::sync::atomic::{AtomicU32, Ordering};
pub use std::sync::{Arc, Mutex};
pub use std::time::Duration;
pub use tokio::sync::Notify;
pub use toolyard_dispatch::rules::AccessRules;
pub use toolyard_dispatch::{
    Bounds, CallReply, Caller, ClientChannel, Departure, Dispatch, DrainMode, Fault, NoClientChannel,
    Outcome, Policy, Principal, RateKey, Rates, RawJson, SessionId, Settings, Stop, Task, TaskId, Terms,
};
pub use toolyard_kit::{
    SETTINGS, TickingClock, YES, application, done, local_caller, memory, native, principal, question,
    stores, tool,
};
pub use toolyard_protocol::Revision;
pub use toolyard_protocol::stateless::input::Retry;
pub use toolyard_store::MemoryStore;
pub use toolyard_task::tool::Report;
pub use toolyard_task::wire::TaskStatus;
pub use toolyard_task::{Durability, RunContext, RunEnd, Tool};
