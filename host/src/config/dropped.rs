//! Keys of earlier versions. A configuration that still names one starts: the host ignores the key, and warns with
//! the reason, so that no operator relies on a limit that does not hold.

use super::Config;

/// Whether a key of this name was dropped.
pub fn is_dropped(key: &str) -> bool {
    TABLE.iter().any(|(dropped, _)| *dropped == key)
}

impl Config {
    /// The dropped keys that this configuration names: the key, the behavior of the host in its place, and the file,
    /// variable or flag.
    pub fn dropped_keys(&self) -> impl Iterator<Item = (&'static str, &'static str, &str)> {
        TABLE.iter().filter_map(|(key, instead)| Some((*key, *instead, &*self.set.get(*key)?.place)))
    }

    /// Logs a warning for each dropped key.
    pub fn warn_of_dropped_keys(&self) {
        for (key, instead, origin) in self.dropped_keys() {
            tracing::warn!(
                event = "config.key_dropped",
                key,
                origin,
                reason = instead,
                "key is no longer a setting; remove it"
            );
        }
    }
}

macro_rules! dropped {
    ($($key:literal: $instead:literal,)*) => {
        /// All dropped keys, each with the behavior of the host in its place, which follows "is no longer a setting:".
        pub const TABLE: &[(&str, &str)] = &[$(($key, $instead),)*];
    };
}

dropped! {
    "calls.retry-after": "the host always advises a client that it refuses as busy to try again after 1s",
    "resources.list-runs": "the host runs one plugin at most 8 times for one request that lists resources",
    "resources.list-time": "a plugin may take 2s for its part of a list of resources",
    "lists.page": "a page of a list has at most 200 entries",
    "bridge.heartbeat": "the host reports progress of a silent call every 10s, if the client asked for it",
    "cluster.start-wait": "a start waits at most 60s for a lock in PostgreSQL",
    "timeline.task": "the timeline of a task has at most 256KiB",
    "timeline.total": "the timelines of all tasks have at most 256MiB together",
    "timeline.rows": "the host keeps at most 50000 records of runs whose tasks are removed, and `timeline.keep` bounds their age",
    "questions.state": "a 2026-07-28 client has 1h to answer a question of a plain call",
    "questions.related-task": "a question of a task always names the task, until a client rejects it as unknown",
    "plugins.max-files": "the host loads at most 2000 components of a folder, or a quarter of its open files if that is less",
    "questions.settle": "the host always waits 1500ms for the client to ask for a task's result before it sends a question on any open stream",
    "guest.table": "a run has at most 100000 table elements, unless a manifest sets `limits.table`",
    "guest.instances": "a component has at most 100 core instances, unless its manifest sets `limits.instances`",
    "guest.handles": "a run has at most 256 handles at once, unless a manifest sets `limits.handles`",
    "guest.log-rate": "the host sends at most 50 log messages a second of one run to the client, unless a manifest sets `limits.log-rate`",
    "guest.progress-rate": "the host sends at most 20 progress messages a second of one run to the client, unless a manifest sets `limits.progress-rate`",
    "guest.questions": "a run may ask at most 64 questions, unless a manifest sets `limits.questions`",
    "guest.permissions": "a run may ask for at most 8 permissions, unless a manifest sets `limits.permissions`",
    "guest.http-requests": "a run may send at most 1000 HTTP requests, unless a manifest sets `limits.http-requests`",
    "guest.http-concurrent": "a run may have at most 8 HTTP requests under way, unless a manifest sets `limits.http-concurrent`",
    "guest.http-time": "an HTTP exchange of a run may take 60s, unless a manifest sets `limits.http-time`",
    "wire.write-time": "the host always cuts a connection whose client takes nothing for 60s",
    "wire.batch": "a batch always has at most 100 messages",
    "wire.retry": "the host always advises clients to reconnect 1s after an event stream broke",
    "wire.replay-events": "an event stream keeps at most 1000 events and 1MiB for a client that reconnects",
    "wire.replay-bytes": "an event stream keeps at most 1000 events and 1MiB for a client that reconnects",
    "wire.replay-time": "the host keeps an ended event stream for at most 5min",
    "wire.streams-per-session": "the host keeps at most 64 ended event streams of one session, with 16MiB together",
    "wire.replay-bytes-per-session": "the host keeps at most 64 ended event streams of one session, with 16MiB together",
    "wire.replay-bytes-per-principal": "the host keeps at most 64MiB of ended event streams of one principal",
    "wire.replay-bytes-in-all": "the host keeps at most 256MiB of ended event streams of all sessions",
    "permissions.kept": "the host keeps at most 1000 lasting permissions and refusals of one principal",
    "sessions.in-memory": "the host holds at most 2000 sessions in memory and reads others from the store",
    "tokens.cached": "the host remembers at most 5000 access tokens as verified",
    "tokens.size": "an access token may have at most 8KiB",
    "jwks.timeout": "a fetch of an issuer's keys may take 5s, and older keys serve for at most 1h without it",
    "jwks.cool-down": "the host fetches the keys of an issuer at most every 10s, or every `jwks.refresh` if that is shorter",
    "jwks.stale": "the keys of an issuer serve for 1h while it cannot be reached, or for `jwks.refresh` if that is longer",
    "jwks.size": "the keys or the metadata of an issuer may take at most 1MiB",
    "admin.connections": "the admin listener serves at most 16 connections at once",
    "admin.time": "a connection to the admin listener lasts at most 10s",
    "admin.patience": "`/readyz` reports the store as failed if it does not answer within 2s",
    "console.sessions": "the console has at most 32 logins at once",
    "console.connections": "the console serves at most 64 connections at once",
    "audit.backlog": "at most 64MiB of audit entries wait in the store while they cannot be exported",
    "trace.queue": "at most 2048 spans wait to be sent",
    "trace.interval": "the host sends spans every second",
    "trace.flush": "the host waits at most 3s at its end to send the last spans",
    "shutdown.eof-grace": "requests under way may go on for 1500ms after stdin has ended",
    "detach.start": "a background host may take 30s to start",
    "detach.log": "the log of a background host has at most 1MiB, and the host keeps one older file",
    "detach.linger": "a background host ends 2s after its last task and its last client",
    "detach.connections": "a background host serves at most 64 clients at once",
}
