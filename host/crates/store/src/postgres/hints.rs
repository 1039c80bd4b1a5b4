//! Hints to the other hosts, sent after each commit and outside its transaction: a `NOTIFY` within
//! the transaction would hold a server-wide lock during the flush to the disk.
//!
//! One connection listens and sends. When it is restored after an interruption, all hosts get the
//! hint "anything", since hints were lost in between. Waiters also check periodically. So a dropped
//! message does no harm, and a message that no host of this schema has sealed is dropped
//! (`messages.rs`).

use super::PostgresStore;
use super::connections::PostgresLocation;
use super::error::{closed, failed, silent};
use super::messages::{ChannelKeys, MAX_IDS, Message, Receiver, Refusal, Sender, ServerClock};
use crate::encryption::Sealing;
use crate::metrics::Metrics;
use async_trait::async_trait;
use futures_util::{Stream, StreamExt as _, stream};
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::{broadcast, mpsc};
use tokio::task::JoinHandle;
use tokio_postgres::types::ToSql;
use tokio_postgres::{AsyncMessage, Client, Error, Statement};
use tokio_util::sync::CancellationToken;
use toolyard_task::broadcast::{Broadcast, BroadcastReceiver, MAX_MESSAGE_BYTES};
use toolyard_task::store::{Hint, Hints};
use toolyard_task::{StoreError, TaskId};

/// The maximum number of changes that wait to be sent; beyond it, "anything" is sent instead.
const MAX_QUEUE: usize = 4096;
/// How long changes are gathered before they are sent.
const GATHER: Duration = Duration::from_millis(2);
/// How many hints a feed may fall behind before it gets "anything".
const MAX_BEHIND: usize = 1024;
/// A connection that is silent for this long is probed.
const QUIET: Duration = Duration::from_secs(5);
/// The delay before another attempt when the server is unreachable.
const RETRY_PAUSE: Duration = Duration::from_millis(200);
/// The maximum number of broadcasts that wait to be sent; further ones are lost.
const MAX_BROADCASTS: usize = 1024;
/// Broadcasts to send immediately.
const MAX_BROADCASTS_AT_ONCE: usize = 64;
/// Refused messages are logged no more often than this.
const LOG_EVERY: Duration = Duration::from_secs(60);

const SAY: &str = "SELECT pg_notify($1, word) FROM unnest($2::text[]) AS word";
/// The id of the listening process, and the time by the server's clock.
const BEGUN: &str = "
    SELECT pg_backend_pid(), floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint";

/// Passes changes to the task that tells the other hosts.
#[derive(Clone)]
pub(super) struct HintSender {
    changed: mpsc::Sender<TaskId>,
    /// Some did not fit.
    missed: Arc<AtomicBool>,
    words: mpsc::Sender<String>,
}

impl HintSender {
    /// Sends to all other hosts, if there is room in the queue.
    pub(super) fn say(&self, word: String) {
        drop(self.words.try_send(word));
    }

    /// Announces that these tasks have durably changed.
    pub(super) fn changed(&self, ids: Vec<TaskId>) {
        for id in ids {
            if self.changed.try_send(id).is_err() {
                self.missed.store(true, Ordering::Relaxed);
            }
        }
    }
}

/// The receivers of hints and broadcasts in this process.
#[derive(Clone)]
struct HintFeeds {
    hints: broadcast::Sender<Hint>,
    words: broadcast::Sender<Arc<str>>,
}

/// The feeds and the senders that fill them.
pub(super) struct Listener {
    feeds: Mutex<Option<HintFeeds>>,
    stop: CancellationToken,
    task: Mutex<Option<JoinHandle<()>>>,
}

