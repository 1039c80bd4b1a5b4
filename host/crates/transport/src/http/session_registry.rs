//! The sessions in use, held in memory in front of the store. The registry keeps their streams, and chooses
//! the stream for each message to a client (H-20).

mod channel;

use super::sse::EventId;
use crate::change_notifications::Changes;
use crate::notifications::NotificationFilter;
use crate::server::Server;
use crate::session::{ClientSession, DurableState, SessionTerms, level_of};
use crate::stream::replay::ReplayBudget;
use crate::stream::{LogBounds, Stream};
use bytes::Bytes;
use channel::{SessionChannel, SessionLookup};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use toolyard_dispatch::{Caller, Fault, Principal, Session, SessionDigest, SessionId, StopCause, TaskId};
use toolyard_protocol::Revision;

/// The interval at which the host records in the store that a session is in use.
const TOUCH_EVERY: Duration = Duration::from_secs(60);
/// How often the host checks in the store whether other hosts changed a session in use.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// The most ended streams of one session that are kept for a client that reconnects. A client resumes its
/// running calls, which are rarely more.
const MAX_ENDED_STREAMS: usize = 64;
/// The most bytes that the ended streams of one session keep: two of the largest messages that a client can
/// get by default, or 16 streams at their bound.
const MAX_ENDED_BYTES: usize = 16 << 20;
/// How long an ended stream is kept. A client that lost its connection reconnects after about a second;
/// five minutes cover a restarted proxy or a laptop that changes networks.
const REPLAY_TIME: Duration = Duration::from_secs(5 * 60);
/// The most sessions in memory; the host reads others from the store when a client uses them. A session takes
/// a few KiB besides its streams, which are bounded, and reading one takes about a millisecond.
const MAX_IN_MEMORY: usize = 2_000;
/// The most GET streams of one session; clients have one, or a few while they reconnect.
const MAX_STANDALONE: usize = 8;

/// A session in use.
pub(crate) struct LiveSession {
    pub session: Session,
    pub client: Arc<ClientSession>,
    /// The budget of the ended streams of all sessions, and the principal whose share these use.
    replay: (Arc<ReplayBudget>, Arc<str>),
    streams: Mutex<Streams>,
}

struct Streams {
    kept: Vec<KeptStream>,
    used: Instant,
    touched: Instant,
    looked: Instant,
    /// The writes of other processes before the last look.
    seen_writes: u64,
}

impl Streams {
    /// Adds a stream, and drops the oldest ones of its kind that are too many.
    fn keep(&mut self, stream: KeptStream) {
        self.drop_over(MAX_ENDED_STREAMS, |kept| kept.stream.ended().is_some());
        if stream.purpose == StreamPurpose::Standalone {
            self.drop_over(MAX_STANDALONE, |kept| kept.purpose == StreamPurpose::Standalone);
        }
        self.kept.push(stream);
    }

    /// Drops the oldest streams that match `meant`, so that fewer than `most` of them remain.
    fn drop_over(&mut self, most: usize, meant: impl Fn(&KeptStream) -> bool) {
        let count = self.kept.iter().filter(|kept| meant(kept)).count();
        let mut over = (count + 1).saturating_sub(most);
        self.kept.retain(|kept| {
            let goes = over > 0 && meant(kept);
            if goes {
                over -= 1;
                kept.stream.end(None);
            }
            !goes
        });
    }
}

struct KeptStream {
    stream: Arc<Stream>,
    purpose: StreamPurpose,
}

/// The purpose of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StreamPurpose {
    /// A GET: messages that belong to no request (H-19).
    Standalone,
    /// The answer to a request.
    Answer,
    /// The answer to `tasks/result` of this task; also carries the messages of the task.
    Result(String),
}

impl StreamPurpose {
    fn is_result_of(&self, task: TaskId) -> bool {
        matches!(self, Self::Result(of) if *of == task.to_string())
    }
}

/// The sessions in use.
pub(crate) struct Registry {
    server: Arc<Server>,
    live: Mutex<HashMap<SessionId, Arc<LiveSession>>>,
    /// The same sessions by the digests that other hosts use.
    by_digest: Mutex<HashMap<SessionDigest, SessionId>>,
    /// Numbers the streams, so that each has a unique id in this process.
    streams: AtomicU64,
    replay: Arc<ReplayBudget>,
    me: Weak<Registry>,
}

