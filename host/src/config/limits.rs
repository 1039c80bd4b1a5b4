//! Every limit and switch that an operator can set: its key, its default, and a sentence with the operator's
//! reason to change it. A test generates `host/docs/reference/settings.md` from this table. A limit that no
//! operator can choose well is a constant where it is used; `dropped.rs` lists the keys that such limits
//! once had.

use super::value::{AuditTo, LockMode, LogFormat, Prefix, Ratio, Value};
use bytesize::ByteSize;
use std::path::PathBuf;
use std::time::Duration;
use toolyard_dispatch::{OnClientTimeout, OutputSchemas, Rate};
use toolyard_trust::policy::Requirement;

/// A row of the table.
#[derive(Debug, Clone, Copy)]
#[cfg_attr(not(test), expect(dead_code, reason = "the page of settings is made from it by a test"))]
pub struct Row {
    /// The key in `toolyard.toml`: table and name.
    pub key: &'static str,
    /// The kind of its value.
    pub kind: &'static str,
    /// The default, as an operator would write it.
    pub default: &'static str,
    /// The effect, and the operator's reason to change it.
    pub sentence: &'static str,
}

/// The environment variable of a key.
#[must_use]
pub fn variable(key: &str) -> String {
    format!("TOOLYARD_{}", key.to_uppercase().replace(['.', '-'], "_"))
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
            /// The expected form of the value. `None` if there is no such key.
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
        "Whether the host offers tasks. Turn it off where no work may outlive its call; plain calls still work.";
    ttl_default: Duration = "tasks.ttl-default", "1h",
        "How long a task lives, counted from its creation, if the client names no ttl. Raise it if clients fetch results late; lower it to keep less in the store.";
    ttl_cap: Duration = "tasks.ttl-cap", "24h",
        "The longest ttl; a client that asks for more, or for `null`, gets this. Raise it for tasks that run for days; lower it to keep less in the store.";
    poll_interval: Duration = "tasks.poll-interval", "1s",
        "How often the host advises clients to ask about a task, unless the plugin's manifest says otherwise. Raise it to have fewer requests; lower it to show progress sooner.";
    inline_for: Duration = "tasks.inline-for", "2s",
        "How long a call of a 2026-07-28 client with the tasks extension runs before it becomes a task, if the tool's taskSupport is \"optional\" and its manifest names no time. Raise it to have fewer tasks; lower it to free clients sooner.";
    queue_when_busy: bool = "tasks.queue-when-busy", "true",
        "Whether a call that may become a task waits for its turn when a limit of running calls is reached. Turn it off if clients should be told at once that the host is busy.";
    bridge: bool = "bridge.enabled", "true",
        "Whether long calls of clients that know no tasks go on as tasks, which the client collects by the tools `task_wait`, `task_list`, `task_cancel` and `task_answer`. Turn it off to offer tasks only to clients that declare them.";
    bridge_after: Duration = "bridge.after", "45s",
        "How long a plain call of a client without tasks may take before its result names a task instead. Lower it if clients give up sooner; 0s hands off each call that does not end at once.";
    bridge_wait: Duration = "bridge.wait", "50s",
        "The longest that one call of `task_wait` waits, at most 55s. Lower it if clients give up sooner; raise it for some clients in `[[bridge.clients]]`.";
    bridge_on_client_timeout: OnClientTimeout = "bridge.on-client-timeout", "keep",
        "The fate of a call that may become a task when its client stops waiting: `keep` lets it go on, `stop` ends it. Set `stop` if a tool must not work when no client waits for it.";
    bridge_grace: Duration = "bridge.grace", "20s",
        "How long a call goes on after a timeout that its client did not name, unless an equal call joins it. Raise it if models take longer to call again.";
    bridge_rejoin: Duration = "bridge.rejoin", "10min",
        "How long after its end a task answers an equal call of the same owner, if its client stopped waiting before it knew the task. Lower it if equal calls should do the work again.";
    bridge_prefix: Prefix = "bridge.prefix", "",
        "Text before the names of the host tools. Set it if a client merges the tools of several servers that have the same names.";
    bridge_output_schema: OutputSchemas = "bridge.output-schema", "union",
        "How clients without tasks see a tool with an output schema: with a schema that a hand-off fits too if it has at most 300 bytes, or without one. Set `drop` if a client generates types from schemas.";
    bridge_answers: bool = "bridge.answers", "true",
        "Whether a client that cannot be asked answers the questions of tools by `task_answer`. Turn it off if a model must not pass on the answers of its user.";
    tool_search: bool = "lists.tool-search", "false",
        "Whether lists have `tool_search` and `tool_call` in place of the tools of the folder, which clients then find by words. Turn it on if the folder has more tools than a model should read, and clients do not search themselves.";
    attempts: u32 = "tasks.attempts", "3",
        "The most runs of one task, if its tool may be run again (`durability = \"rerun\"`) and its hosts end before it does. Raise it if hosts end often; 1 allows no second run.";
    rerun_after: Duration = "tasks.rerun-after", "1s",
        "How long a task waits before its second run; each further wait doubles, up to a minute. Raise it if the systems that tools use need time to recover.";
    lease: Duration = "cluster.lease", "15s",
        "How long a host that shares a PostgreSQL database counts as alive after its last sign of life; then others recover its tasks, and it stops them. Raise it if the network or database pauses; lower it to recover sooner.";
    share: bool = "cluster.share", "false",
        "Whether a host with room runs tasks that wait on another host of the same PostgreSQL database; both must have the same component. Turn it on if the load on your hosts is uneven.";
    waiting_per_principal: u32 = "tasks.waiting-per-principal", "1000",
        "Tasks of one principal that may wait for their turn; over it the host refuses new ones as busy. Raise it for principals that submit large batches; lower it to refuse overload sooner.";
    parked_per_principal: u32 = "tasks.parked-per-principal", "20000",
        "Tasks of one principal that may wait without a run, for an answer or a time (`durability = \"resume\"`); over it the host refuses new ones as busy. Raise it if many people are asked at once; lower it so that one principal cannot fill the store.";
    live_tasks: u32 = "tasks.live", "50000",
        "Live tasks in the whole store, those that run and those that wait; over it the host refuses new ones as busy. Raise it if the store and its disk can hold more; lower it to bound the work after a restart.";
    kept_bytes_per_principal: ByteSize = "tasks.kept-bytes-per-principal", "1GiB",
        "Bytes of records, arguments and results that the store keeps of one principal's tasks. Over it, the tasks that ended first are removed before their ttl; if none has ended, new ones are refused as busy. Size it by the disk and the number of principals.";
    kept_bytes: ByteSize = "tasks.kept-bytes", "8GiB",
        "The same bytes for all principals together; over it the host removes tasks of the principals that keep the most. Size it by the disk of the store.";
    journals: ByteSize = "tasks.journals", "4GiB",
        "Bytes of the journals of all tasks that resume. Over it, the journals of the tasks that ended first are removed; if those of live tasks alone have more, new tasks of tools that resume are refused as busy. Size it by the disk of the store.";
    timeline_keep: Duration = "timeline.keep", "168h",
        "How long the record of a run, without arguments, results and events, is kept after its task is removed. Raise it to look further back; lower it to keep less.";
    running: u32 = "calls.running", "1000",
        "Calls and tasks that run at once in this host; the host lowers it at start to what the machine can hold. Lower it to protect processors or the systems that tools use.";
    running_per_principal: u32 = "calls.running-per-principal", "64",
        "Calls and tasks of one principal that run at once. Raise it if few principals share the host; lower it so that one cannot fill it.";
    guest_memory: Option<ByteSize> = "calls.memory", "auto",
        "Memory of all runs together; a call that needs more is refused as busy, and a run that grows beyond it ends. `auto` is three quarters of the machine's or container's memory; set it if other programs share the machine.";
    rate_requests: Option<Rate> = "rates.requests", "12000/min",
        "Requests of one principal, of any kind; over a rate the answer is 429 with Retry-After, and the request has no effect. Raise it for a principal that serves many users, such as a gateway.";
    rate_calls: Option<Rate> = "rates.calls", "6000/min",
        "Plain calls of one principal, and its requests for resources, prompts and completion. Lower it if calls are expensive; raise it for gateways.";
    rate_creation: Option<Rate> = "rates.creation", "1200/min",
        "Tasks that one principal may create. Lower it if each task costs money or disk; raise it for batch clients.";
    rate_polling: Option<Rate> = "rates.polling", "6000/min",
        "Requests of one principal about tasks (`tasks/get`, `tasks/result`, `tasks/list`, `tasks/cancel`). Raise it for principals that watch many tasks; lower it to protect the store.";
    rate_failed_lookups: Option<Rate> = "rates.failed-lookups", "60/min",
        "Look-ups of one principal that find nothing: ids of tasks, sessions, events, and cursors; over it the principal may look nothing up for a while. Lower it to slow down guessing; raise it if clients often use expired ids.";
    rate_sessions: Option<Rate> = "rates.sessions", "120/min",
        "Sessions that one principal may open. Raise it for clients that open a session for each call; lower it to protect `sessions.kept`.";
    rate_local: bool = "rates.local", "false",
        "Whether the rates apply to the user of this machine too: stdio, and anonymous callers from the loopback address. Turn it on if a proxy on this machine forwards other people's requests.";
    question_wait: Duration = "questions.wait", "5min",
        "How long a question of a tool waits for the client's answer. Raise it if people answer and may be away; lower it to free runs sooner.";
    memory: ByteSize = "guest.memory", "64MiB",
        "Linear memory of one run; a manifest may set another (`limits.memory`). Lower it to fit more runs into `calls.memory`; raise it if most plugins need more.";
    cpu: Duration = "guest.cpu", "30s",
        "CPU time of one run; a manifest may set another (`limits.cpu`). Raise it if most plugins compute for long; lower it to end runaway runs sooner.";
    wall: Duration = "guest.wall", "10min",
        "Elapsed time of one run; a manifest may set another (`limits.wall`). Raise it if most plugins wait for slow systems; lower it to free their slots sooner.";
    output: ByteSize = "guest.output", "8MiB",
        "Encoded size of one result; a manifest may set another (`limits.output`). Raise it if plugins return files; lower it to save memory and disk.";
    hostcall: ByteSize = "guest.hostcall", "32MiB",
        "Bytes that one call between guest and host may carry; a manifest may set another (`limits.hostcall`). The host holds them outside the guest's memory, so lower it if memory is short.";
    stdio: ByteSize = "guest.stdio", "64KiB",
        "Bytes of stdout and stderr of one run that go to the log; a manifest may set another (`limits.stdio`). Raise it to debug plugins; lower it if the log costs money.";
    log: ByteSize = "guest.log", "64KiB",
        "Bytes that one run may write to this host's log by log messages; a manifest may set another (`limits.log`). Raise it to debug plugins; lower it if the log costs money.";
    http_request: ByteSize = "guest.http-request", "8MiB",
        "Body of one HTTP request of a run; a manifest may set another (`limits.http-request`). Raise it if plugins upload files; lower it to limit what a plugin can carry away.";
    http_response: ByteSize = "guest.http-response", "32MiB",
        "Body of the response to it; a manifest may set another (`limits.http-response`). Raise it if plugins download large files; lower it to save traffic.";
    compile_time: Duration = "plugins.compile-time", "2min",
        "How long the compilation of one component may take. Raise it for large components on a slow machine; lower it if strangers provide components.";
    compile_memory: ByteSize = "plugins.compile-memory", "2GiB",
        "Memory that the compilation of one component may take. Lower it on a small machine; raise it for large components.";
    component: ByteSize = "plugins.component", "64MiB",
        "The largest component file that the host loads. Raise it for components that embed an interpreter or data; lower it if strangers provide components.";
    plugin_wait: Duration = "plugins.start-wait", "5s",
        "How long the start of `toolyard serve`, and the first list of `toolyard stdio`, wait for components that still compile, if a plugin serves by then; the host adds their tools later. Raise it if clients must find all tools in the first list; lower it to start sooner. Many clients give up a server that takes 10 seconds.";
    lock: LockMode = "plugins.lock", "auto",
        "How far `toolyard.lock` in the plugin folder is obeyed: with `auto`, components that it lists must be as it says and others load; with `enforce`, only those that it lists load; with `off`, it is ignored. Choose `enforce` where every plugin must have been accepted.";
    require_signature: Requirement = "plugins.require-signature", "first-use",
        "Whether plugins from a source that no `[[plugins.signers]]` names need a signature: `none`; `first-use`, where the signer of the first version must sign all later ones; or `always`. Choose `always` where unsigned plugins must not come in.";
    others_may_write: bool = "plugins.others-may-write", "false",
        "Whether the host accepts a plugin folder that everybody on this machine can write to, and a component or manifest that everybody can change or that belongs to a user other than root, the host's, and the folder's owner. Turn it on only if you trust all users of the machine.";
    data_others_may_write: bool = "data.others-may-write", "false",
        "Whether the host accepts a data folder, or a folder of the audit log, that others can write to or that belongs to a user other than root and the host's. Turn it on only if you trust them: they can change tasks and keys.";
    rescan: Duration = "plugins.rescan", "2s",
        "How often the host looks at the plugin folder even without an event. Lower it if the folder lies on a network file system, which sends no events; raise it if looking is slow there.";
    message: ByteSize = "wire.message", "8MiB",
        "The largest message: an HTTP body, or a line on stdin. Raise it if clients send files as arguments; lower it to save memory.";
    body_bytes: ByteSize = "wire.body-bytes", "256MiB",
        "Bytes of messages larger than 64KiB that the host holds at once, from their arrival to the end of their call; over it the answer is 503 with Retry-After, or over stdio an error that says busy. Size it by the machine's memory.";
    body_bytes_per_principal: ByteSize = "wire.body-bytes-per-principal", "64MiB",
        "The same bytes for one principal; less than `wire.message` refuses messages that large. Raise it for a principal that serves many users.";
    connections: u32 = "wire.connections", "1024",
        "HTTP connections at once; over it idle ones make room, and a client that gets no place within a second is answered 503 with Retry-After. The host lowers it at start to what descriptors allow. Raise it for more clients; lower it to save memory.";
    head_time: Duration = "wire.head-time", "15s",
        "How long a client may take to send the head of an HTTP request. Raise it for clients on very slow networks; lower it to free connections of slow attackers sooner.";
    body_time: Duration = "wire.body-time", "30s",
        "How long a client may take to send an HTTP body. Raise it if large bodies come over slow networks; lower it to free connections and memory sooner.";
    requests_per_session: u32 = "wire.requests-per-session", "512",
        "Requests of one session under way at once; over stdio also of all requests without a session. Over HTTP, only connections, rates and slots bound requests without a session. Raise it for clients that call many tools at once.";
    subscriptions: u32 = "wire.subscriptions", "1000",
        "Resources that one session may subscribe to, and resources plus tasks that one `subscriptions/listen` may name. Raise it for clients that watch more; lower it to save memory.";
    cache: Duration = "wire.cache", "10s",
        "How long 2026-07-28 clients may keep a list, or the answer to `server/discover`, before they ask again. Raise it to have fewer requests; lower it if plugins change often.";
    stream_after: Duration = "wire.stream-after", "250ms",
        "A call that takes longer than this is answered as an event stream instead of one JSON object. Raise it if a proxy or client handles event streams badly; lower it to show progress sooner.";
    keep_alive: Duration = "wire.keep-alive", "15s",
        "How often a silent event stream gets a comment that keeps it open. Set it below the idle timeout of your proxies.";
    sessions: u32 = "sessions.kept", "10000",
        "Sessions that the store keeps; over it the host ends the one longest unused without live tasks. Raise it for more clients; lower it to save disk.";
    session_idle: Duration = "sessions.idle", "48h",
        "How long the store keeps an unused session without live tasks. Raise it if clients come back after days; lower it to save disk.";
    jwks_refresh: Duration = "jwks.refresh", "10min",
        "The age at which the host fetches an issuer's keys again. Lower it so that revoked keys stop working sooner; raise it to ask the issuer less often.";
    log_format: LogFormat = "log.format", "text",
        "The form of the log: lines for people, or one JSON object a line ([log events](log-events.md)). Choose `json` if a log collector reads it.";
    log_rate: u32 = "log.rate", "100",
        "Log lines about calls and sessions in one second; the host counts the others in one line (`call.not_logged`). Raise it to log every call of a busy host, at a cost of a few microseconds each; 0 logs none.";
    audit_to: AuditTo = "audit.to", "auto",
        "The destination of audit entries ([audit](../guides/secure/audit.md)): `auto` is `file` for `serve` and `tasks`, and `off` for every other command. Choose `stderr` if your platform collects the output of containers.";
    audit_file: PathBuf = "audit.file", "audit.jsonl",
        "The file for audit entries; a relative path begins in the data folder. Set it to keep them on another volume or where your log shipper reads.";
    audit_rotate_at: ByteSize = "audit.rotate-at", "16MiB",
        "The host rotates the audit file before it grows beyond this. Raise it to keep more history; lower it to save disk.";
    audit_keep: u32 = "audit.keep", "8",
        "Rotated audit files that the host keeps. Raise it to keep more history; lower it to save disk or if another program stores the entries.";
    admin_on_network: bool = "admin.on-network", "false",
        "Whether `admin.listen` may be an address that other machines reach; the listener asks for no credentials. Turn it on if Prometheus or an orchestrator runs on another machine and the network is trusted.";
    approval_wait: Duration = "approvals.wait", "15min",
        "How long a call waits for its [approval](../guides/secure/approvals.md); without a decision by then it is denied. Raise it if approvers are not always there.";
    console_on_network: bool = "console.on-network", "false",
        "Whether `console.listen` may be an address that other machines reach; there only `[[console.users]]` log in. Turn it on behind a proxy that adds TLS.";
    console_not_own: bool = "console.not-own", "false",
        "Whether a user of the console may not approve or deny calls of a principal of the same name. Turn it on if two people must see each call.";
    console_session: Duration = "console.session", "12h",
        "How long a login to the [console](../guides/operate/console.md) lasts; two hours without use end it too. Lower it on a machine that others use.";
    trace_sample: Ratio = "trace.sample", "1",
        "The part of the traces that begin here that the host records; callers decide about theirs. Lower it if the collector or its storage is expensive.";
    trace_host_calls: bool = "trace.host-calls", "true",
        "Whether outgoing requests, sockets and waits of a guest are spans of their own, at most 200 a call. Turn it off if guests make many requests and the collector or its storage is expensive.";
    drain: Duration = "shutdown.drain", "10s",
        "How long running calls and tasks may go on after the first SIGTERM or Ctrl-C. Raise it to let long calls finish; keep it below the grace period of your orchestrator.";
    detach: bool = "stdio.detach", "false",
        "Whether `toolyard stdio` runs its tools in a background host, so that tasks outlive it ([stdio](../guides/use/stdio.md)); `--detach` is the same. Turn it on if clients end before their tasks do.";
    detach_parked: Duration = "detach.parked", "24h",
        "How long a background host stays without a client while a task is parked; a later client starts it again. Lower it to free its memory earlier.";
}