impl Listener {
    /// `secret` is shared by all hosts of the schema.
    ///
    /// # Errors
    /// [`StoreError`], if the system provides no random bytes.
    pub(super) fn start(
        place: PostgresLocation,
        secret: &[u8; 32],
        sealing: &Sealing,
        metrics: Arc<Metrics>,
    ) -> Result<(Self, HintSender), StoreError> {
        let channel = format!("toolyard_{}", place.schema());
        let keys = ChannelKeys::new(secret, sealing, &channel);
        let sender = Sender::new(&keys)?;
        let receiver = Receiver::new(keys, &sender);
        let (changed, inbox) = mpsc::channel(MAX_QUEUE);
        let missed = Arc::<AtomicBool>::default();
        let (words, said) = mpsc::channel(MAX_BROADCASTS);
        let feeds = HintFeeds {
            hints: broadcast::Sender::new(MAX_BEHIND),
            words: broadcast::Sender::new(MAX_BEHIND),
        };
        let stop = CancellationToken::new();
        let ear = HintReceiver {
            own: 0,
            is_ready: false,
            has_missed: false,
            feeds: feeds.clone(),
            receiver,
            refusals: RefusedMessages { metrics, logged: None, unlogged: 0 },
        };
        let work = HintTask {
            place,
            channel,
            inbox,
            said,
            missed: missed.clone(),
            sender,
            ear,
            stopped: stop.clone(),
        };
        let task = Mutex::new(Some(tokio::spawn(work.run())));
        Ok((Self { feeds: Mutex::new(Some(feeds)), stop, task }, HintSender { changed, missed, words }))
    }

    /// A feed of hints from now on.
    pub(super) fn feed(&self) -> Box<dyn Hints> {
        let feeds = self.feeds.lock();
        Box::new(Feed(feeds.as_ref().map(|feeds| feeds.hints.subscribe())))
    }

    /// A feed of broadcasts from now on.
    fn words(&self) -> Option<broadcast::Receiver<Arc<str>>> {
        let feeds = self.feeds.lock();
        feeds.as_ref().map(|feeds| feeds.words.subscribe())
    }

    /// Sends the remaining messages and ends the feeds.
    pub(super) async fn stop(&self) {
        self.stop.cancel();
        let task = self.task.lock().take();
        if let Some(task) = task
            && task.await.is_err()
        {
            tracing::error!(event = "store.panicked", part = "listener", "part of the store panicked");
        }
        self.feeds.lock().take();
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some(task) = self.task.lock().take() {
            task.abort();
        }
    }
}

struct HintTask {
    place: PostgresLocation,
    channel: String,
    inbox: mpsc::Receiver<TaskId>,
    said: mpsc::Receiver<String>,
    missed: Arc<AtomicBool>,
    sender: Sender,
    ear: HintReceiver,
    stopped: CancellationToken,
}

/// The connection, while it is open.
struct Channel<M> {
    client: Client,
    messages: M,
    say: Statement,
    clock: ServerClock,
}

impl HintTask {
    async fn run(mut self) {
        // This host missed the hints that were sent before it listened.
        let mut first = true;
        loop {
            match self.listen(&mut first).await {
                Ok(()) => return,
                Err(error) => {
                    tracing::warn!(
                        event = "cluster.changes_not_received",
                        error = &error as &dyn std::error::Error,
                        "cannot listen for changes of other nodes; trying again"
                    );
                }
            }
            // No hint can be sent before that.
            self.missed.store(true, Ordering::Relaxed);
            let stopped = self.stopped.clone();
            tokio::select! {
                () = stopped.cancelled() => return,
                () = tokio::time::sleep(RETRY_PAUSE) => {}
            }
        }
    }