/// The stored status of a session in memory.
enum StoredStatus {
    /// The session is open, or was a moment ago.
    Open,
    /// Another host has closed it, and so has this one now.
    Closed,
    /// The store did not answer. The last known status applies.
    Unknown,
}

impl Registry {
    pub fn new(server: Arc<Server>) -> Arc<Self> {
        // A random start, so that no stream id of an earlier process is valid in this one.
        let (start, _) = server.dispatch.random_id().as_u64_pair();
        Arc::new_cyclic(|me| {
            server.dispatch.set_client_lookup(Arc::new(SessionLookup(me.clone())));
            Self {
                server,
                live: Mutex::default(),
                by_digest: Mutex::default(),
                streams: AtomicU64::new(start),
                replay: Arc::default(),
                me: me.clone(),
            }
        })
    }

    /// The session with this id, if it belongs to the principal: from memory, else from the store. A session
    /// id alone gives no access to a session that a token opened (H-25, A-5).
    pub async fn session(
        &self,
        id: &str,
        principal: &Arc<Principal>,
    ) -> Result<Option<Arc<LiveSession>>, Fault> {
        let id = SessionId(id.into());
        let live = match self.in_memory(&id) {
            Some(live) if principal.has(&live.session.owner) => {
                // Apart, as all that few requests come to.
                if self.start_look(&live)
                    && let StoredStatus::Closed = Box::pin(self.read_status(&live)).await
                {
                    return Ok(None);
                }
                live
            }
            Some(_) => return Ok(None),
            None => match Box::pin(self.server.dispatch.session(&id)).await? {
                Some(session) if principal.has(&session.owner) => self.hold(session, principal, true),
                _ => return Ok(None),
            },
        };
        if live.start_touch() {
            Box::pin(self.server.dispatch.touch_session(&id)).await?;
        }
        Ok(Some(live))
    }

    /// Whether it is time to check again whether another process has closed a session. Hints of other
    /// machines may be lost; a store on this machine says whether another process has written to it.
    fn start_look(&self, live: &LiveSession) -> bool {
        let dispatch = &self.server.dispatch;
        live.start_look((!dispatch.node().is_shared).then(|| dispatch.node().writes_of_others()))
    }

    /// Checks whether another host has closed a session in memory.
    async fn read_status(&self, live: &LiveSession) -> StoredStatus {
        let dispatch = &self.server.dispatch;
        match tokio::time::timeout(LOOK_EVERY, live.client.look_again(dispatch)).await {
            Ok(Ok(true)) => StoredStatus::Open,
            Ok(Ok(false)) => {
                self.close(&live.session.id);
                StoredStatus::Closed
            }
            Ok(Err(fault)) => {
                tracing::warn!(
                    event = "session.lookup_failed",
                    error = &fault as &dyn std::error::Error,
                    "cannot look up session"
                );
                StoredStatus::Unknown
            }
            Err(_) => StoredStatus::Unknown,
        }
    }

    /// Checks all sessions in memory whose clients only listen. Stops if the store does not answer, because
    /// the caller has other duties.
    pub async fn look_at_all(&self) {
        for session in self.all() {
            if self.start_look(&session) && matches!(self.read_status(&session).await, StoredStatus::Unknown)
            {
                return;
            }
        }
    }

    /// The session with this id, if it is in memory.
    pub fn in_memory(&self, id: &SessionId) -> Option<Arc<LiveSession>> {
        self.live.lock().get(id).cloned()
    }

    /// The session with this digest, if it is in memory.
    pub fn in_memory_by_digest(&self, digest: &SessionDigest) -> Option<Arc<LiveSession>> {
        let id = self.by_digest.lock().get(digest).cloned()?;
        self.in_memory(&id)
    }

