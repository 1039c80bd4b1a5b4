//! Hints to the other hosts, after each commit and apart from it: a `NOTIFY` within the
//! transaction would hold a lock over the whole server while the disk is flushed.
//!
//! One connection listens, and tells. Whatever is lost while it is broken, everybody
//! hears "anything" once it stands again; and whoever waits looks again by itself in
//! any case.

use super::PostgresStore;
use super::connections::Place;
use super::error::{closed, failed, silent};
use crate::seal::Sealing;
use async_trait::async_trait;
use futures_util::{Stream, StreamExt as _, stream};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{broadcast, mpsc, watch};
use tokio::task::JoinHandle;
use tokio_postgres::types::ToSql;
use tokio_postgres::{AsyncMessage, Client, Error};
use toolyard_task::TaskId;
use toolyard_task::gossip::{Gossip, Heard, LONGEST};
use toolyard_task::store::{Hint, Hints, StoreError};
use uuid::Uuid;

/// Changes that may wait to be told; beyond it, "anything" is told in their place.
const QUEUE: usize = 4096;
/// Ids in one notification: 33 bytes each, of 8000 at most.
const MOST: usize = 200;
/// So long changes are gathered.
const GATHER: Duration = Duration::from_millis(2);
/// Hints that a feed may be behind, before it hears "anything".
const BEHIND: usize = 1024;
/// A connection that is silent for so long is asked whether it lives.
const QUIET: Duration = Duration::from_secs(5);
/// Tried again after this time, when the server is away.
const PAUSE: Duration = Duration::from_millis(200);
/// In place of ids: whatever.
const ANYTHING: &str = "*";
/// What begins like this is a word of another host, not ids.
const WORD: char = '=';
/// Words that may wait to be told; beyond it they are lost.
const WORDS: usize = 1024;
/// Words that are told at once.
const WORDS_AT_ONCE: usize = 64;

const SAY: &str = "SELECT pg_notify($1, word) FROM unnest($2::text[]) AS word";

/// The way to what tells the others.
#[derive(Clone)]
pub(super) struct Hinting {
    changed: mpsc::Sender<TaskId>,
    /// Some did not fit.
    missed: Arc<AtomicBool>,
    words: mpsc::Sender<String>,
}

impl Hinting {
    /// Tells all other hosts, if there is room on the way.
    pub(super) fn say(&self, word: &str) {
        drop(self.words.try_send(format!("{WORD}{word}")));
    }

    /// These tasks were changed, durably.
    pub(super) fn changed(&self, ids: Vec<TaskId>) {
        for id in ids {
            if self.changed.try_send(id).is_err() {
                self.missed.store(true, Ordering::Relaxed);
            }
        }
    }
}

/// Who is told what is heard.
#[derive(Clone)]
struct Feeds {
    hints: broadcast::Sender<Hint>,
    words: broadcast::Sender<Arc<str>>,
}

/// Feeds, and what fills them.
pub(super) struct Listener {
    feeds: Mutex<Option<Feeds>>,
    stop: watch::Sender<bool>,
    task: Mutex<Option<JoinHandle<()>>>,
}

impl Listener {
    pub(super) fn start(place: Place) -> (Self, Hinting) {
        let (changed, inbox) = mpsc::channel(QUEUE);
        let missed = Arc::<AtomicBool>::default();
        let (words, said) = mpsc::channel(WORDS);
        let feeds = Feeds { hints: broadcast::Sender::new(BEHIND), words: broadcast::Sender::new(BEHIND) };
        let (stop, stopped) = watch::channel(false);
        let work = Work { place, inbox, said, missed: missed.clone(), feeds: feeds.clone(), stopped };
        let task = Mutex::new(Some(tokio::spawn(work.run())));
        (Self { feeds: Mutex::new(Some(feeds)), stop, task }, Hinting { changed, missed, words })
    }

    /// A feed of hints from now on.
    pub(super) fn feed(&self) -> Box<dyn Hints> {
        let feeds = self.feeds.lock().unwrap_or_else(PoisonError::into_inner);
        Box::new(Feed(feeds.as_ref().map(|feeds| feeds.hints.subscribe())))
    }

    /// A feed of words from now on.
    fn words(&self) -> Option<broadcast::Receiver<Arc<str>>> {
        let feeds = self.feeds.lock().unwrap_or_else(PoisonError::into_inner);
        feeds.as_ref().map(|feeds| feeds.words.subscribe())
    }

    /// Tells what is left to tell, and ends the feeds.
    pub(super) async fn stop(&self) {
        self.stop.send_replace(true);
        let task = self.task.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(task) = task
            && task.await.is_err()
        {
            tracing::error!("the listening task of the store panicked");
        }
        self.feeds.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some(task) = self.task.lock().unwrap_or_else(PoisonError::into_inner).take() {
            task.abort();
        }
    }
}

struct Work {
    place: Place,
    inbox: mpsc::Receiver<TaskId>,
    said: mpsc::Receiver<String>,
    missed: Arc<AtomicBool>,
    feeds: Feeds,
    stopped: watch::Receiver<bool>,
}

impl Work {
    async fn run(mut self) {
        // What was told before this host listened, it has not read either.
        let mut first = true;
        loop {
            match self.listen(&mut first).await {
                Ok(()) => return,
                Err(error) => {
                    tracing::warn!(
                        error = &error as &dyn std::error::Error,
                        "changes on other hosts are not heard of now; it is tried again"
                    );
                }
            }
            // Nobody can be told what happens until then.
            self.missed.store(true, Ordering::Relaxed);
            let mut stopped = self.stopped.clone();
            tokio::select! {
                () = until(&mut stopped) => return,
                () = tokio::time::sleep(PAUSE) => {}
            }
        }
    }