    /// Listens and sends until the store stops or the connection breaks.
    async fn listen(&mut self, first: &mut bool) -> Result<(), StoreError> {
        let (client, mut driver) = self.place.connect_to_listen().await.map_err(failed)?;
        let mut messages = stream::poll_fn(move |context| driver.poll_message(context));
        self.ear.is_ready = false;
        let begin = format!("SET synchronous_commit = off; LISTEN {}", self.channel);
        self.ear.during(&mut messages, client.batch_execute(&begin)).await?;
        let asked = Instant::now();
        let begun = self.ear.during(&mut messages, client.query_one(BEGUN, &[])).await?;
        let (own, now): (i32, i64) = (begun.get(0), begun.get(1));
        self.ear.begins(own, now);
        if !std::mem::take(first) || std::mem::take(&mut self.ear.has_missed) {
            self.ear.tell(Hint::Anything);
        }
        let say = self.ear.during(&mut messages, client.prepare(SAY)).await?;
        let mut channel = Channel { client, messages, say, clock: ServerClock::new(asked, now) };
        let stopped = self.stopped.clone();
        loop {
            if channel.clock.is_older_than(QUIET) {
                self.look_at_the_clock(&mut channel).await?;
            }
            let (mut ids, mut words) = (Vec::new(), Vec::new());
            tokio::select! {
                biased;
                taken = self.inbox.recv_many(&mut ids, MAX_IDS) => if taken == 0 { return Ok(()) },
                () = stopped.cancelled() => {
                    while let Ok(id) = self.inbox.try_recv() {
                        ids.push(id);
                    }
                    return self.tell_of(&mut channel, ids).await;
                }
                message = channel.messages.next() => {
                    self.ear.hear(message)?;
                    continue;
                }
                _ = self.said.recv_many(&mut words, MAX_BROADCASTS_AT_ONCE) => {
                    self.tell(&mut channel, words.into_iter().map(Message::Word)).await?;
                    continue;
                }
                // Also probes the server.
                () = tokio::time::sleep(QUIET) => continue,
            }
            if !ids.is_empty() && ids.len() < MAX_IDS {
                tokio::time::sleep(GATHER).await;
                while ids.len() < MAX_IDS
                    && let Ok(id) = self.inbox.try_recv()
                {
                    ids.push(id);
                }
            }
            self.tell_of(&mut channel, ids).await?;
        }
    }

    async fn look_at_the_clock<M: Messages>(&mut self, channel: &mut Channel<M>) -> Result<(), StoreError> {
        let asked = Instant::now();
        let answer = channel.client.query_one(ServerClock::SQL, &[]);
        let now: i64 = self.ear.during(&mut channel.messages, answer).await?.get(0);
        channel.clock = ServerClock::new(asked, now);
        self.ear.receiver.set_time(now);
        Ok(())
    }

    /// Announces that these tasks have changed or, if some are missing, that any task may have.
    async fn tell_of<M: Messages>(
        &mut self,
        channel: &mut Channel<M>,
        ids: Vec<TaskId>,
    ) -> Result<(), StoreError> {
        let ids: Vec<TaskId> = ids.into_iter().collect::<BTreeSet<_>>().into_iter().collect();
        if self.missed.swap(false, Ordering::Relaxed) {
            return self.tell(channel, [Message::Anything]).await;
        }
        self.tell(channel, ids.chunks(MAX_IDS).map(|some| Message::Changed(some.to_vec()))).await
    }

    /// Sends the messages, sealed in the order in which they are sent.
    async fn tell<M: Messages>(
        &mut self,
        channel: &mut Channel<M>,
        messages: impl IntoIterator<Item = Message>,
    ) -> Result<(), StoreError> {
        let now = channel.clock.now();
        let sealed = messages.into_iter().map(|message| self.sender.seal(&message, now));
        let sealed: Vec<String> = sealed.collect::<Result<_, _>>()?;
        if sealed.is_empty() {
            return Ok(());
        }
        let given: [&(dyn ToSql + Sync); 2] = [&self.channel, &sealed];
        let telling = channel.client.execute(&channel.say, &given);
        self.ear.during(&mut channel.messages, telling).await.map(drop)
    }
}

/// The messages that a connection sends without a request.
trait Messages: Stream<Item = Result<AsyncMessage, Error>> + Unpin {}

impl<M: Stream<Item = Result<AsyncMessage, Error>> + Unpin> Messages for M {}