    /// Keeps a session in memory. `initialized` is true for a session that was read from the store.
    pub fn hold(&self, session: Session, principal: &Arc<Principal>, initialized: bool) -> Arc<LiveSession> {
        let revision = Revision::parse(&session.revision).unwrap_or(Revision::LATEST);
        let now = Instant::now();
        let mut live = self.live.lock();
        if live.len() >= MAX_IN_MEMORY
            && let Some(forgotten) = forget_longest_unused(&mut live)
        {
            self.by_digest.lock().remove(&forgotten.digest());
        }
        self.by_digest.lock().insert(session.id.digest(), session.id.clone());
        let held = live
            .entry(session.id.clone())
            .or_insert_with(|| {
                Arc::new(LiveSession {
                    client: Arc::new(ClientSession::new(
                        &self.server,
                        Caller::new(
                            principal.clone(),
                            Some(session.id.clone()),
                            session.client_capabilities.clone(),
                        ),
                        SessionTerms {
                            revision,
                            declared: self.server.dispatch.catalog().offers(),
                            notification_filter: Arc::new(NotificationFilter::new(
                                level_of(&session),
                                initialized,
                            )),
                            memory: DurableState {
                                subscriptions: session.subscriptions.clone(),
                                session: Some(session.clone()),
                            },
                            client: session.client_name().to_owned(),
                        },
                        SessionChannel::new(self.me.clone(), session.id.clone()),
                    )),
                    replay: (self.replay.clone(), principal.to_string().into()),
                    streams: Mutex::new(Streams {
                        kept: Vec::new(),
                        used: now,
                        touched: now,
                        looked: now,
                        seen_writes: self.server.dispatch.node().writes_of_others(),
                    }),
                    session,
                })
            })
            .clone();
        self.count(&live);
        held
    }

    /// Drops a closed session: its streams end, and its calls stop.
    pub fn close(&self, id: &SessionId) {
        let live = {
            let mut all = self.live.lock();
            let live = all.remove(id);
            self.by_digest.lock().remove(&id.digest());
            self.count(&all);
            live
        };
        if let Some(live) = live {
            live.client.inflight.cancel_all(StopCause::Ended);
            live.end_streams(|_| true);
        }
    }

    /// A stream without a reader.
    pub fn stream(&self) -> Arc<Stream> {
        Stream::new(self.streams.fetch_add(1, Ordering::Relaxed), LogBounds::REPLAY)
    }

    /// Sends every client the changes that concern it, each on one stream.
    pub async fn tell_all(&self, changes: &Changes) {
        for session in self.all() {
            for message in changes.messages(&self.server.dispatch, &session.client).await {
                session.tell(message);
            }
        }
    }

    /// Drops streams that were kept long enough.
    pub fn forget_old(&self) {
        for session in self.all() {
            session.forget_old();
        }
    }

    /// Ends the streams of this purpose.
    pub fn end_streams(&self, of: fn(&StreamPurpose) -> bool) {
        for session in self.all() {
            session.end_streams(of);
        }
    }

    fn all(&self) -> Vec<Arc<LiveSession>> {
        self.live.lock().values().cloned().collect()
    }

    fn count(&self, live: &HashMap<SessionId, Arc<LiveSession>>) {
        self.server.metrics.sessions.set(i64::try_from(live.len()).unwrap_or(i64::MAX));
    }
}

/// A session that has neither a stream nor a running request can be read from the store again.
fn forget_longest_unused(live: &mut HashMap<SessionId, Arc<LiveSession>>) -> Option<SessionId> {
    let longest = live
        .values()
        .filter(|session| !session.is_busy())
        .min_by_key(|session| session.streams.lock().used)
        .map(|session| session.session.id.clone())?;
    live.remove(&longest);
    Some(longest)
}

impl LiveSession {
    /// Keeps a stream so that a client can return to it. Over the bounds, the oldest ended stream is dropped,
    /// and for GET streams the oldest one. Running requests have one stream each.
    pub fn keep(&self, stream: &Arc<Stream>, purpose: StreamPurpose) {
        self.forget_old();
        let mut streams = self.streams.lock();
        streams.keep(KeptStream { stream: stream.clone(), purpose });
        drop(streams);
        stream.keep_within(self.replay.0.clone(), self.replay.1.clone());
    }

    /// Drops ended streams that were kept long enough or exceed the bounds, the oldest first.
    fn forget_old(&self) {
        let mut streams = self.streams.lock();
        let ended = |kept: &KeptStream| kept.stream.ended();
        let mut bytes: usize =
            streams.kept.iter().filter(|kept| ended(kept).is_some()).map(|kept| kept.stream.bytes()).sum();
        streams.kept.retain(|kept| {
            let Some(since) = ended(kept) else { return true };
            let stays = since.elapsed() < REPLAY_TIME && bytes <= MAX_ENDED_BYTES;
            if !stays {
                bytes -= kept.stream.bytes();
            }
            stays
        });
    }