    /// Listens and tells until the store stops, or the connection breaks.
    async fn listen(&mut self, first: &mut bool) -> Result<(), StoreError> {
        let (client, mut driver) = self.place.connect_to_listen().await.map_err(failed)?;
        let mut messages = stream::poll_fn(move |context| driver.poll_message(context));
        let mut ear = Ear { own: 0, feeds: self.feeds.clone() };
        let begin = format!("SET synchronous_commit = off; LISTEN {}", self.channel());
        ear.during(&mut messages, client.batch_execute(&begin)).await?;
        let own = ear.during(&mut messages, client.query_one("SELECT pg_backend_pid()", &[])).await?;
        ear.own = own.get(0);
        if !std::mem::take(first) {
            ear.tell(Hint::Anything);
        }
        let say = ear.during(&mut messages, client.prepare(SAY)).await?;
        let channel = self.channel();
        let mut stopped = self.stopped.clone();
        loop {
            let (mut ids, mut words) = (Vec::new(), Vec::new());
            tokio::select! {
                biased;
                taken = self.inbox.recv_many(&mut ids, MOST) => if taken == 0 { return Ok(()) },
                () = until(&mut stopped) => {
                    while let Ok(id) = self.inbox.try_recv() {
                        ids.push(id);
                    }
                    return self.tell(&client, &ear, &mut messages, ids).await;
                }
                message = messages.next() => {
                    ear.hear(message)?;
                    continue;
                }
                _ = self.said.recv_many(&mut words, WORDS_AT_ONCE) => {
                    let given: [&(dyn ToSql + Sync); 2] = [&channel, &words];
                    ear.during(&mut messages, client.execute(&say, &given)).await?;
                    continue;
                }
                () = tokio::time::sleep(QUIET) => {}
            }
            if !ids.is_empty() && ids.len() < MOST {
                tokio::time::sleep(GATHER).await;
                while ids.len() < MOST
                    && let Ok(id) = self.inbox.try_recv()
                {
                    ids.push(id);
                }
            }
            self.tell(&client, &ear, &mut messages, ids).await?;
        }
    }

    fn channel(&self) -> String {
        format!("toolyard_{}", self.place.schema())
    }

    /// Tells these, or, if some are missing, that anything may have changed. Without any
    /// it asks whether the server is there.
    async fn tell(
        &self,
        client: &Client,
        ear: &Ear,
        messages: &mut (impl Stream<Item = Result<AsyncMessage, Error>> + Unpin),
        ids: Vec<TaskId>,
    ) -> Result<(), StoreError> {
        let channel = self.channel();
        let ids: Vec<TaskId> = ids.into_iter().collect::<BTreeSet<_>>().into_iter().collect();
        let words = if self.missed.swap(false, Ordering::Relaxed) {
            format!("NOTIFY {channel}, '{ANYTHING}'")
        } else if ids.is_empty() {
            "SELECT 1".to_owned()
        } else {
            let named = |some: &[TaskId]| {
                let named: Vec<String> = some.iter().map(|id| id.0.simple().to_string()).collect();
                format!("NOTIFY {channel}, '{}'", named.join(" "))
            };
            ids.chunks(MOST).map(named).collect::<Vec<_>>().join(";")
        };
        ear.during(messages, client.batch_execute(&words)).await
    }
}

/// Waits for the end of the store.
async fn until(stopped: &mut watch::Receiver<bool>) {
    drop(stopped.wait_for(|stopped| *stopped).await);
}

/// What hears the others.
struct Ear {
    /// The number of the connection that is listened on; what it told itself is no news.
    own: i32,
    feeds: Feeds,
}

impl Ear {
    /// Waits for an answer. A connection makes headway only while its messages are awaited.
    async fn during<T>(
        &self,
        messages: &mut (impl Stream<Item = Result<AsyncMessage, Error>> + Unpin),
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

    fn hear(&self, message: Option<Result<AsyncMessage, Error>>) -> Result<(), StoreError> {
        match message.ok_or_else(closed)?.map_err(failed)? {
            AsyncMessage::Notification(told) if told.process_id() != self.own => {
                if let Some(word) = told.payload().strip_prefix(WORD) {
                    // Nobody may be listening, here and below.
                    drop(self.feeds.words.send(word.into()));
                    return Ok(());
                }
                for word in told.payload().split(' ') {
                    self.tell(Uuid::try_parse(word).map_or(Hint::Anything, |id| Hint::Task(TaskId(id))));
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn tell(&self, hint: Hint) {
        drop(self.feeds.hints.send(hint));
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

impl Gossip for PostgresStore {
    fn tell(&self, word: String) {
        if word.len() > LONGEST {
            return;
        }
        match self.sealing.word(&word) {
            Ok(word) => self.beside.hinting.say(&word),
            Err(error) => {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "other hosts could not be told something"
                );
            }
        }
    }

    fn hear(&self) -> Box<dyn Heard> {
        Box::new(Words { words: self.listener.words(), sealing: self.sealing.clone() })
    }
}

struct Words {
    words: Option<broadcast::Receiver<Arc<str>>>,
    sealing: Sealing,
}

#[async_trait]
impl Heard for Words {
    async fn next(&mut self) -> Option<String> {
        let words = self.words.as_mut()?;
        loop {
            match words.recv().await {
                // One that cannot be read comes from a host with another key, or from no host.
                Ok(word) => {
                    if let Ok(word) = self.sealing.open_word(&word) {
                        return Some(word);
                    }
                }
                Err(broadcast::error::RecvError::Lagged(_)) => {}
                Err(broadcast::error::RecvError::Closed) => return None,
            }
        }
    }
}