/// Receives the hints of other hosts.
struct HintReceiver {
    /// The number of the listening connection; its own messages are ignored.
    own: i32,
    /// Whether the time since which it listens is known. Before that, it cannot judge any message.
    is_ready: bool,
    /// Whether a message arrived before it was ready.
    has_missed: bool,
    feeds: HintFeeds,
    receiver: Receiver,
    refusals: RefusedMessages,
}

impl HintReceiver {
    /// The connection with this number has listened since this time by the server's clock.
    fn begins(&mut self, own: i32, now: i64) {
        self.own = own;
        self.receiver.begins(now);
        self.is_ready = true;
    }

    /// Waits for an answer. A connection makes progress only while its messages are polled.
    async fn during<T>(
        &mut self,
        messages: &mut impl Messages,
        asking: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, StoreError> {
        let mut asking = std::pin::pin!(tokio::time::timeout(QUIET, asking));
        loop {
            tokio::select! {
                answer = &mut asking => return answer.map_err(|_| silent(QUIET))?.map_err(failed),
                message = messages.next() => self.hear(message)?,
            }
        }
    }

    fn hear(&mut self, message: Option<Result<AsyncMessage, Error>>) -> Result<(), StoreError> {
        match message.ok_or_else(closed)?.map_err(failed)? {
            AsyncMessage::Notification(_) if !self.is_ready => self.has_missed = true,
            AsyncMessage::Notification(told) if told.process_id() != self.own => {
                match self.receiver.open(told.payload()) {
                    Ok(Message::Changed(ids)) => ids.into_iter().for_each(|id| self.tell(Hint::Task(id))),
                    Ok(Message::Anything) => self.tell(Hint::Anything),
                    // There may be no listener.
                    Ok(Message::Word(word)) => drop(self.feeds.words.send(word.into())),
                    Err(refusal) => self.refusals.count(refusal, told.process_id()),
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn tell(&self, hint: Hint) {
        // As above.
        drop(self.feeds.hints.send(hint));
    }
}

/// Counts refused messages and logs them at intervals, because any role that may connect to the
/// database can send any number of them.
struct RefusedMessages {
    metrics: Arc<Metrics>,
    logged: Option<Instant>,
    unlogged: u64,
}

impl RefusedMessages {
    fn count(&mut self, refusal: Refusal, backend: i32) {
        self.metrics.refused(refusal.as_str());
        self.unlogged += 1;
        if self.logged.is_none_or(|at| at.elapsed() >= LOG_EVERY) {
            tracing::warn!(
                event = "cluster.messages_refused",
                reason = refusal.as_str(),
                backend,
                count = self.unlogged,
                "messages refused that no host of this deployment sealed"
            );
            self.logged = Some(Instant::now());
            self.unlogged = 0;
        }
    }
}

struct Feed(Option<broadcast::Receiver<Hint>>);

#[async_trait]
impl Hints for Feed {
    async fn next(&mut self) -> Option<Hint> {
        match self.0.as_mut()?.recv().await {
            Ok(hint) => Some(hint),
            Err(broadcast::error::RecvError::Lagged(_)) => Some(Hint::Anything),
            Err(broadcast::error::RecvError::Closed) => None,
        }
    }
}

impl Broadcast for PostgresStore {
    fn send(&self, message: String) {
        if message.len() <= MAX_MESSAGE_BYTES {
            self.state.hint_sender.say(message);
        }
    }

    fn subscribe(&self) -> Box<dyn BroadcastReceiver> {
        Box::new(BroadcastFeed(self.listener.words()))
    }
}

struct BroadcastFeed(Option<broadcast::Receiver<Arc<str>>>);

#[async_trait]
impl BroadcastReceiver for BroadcastFeed {
    async fn next(&mut self) -> Option<String> {
        let words = self.0.as_mut()?;
        loop {
            match words.recv().await {
                Ok(word) => return Some(word.as_ref().to_owned()),
                Err(broadcast::error::RecvError::Lagged(_)) => {}
                Err(broadcast::error::RecvError::Closed) => return None,
            }
        }
    }
}