    /// The stream that an event belongs to, if it is still kept.
    pub fn find(&self, id: EventId) -> Option<Arc<Stream>> {
        let streams = self.streams.lock();
        streams.kept.iter().find(|kept| kept.stream.id() == id.stream).map(|kept| kept.stream.clone())
    }

    /// Sends a message that belongs to no request: on the latest GET stream that has a reader, else on the
    /// latest that may get one again.
    pub fn tell(&self, message: Bytes) {
        if let Some(stream) = self.stream_for(|purpose| *purpose == StreamPurpose::Standalone) {
            stream.push(message);
        }
    }

    /// Sends a message that belongs to a task: on a stream that waits for its result, else like any other
    /// message. Streams that have a reader come first.
    pub fn tell_of(&self, task: Option<TaskId>, message: Bytes) {
        let result = || task.and_then(|task| self.stream_for(|purpose| purpose.is_result_of(task)));
        let stream = self.stream_read(task).or_else(result);
        match stream {
            Some(stream) => stream.push(message),
            None => self.tell(message),
        }
    }

    /// Whether any stream, with or without a reader, may carry messages of this task.
    pub fn has_stream(&self, task: Option<TaskId>) -> bool {
        let may = |purpose: &StreamPurpose| {
            *purpose == StreamPurpose::Standalone || task.is_some_and(|task| purpose.is_result_of(task))
        };
        self.stream_for(may).is_some()
    }

    /// A stream that has a reader and may carry messages of this task: one that waits for its result, else a
    /// GET stream.
    pub fn stream_read(&self, task: Option<TaskId>) -> Option<Arc<Stream>> {
        let is_read = |stream: &Arc<Stream>| stream.is_read();
        task.and_then(|task| self.stream_for(|purpose| purpose.is_result_of(task)))
            .filter(is_read)
            .or_else(|| self.stream_for(|purpose| *purpose == StreamPurpose::Standalone).filter(is_read))
    }

    fn stream_for(&self, wanted: impl Fn(&StreamPurpose) -> bool) -> Option<Arc<Stream>> {
        let streams = self.streams.lock();
        let open = || {
            streams.kept.iter().rev().filter(|kept| wanted(&kept.purpose) && kept.stream.ended().is_none())
        };
        open().find(|kept| kept.stream.is_read()).or_else(|| open().next()).map(|kept| kept.stream.clone())
    }

    fn end_streams(&self, of: fn(&StreamPurpose) -> bool) {
        for kept in self.streams.lock().kept.iter().filter(|kept| of(&kept.purpose)) {
            kept.stream.end(None);
        }
    }

    fn is_busy(&self) -> bool {
        Arc::strong_count(&self.client) > 1
            || self
                .streams
                .lock()
                .kept
                .iter()
                .any(|kept| kept.stream.is_read() || kept.stream.ended().is_none())
    }

    fn start_touch(&self) -> bool {
        let mut streams = self.streams.lock();
        let now = Instant::now();
        streams.used = now;
        if now.duration_since(streams.touched) < TOUCH_EVERY {
            return false;
        }
        streams.touched = now;
        true
    }

    fn start_look(&self, writes: Option<u64>) -> bool {
        let mut streams = self.streams.lock();
        if writes == Some(streams.seen_writes) {
            return false;
        }
        let now = Instant::now();
        let needed = now.duration_since(streams.looked) >= LOOK_EVERY;
        if needed {
            streams.looked = now;
            streams.seen_writes = writes.unwrap_or_default();
        }
        needed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_streams_that_a_session_keeps_are_bounded_and_the_oldest_go() {
        let now = Instant::now();
        let mut streams = Streams { kept: Vec::new(), used: now, touched: now, looked: now, seen_writes: 0 };
        let stream = |id| Stream::new(id, LogBounds { bytes: 10, events: 1 });
        for id in 0..100 {
            streams.keep(KeptStream { stream: stream(id), purpose: StreamPurpose::Standalone });
        }
        let count = |streams: &Streams, ended: bool| {
            streams.kept.iter().filter(|kept| kept.stream.ended().is_some() == ended).count()
        };
        assert_eq!(count(&streams, false), MAX_STANDALONE);
        for id in 100..200 {
            let answer = stream(id);
            answer.end(None);
            streams.keep(KeptStream { stream: answer, purpose: StreamPurpose::Answer });
        }
        assert!(count(&streams, true) <= MAX_ENDED_STREAMS);
        assert_eq!(streams.kept.last().map(|kept| kept.stream.id()), Some(199));
    }
}
