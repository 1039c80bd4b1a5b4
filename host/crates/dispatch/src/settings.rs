//! The settings of the operator. Defaults, units and sentences are in the host's table of limits;
//! here are only the values.

pub(crate) mod bridge;

use bridge::BridgeSettings;
use std::sync::Arc;

/// The most entries on a page of a listing; a page of `resources/list` may be longer, because it holds whole pages
/// of plugins. Most hosts need one page, and pages of large entries end before.
pub const MAX_PAGE: u32 = 200;

/// The settings of the application.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Whether tasks are offered at all.
    pub tasks: bool,
    /// The ttl of a task whose client names none (milliseconds).
    pub ttl_default_ms: u64,
    /// The longest ttl; also what `null` gets (milliseconds).
    pub ttl_cap_ms: u64,
    /// How often clients should ask about a task (milliseconds).
    pub poll_interval_ms: u64,
    /// The most attempts of a task that may be run again.
    pub attempts: u32,
    /// How long a task waits before its second attempt; the time doubles for each further one
    /// (milliseconds).
    pub rerun_after_ms: u64,
    /// Whether this process runs tasks of dead hosts. A command that only reads the store leaves
    /// them to a host.
    pub adopts: bool,
    /// Whether this host takes over tasks that wait for their turn on other hosts, when it has room and
    /// they do not. They must have the same component.
    pub shares: bool,
    /// How much runs at once, and how much waits.
    pub admission: Bounds,
    /// Live tasks in the whole store, running and waiting.
    pub live_tasks: u32,
    /// The most bytes that are kept of the tasks of one owner.
    pub kept_bytes_per_owner: u64,
    /// The same for all owners together.
    pub kept_bytes: u64,
    /// The most bytes of the journals of all tasks.
    pub journal_bytes: u64,
    /// How long a question waits for its answer (milliseconds).
    pub question_ms: u64,
    /// How long a question of a task waits for a client to ask for the task's result before it is sent
    /// on any stream (milliseconds).
    pub question_settle_ms: u64,
    /// How long a call waits for its approval (milliseconds).
    pub approval_ms: u64,
    /// How long a call may take before it becomes a task, if this host decides that and the tool's
    /// manifest says nothing (milliseconds).
    pub inline_for_ms: u64,
    /// How long calls of clients without tasks go on; `None` switches that off.
    pub bridge: Option<Arc<BridgeSettings>>,
    /// Whether lists have `tool_search` and `tool_call` in place of the tools of the folder.
    pub tool_search: bool,
    /// Whether a call that may be a task waits for its turn instead of being refused as busy.
    pub queue_when_busy: bool,
    /// Entries on a page of a listing: [`MAX_PAGE`], or fewer in tests.
    pub page: u32,
    /// Sessions that are kept.
    pub sessions: u32,
    /// How long an unused session is kept (milliseconds).
    pub session_idle_ms: u64,
    /// The most log lines about calls and sessions in a second.
    pub log_rate: u32,
}

/// How much runs at once, and how much waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Runs in the whole host.
    pub running: u32,
    /// Runs of one principal.
    pub running_per_principal: u32,
    /// Tasks of one principal that wait for a slot.
    pub waiting_per_principal: u32,
    /// Tasks of one principal that wait without a run.
    pub parked_per_principal: u32,
}
