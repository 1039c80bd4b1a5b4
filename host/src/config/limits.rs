//! Every limit and switch that an operator can set: its key, its default, a
//! sentence. The one place where a limit has a number; `host/docs/settings.md` is
//! made from this table.

use super::value::{AuditTo, Ratio, Value};
use bytesize::ByteSize;
use std::path::PathBuf;
use std::time::Duration;
use toolyard_dispatch::Rate;

/// One row of the table.
#[derive(Debug, Clone, Copy)]
#[cfg_attr(not(test), expect(dead_code, reason = "the page of settings is made from it by a test"))]
pub struct Row {
    /// The key in `toolyard.toml`, table and name.
    pub key: &'static str,
    /// What kind of value it takes.
    pub kind: &'static str,
    /// The default, as it would be written.
    pub default: &'static str,
    /// What it does.
    pub sentence: &'static str,
}

impl Row {
    /// The environment variable.
    #[must_use]
    pub fn variable(&self) -> String {
        format!("TOOLYARD_{}", self.key.to_uppercase().replace(['.', '-'], "_"))
    }
}

macro_rules! limits {
    ($($field:ident: $kind:ty = $key:literal, $default:literal, $sentence:literal;)*) => {
        /// The values in force.
        #[derive(Debug, Clone)]
        pub struct Limits {
            $(#[doc = $sentence] pub $field: $kind,)*
        }

        /// The table.
        pub const TABLE: &[Row] = &[
            $(Row { key: $key, kind: <$kind as Value>::KIND, default: $default, sentence: $sentence },)*
        ];

        impl Default for Limits {
            fn default() -> Self {
                Self {
                    $($field: <$kind as Value>::read($default).expect("defaults in the table are valid"),)*
                }
            }
        }

        impl Limits {
            /// Sets one value.
            ///
            /// # Errors
            /// What the value should look like. `None` if there is no such key.
            pub fn set(&mut self, key: &str, text: &str) -> Option<Result<(), String>> {
                match key {
                    $($key => Some(<$kind as Value>::read(text).map(|value| self.$field = value)),)*
                    _ => None,
                }
            }
        }
    };
}

limits! {
    tasks: bool = "tasks.enabled", "true",
        "Whether tasks are offered at all; without them plain calls go on.";
    ttl_default: Duration = "tasks.ttl-default", "1h",
        "How long a task lives, counted from its creation, when the client names no ttl.";
    ttl_cap: Duration = "tasks.ttl-cap", "24h",
        "The longest ttl; what a client that asks for more, or for `null`, gets.";
    poll_interval: Duration = "tasks.poll-interval", "1s",
        "How often clients are told to ask about a task, unless the plugin's manifest says otherwise.";
    inline_for: Duration = "tasks.inline-for", "2s",
        "How long a call of a 2026-07-28 client that has the tasks extension is waited for before it becomes a task, if the tool's taskSupport is \"optional\" and its manifest says nothing else.";
    attempts: u32 = "tasks.attempts", "3",
        "How often a task is run at most, if its tool may be run again (`durability = \"rerun\"`) and its hosts end before it does.";
    rerun_after: Duration = "tasks.rerun-after", "1s",
        "How long a task waits before its second run; twice as long before each further one, at most a minute.";
    lease: Duration = "cluster.lease", "15s",
        "How long a host that shares a PostgreSQL database counts as living after it was last heard of; then others see to its tasks, and it runs them no more.";
    start_wait: Duration = "cluster.start-wait", "60s",
        "How long a start waits for a lock in a PostgreSQL database that another process holds, such as a host that brings the schema forward; then it fails and says who holds it.";
    share: bool = "cluster.share", "false",
        "Whether tasks that wait for their turn on one host are run by another one that has room, where hosts share a PostgreSQL database; it must have the same component.";
    waiting_per_principal: u32 = "tasks.waiting-per-principal", "1000",
        "Tasks of one principal that may wait for their turn; over it new ones are refused as busy.";
    live_tasks: u32 = "tasks.live", "20000",
        "Running and waiting tasks in the whole store; over it new ones are refused as busy.";
    kept_bytes_per_principal: ByteSize = "tasks.kept-bytes-per-principal", "1GiB",
        "Records, arguments and results that are kept of the tasks of one principal. Over it, those of its tasks that ended first are removed before their ttl; if none has ended, new ones are refused as busy.";
    kept_bytes: ByteSize = "tasks.kept-bytes", "8GiB",
        "The same of all principals together; over it, tasks of those principals are removed of whom most is kept.";
    running: u32 = "calls.running", "1000",
        "Calls and tasks that run at once in this host; lowered at start to what the machine can hold.";
    running_per_principal: u32 = "calls.running-per-principal", "64",
        "Calls and tasks of one principal that run at once.";
    guest_memory: Option<ByteSize> = "calls.memory", "auto",
        "Memory of all runs together; a call that needs more is told `busy`, a run that grows beyond it is ended. `auto` is three quarters of what the machine, or the container, has.";
    retry_after: Duration = "calls.retry-after", "1s",
        "When a client that was told `busy` is advised to try again.";
    rate_requests: Option<Rate> = "rates.requests", "12000/min",
        "Requests of one principal, of any kind; over a rate the answer is 429 with Retry-After, and nothing is done.";
    rate_calls: Option<Rate> = "rates.calls", "6000/min",
        "Plain calls of one principal, and its requests for resources, prompts and completion.";
    rate_creation: Option<Rate> = "rates.creation", "1200/min",
        "Tasks that one principal may create.";
    rate_polling: Option<Rate> = "rates.polling", "6000/min",
        "Questions of one principal about tasks (`tasks/get`, `tasks/result`, `tasks/list`, `tasks/cancel`).";
    rate_failed_lookups: Option<Rate> = "rates.failed-lookups", "60/min",
        "Look-ups of one principal that find nothing: ids of tasks, sessions, events, and cursors; over it the principal looks nothing up for a while.";
    rate_sessions: Option<Rate> = "rates.sessions", "120/min",
        "Sessions that one principal may open.";
    rate_local: bool = "rates.local", "false",
        "Whether the rates hold for the user of this machine as well: stdio, and anonymous callers from the loopback address.";
    page: u32 = "lists.page", "200",
        "Entries on one page of a listing; a page of `resources/list` may be longer, because it holds whole pages of plugins.";
    list_time: Duration = "resources.list-time", "2s",
        "How long one plugin may take for its part of a list of resources or templates; a plugin that takes longer is left out, and passed over for a while.";
    list_runs: u32 = "resources.list-runs", "8",
        "How often one plugin is run at most for one request that lists resources; a plugin that gives that many pages without an entry is left out.";
    question_wait: Duration = "questions.wait", "5min",
        "How long a question that a tool asks waits for the client's answer.";
    question_state: Duration = "questions.state", "1h",
        "How long a 2026-07-28 client may take to answer what a plain call asked; what it carries meanwhile is not taken any more after that.";
    question_settle: Duration = "questions.settle", "1500ms",
        "How long a question of a task waits for the client to ask for the task's result, before it goes out on any open stream.";
    question_related_task: bool = "questions.related-task", "true",
        "Whether questions of a task name it, as the protocol wants; some clients that run tasks themselves mistake it for one of theirs and never answer.";
    memory: ByteSize = "guest.memory", "64MiB",
        "Linear memory of one run; a manifest may set another (`limits.memory`).";
    cpu: Duration = "guest.cpu", "30s",
        "CPU time of one run; a manifest may set another (`limits.cpu`).";
    wall: Duration = "guest.wall", "10min",
        "Elapsed time of one run; a manifest may set another (`limits.wall`).";
    output: ByteSize = "guest.output", "8MiB",
        "Encoded size of one result; a manifest may set another (`limits.output`).";
    table: u32 = "guest.table", "100000",
        "Elements of one table of a guest; a manifest may set another (`limits.table`).";
    hostcall: ByteSize = "guest.hostcall", "32MiB",
        "Bytes that one call between guest and host may carry; a manifest may set another (`limits.hostcall`).";
    instances: u32 = "guest.instances", "100",
        "Core instances that a component may be made of; a manifest may set another (`limits.instances`).";
    handles: u32 = "guest.handles", "256",
        "Handles of one run at once, such as open files, streams and sockets; a manifest may set another (`limits.handles`).";
    stdio: ByteSize = "guest.stdio", "64KiB",
        "What is kept for the log of what one run writes to stdout and stderr; a manifest may set another (`limits.stdio`).";
    log: ByteSize = "guest.log", "64KiB",
        "What one run may write to this host's log by log messages; a manifest may set another (`limits.log`).";
    log_rate: u32 = "guest.log-rate", "50",
        "Log messages a second of one run that leave for the client; a manifest may set another (`limits.log-rate`).";
    progress_rate: u32 = "guest.progress-rate", "20",
        "Progress messages a second of one run that leave for the client; a manifest may set another (`limits.progress-rate`).";
    questions: u32 = "guest.questions", "64",
        "Questions that one run may ask; a manifest may set another (`limits.questions`).";
    permissions: u32 = "guest.permissions", "8",
        "Questions of one run to a person for what its manifest leaves to them (`grant = \"ask\"`); a manifest may set another (`limits.permissions`).";
    http_requests: u32 = "guest.http-requests", "1000",
        "HTTP requests that one run may send; a manifest may set another (`limits.http-requests`).";
    http_concurrent: u32 = "guest.http-concurrent", "8",
        "HTTP requests of one run under way at once; a manifest may set another (`limits.http-concurrent`).";
    http_request: ByteSize = "guest.http-request", "8MiB",
        "The body of an HTTP request that a run sends; a manifest may set another (`limits.http-request`).";
    http_response: ByteSize = "guest.http-response", "32MiB",
        "The body of a response to it; a manifest may set another (`limits.http-response`).";
    http_time: Duration = "guest.http-time", "60s",
        "How long such an exchange may take, from the look-up of the name to the end of the response; a manifest may set another (`limits.http-time`).";
    compile_time: Duration = "plugins.compile-time", "2min",
        "How long the compilation of one component may take.";
    compile_memory: ByteSize = "plugins.compile-memory", "2GiB",
        "How much memory the compilation of one component may take.";
    component: ByteSize = "plugins.component", "64MiB",
        "The largest component file that is loaded.";
    max_files: u32 = "plugins.max-files", "2000",
        "How many components of the plugin folder are loaded; a quarter of the descriptors that the process may have, if that is less. Those that are loaded already come first, then those that have a name of a tool or prompt, then the others by name.";
    plugin_wait: Duration = "plugins.start-wait", "10s",
        "How long `toolyard serve` waits at its start for components that are being compiled; then it serves what is ready, and the others as they are ready.";
    others_may_write: bool = "plugins.others-may-write", "false",
        "Whether a plugin folder may be used that everybody on this machine can write to, and a component or a manifest that everybody can change or that belongs to a user other than root, the host's, and the owner of the folder.";
    data_others_may_write: bool = "data.others-may-write", "false",
        "Whether the data folder, what is in it and the folder of the audit log may be used though others can write there, or they belong to another user than root and the host's; these can then change tasks and keys.";
    rescan: Duration = "plugins.rescan", "2s",
        "How often the plugin folder is looked at even if no event came.";
    message: ByteSize = "wire.message", "8MiB",
        "The largest message: an HTTP body, or a line on stdin.";
    body_bytes: ByteSize = "wire.body-bytes", "256MiB",
        "Bytes of messages larger than 64KiB that the host holds at once, from their arrival to the end of their call; over it the answer is 503 with Retry-After, or over stdio an error that says busy.";
    body_bytes_per_principal: ByteSize = "wire.body-bytes-per-principal", "64MiB",
        "The same of one principal; less than `wire.message` refuses messages that large.";
    connections: u32 = "wire.connections", "1024",
        "HTTP connections at once; over it those that do nothing make room, and who finds none within a second is answered 503 with Retry-After. Lowered at start to what descriptors allow.";
    head_time: Duration = "wire.head-time", "15s",
        "How long a client may take to send the head of an HTTP request.";
    body_time: Duration = "wire.body-time", "30s",
        "How long a client may take to send an HTTP body.";
    write_time: Duration = "wire.write-time", "60s",
        "How long a client may leave untaken what it was sent over HTTP, before its connection is cut.";
    batch: u32 = "wire.batch", "100",
        "Messages in one batch (2025-03-26 only).";
    requests_per_session: u32 = "wire.requests-per-session", "512",
        "Requests of one session under way at once, and over stdio as many without one. Over HTTP, what is without a session is bounded by connections, rates and slots alone.";
    subscriptions: u32 = "wire.subscriptions", "1000",
        "Resources that one session may be subscribed to; also resources and tasks together that one `subscriptions/listen` may name.";
    cache: Duration = "wire.cache", "10s",
        "How long clients of 2026-07-28 may keep a list, or what `server/discover` says, before they ask again.";
    stream_after: Duration = "wire.stream-after", "250ms",
        "A call that takes longer than this is answered as a stream of events instead of one JSON object.";
    keep_alive: Duration = "wire.keep-alive", "15s",
        "How often a silent event stream gets a comment that keeps it open.";
    retry: Duration = "wire.retry", "1s",
        "When clients are told to come back after an event stream broke.";
    replay_bytes: ByteSize = "wire.replay-bytes", "1MiB",
        "What one event stream keeps for a client that comes back; its latest message is kept in any case.";
    replay_events: u32 = "wire.replay-events", "1000",
        "Events that one event stream keeps.";
    replay_bytes_per_session: ByteSize = "wire.replay-bytes-per-session", "16MiB",
        "What the ended event streams of one session keep together; over it the oldest are let go.";
    replay_bytes_in_all: ByteSize = "wire.replay-bytes-in-all", "256MiB",
        "Bytes that the ended event streams of all sessions keep together; over it the host drops the oldest of the principal that keeps the most.";
    replay_bytes_per_principal: ByteSize = "wire.replay-bytes-per-principal", "64MiB",
        "Bytes that the ended event streams of one principal keep together; over it the host drops its oldest.";
    replay_time: Duration = "wire.replay-time", "5min",
        "How long an ended event stream is kept.";
    streams_per_session: u32 = "wire.streams-per-session", "64",
        "Ended event streams of one session that are kept for a client that comes back.";
    permissions_kept: u32 = "permissions.kept", "1000",
        "Lasting permissions, and refusals, that are kept of one principal ([permissions](permissions.md)); over it the oldest is forgotten, and asked for again.";
    sessions: u32 = "sessions.kept", "10000",
        "Sessions that are kept; over it the one longest unused without live tasks is ended.";
    session_idle: Duration = "sessions.idle", "48h",
        "How long an unused session without live tasks is kept.";
    sessions_in_memory: u32 = "sessions.in-memory", "2000",
        "Sessions held in memory; others are read from the store again when they are used.";
    token_size: ByteSize = "tokens.size", "8KiB",
        "The largest access token; a larger one is malformed.";
    tokens_cached: u32 = "tokens.cached", "5000",
        "Access tokens that are remembered as verified, by their SHA-256; others are verified at each request.";
    jwks_refresh: Duration = "jwks.refresh", "10min",
        "The keys of an issuer are fetched again when they are this old.";
    jwks_cool_down: Duration = "jwks.cool-down", "10s",
        "How soon after one fetch of an issuer's keys the next may follow, whatever tokens name; a file of keys is read as often.";
    jwks_stale: Duration = "jwks.stale", "1h",
        "How long keys serve while their issuer cannot be reached; after that its tokens are answered with 503.";
    jwks_timeout: Duration = "jwks.timeout", "5s",
        "How long a fetch of an issuer's keys may take.";
    jwks_size: ByteSize = "jwks.size", "1MiB",
        "The largest document with keys, or metadata, of an issuer.";
    audit_to: AuditTo = "audit.to", "auto",
        "Where audit entries go ([audit](audit.md)): `auto` is `file` for `serve` and `tasks`, and `off` for every other command.";
    audit_file: PathBuf = "audit.file", "audit.jsonl",
        "The file for audit entries; a relative path begins in the data folder.";
    audit_rotate_at: ByteSize = "audit.rotate-at", "16MiB",
        "The audit file is put aside before it grows beyond this.";
    audit_keep: u32 = "audit.keep", "8",
        "Audit files that were put aside and are kept.";
    audit_backlog: ByteSize = "audit.backlog", "64MiB",
        "Audit entries that wait in the store while they cannot be exported; over it the oldest are dropped and counted.";
    admin_on_network: bool = "admin.on-network", "false",
        "Whether `admin.listen` may be an address that other machines reach; nobody is asked who they are there.";
    admin_connections: u32 = "admin.connections", "16",
        "Connections to the admin listener at once; further ones wait to be accepted.";
    admin_time: Duration = "admin.time", "10s",
        "How long one connection to the admin listener may last; it carries one request.";
    admin_patience: Duration = "admin.patience", "2s",
        "How long the store may take to answer before `/readyz` says that it does not.";
    trace_sample: Ratio = "trace.sample", "1",
        "Which part of the traces that begin here is recorded; callers decide about theirs.";
    trace_queue: u32 = "trace.queue", "2048",
        "Spans that wait to be sent; further ones are lost.";
    trace_interval: Duration = "trace.interval", "5s",
        "How often spans are sent.";
    trace_flush: Duration = "trace.flush", "3s",
        "How long the last spans may take to be sent at the end.";
    drain: Duration = "shutdown.drain", "10s",
        "How long running calls and tasks may go on after the first SIGTERM or Ctrl-C.";
    eof_grace: Duration = "shutdown.eof-grace", "1500ms",
        "How long requests under way may go on after stdin has ended.";
    detach: bool = "stdio.detach", "false",
        "Whether `toolyard stdio` runs tasks in a background host, so that they outlive it ([stdio](stdio.md)); `--detach` is the same.";
    detach_linger: Duration = "detach.linger", "10s",
        "How long a background host without a task and without a client stays.";
    detach_start: Duration = "detach.start", "30s",
        "How long a background host may take to answer; after that the call is refused that would have become a task.";
    detach_connections: u32 = "detach.connections", "64",
        "Clients of one background host at once.";
    detach_log: ByteSize = "detach.log", "1MiB",
        "The log of a background host, in the data folder; it is put aside once before it grows beyond this.";
}
