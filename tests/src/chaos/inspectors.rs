//! Checks of tasks after a disaster: every acknowledged task exists, and the tasks of a dead host end.

use super::client_connection::{ClientConnection, Generation};
use super::load_client;
use super::shared_state::{CreatedTask, HostAddress, SharedState};
use super::{COMPARED, PRINCIPALS, agreement};
use crate::Session;
use crate::stateless::{Client, everything};
use crate::tokens::token;
use crate::wait::PATIENCE;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// The number of concurrent inspectors.
pub(super) const INSPECTORS: u32 = 8;
/// A task that has not ended is checked again after this time.
const AGAIN: Duration = Duration::from_millis(20);

/// The shared state of a group of inspectors.
#[derive(Clone)]
pub(super) struct Inspection {
    pub shared: Arc<SharedState>,
    /// Hosts that all of them may ask.
    pub addresses: Vec<HostAddress>,
    /// How long an inspector waits for an answer before it asks another host, or the same one again. With
    /// `None`, every request must be answered.
    pub move_after: Option<Duration>,
    /// A session of each principal, for [`Self::compare`].
    pub sessions: Arc<[Session]>,
}

/// One inspector, with a connection for each principal.
struct Inspector {
    out: Inspection,
    at: usize,
    connections: Vec<ClientConnection>,
    sessions: Vec<ClientConnection>,
}

impl Inspection {
    /// Checks each of these tasks once.
    pub async fn look(&self, tasks: Vec<CreatedTask>) {
        self.spread(tasks, |mut inspector, mine| async move {
            for made in &mine {
                inspector.look(made, false).await;
            }
            Vec::new()
        })
        .await;
    }

    /// Compares what both generations report about each of these tasks.
    pub async fn compare(&self, tasks: Vec<CreatedTask>) {
        self.spread(tasks, |mut inspector, mine| async move {
            for task in &mine {
                inspector.compare(task).await;
            }
            Vec::new()
        })
        .await;
    }

    /// Checks these tasks until all have ended, and answers their questions; returns how long after
    /// `since` each end was seen.
    ///
    /// # Panics
    /// If one has not ended within `limit`.
    pub async fn settle(&self, tasks: Vec<CreatedTask>, since: Instant, limit: Duration) -> Vec<Duration> {
        self.spread(tasks, move |mut inspector, mut mine| async move {
            let shared = inspector.out.shared.clone();
            let mut settled = Vec::new();
            // Each task is checked at least once, whatever is known of it.
            let mut first = true;
            while !mine.is_empty() {
                for made in &mine {
                    if first || !shared.is_over(&made.id) {
                        inspector.look(made, true).await;
                    }
                }
                first = false;
                mine.retain(|made| {
                    let over = shared.is_over(&made.id);
                    settled.extend(over.then(|| since.elapsed()));
                    !over
                });
                if let Some(late) = mine.first().filter(|_| since.elapsed() > limit) {
                    let connection = &mut inspector.connections[late.principal];
                    let task = connection.ask("tasks/get", json!({"taskId": late.id}), |_| Value::Null).await;
                    let task = task.map(|response| response.message);
                    panic!("{} tasks go on, such as {late:?}: {task:?}", mine.len());
                }
                if !mine.is_empty() {
                    tokio::time::sleep(AGAIN).await;
                }
            }
            settled
        })
        .await
    }

    /// Distributes these tasks among the inspectors.
    async fn spread<F, R>(&self, tasks: Vec<CreatedTask>, work: F) -> Vec<Duration>
    where
        F: Fn(Inspector, Vec<CreatedTask>) -> R,
        R: Future<Output = Vec<Duration>> + Send + 'static,
    {
        let mut shares = vec![Vec::new(); INSPECTORS as usize];
        for (n, made) in tasks.into_iter().enumerate() {
            shares[n % INSPECTORS as usize].push(made);
        }
        let mut looking = JoinSet::new();
        for (inspector, mine) in (0..).zip(shares) {
            looking.spawn(work(Inspector::new(self, inspector), mine));
        }
        looking.join_all().await.concat()
    }
}

impl Inspector {
    fn new(out: &Inspection, number: u32) -> Self {
        let at = number as usize % out.addresses.len();
        let connection = |name: &&str| {
            let client = Client::new(out.addresses[at].port).declaring(everything()).bearing(&token(name));
            ClientConnection::new(Generation::Stateless(client)).moving_after(out.move_after)
        };
        let session = |session: &Session| {
            ClientConnection::new(Generation::Session(session.at(out.addresses[at].port)))
        };
        let connections = PRINCIPALS.iter().map(connection).collect();
        let sessions = out.sessions.iter().map(session).collect();
        Self { out: out.clone(), at, connections, sessions }
    }

    /// Checks a task on whichever host answers; if `answers`, also answers its question.
    async fn look(&mut self, made: &CreatedTask, answers: bool) {
        let begun = Instant::now();
        loop {
            let (shared, id) = (&self.out.shared, &made.id);
            let connection = &mut self.connections[made.principal];
            let looked = match answers {
                true => load_client::answer(connection, shared, id).await,
                false => load_client::look(connection, shared, id).await.map(drop),
            };
            let Err(no_answer) = looked else { return };
            let waits = self.out.move_after.is_some() && begun.elapsed() < PATIENCE;
            assert!(waits, "no answer about {made:?} from any of {:?}: {no_answer:?}", self.out.addresses);
            self.at = (self.at + 1) % self.out.addresses.len();
            for connection in &mut self.connections {
                connection.move_to(self.out.addresses[self.at].port);
            }
            tokio::time::sleep(AGAIN).await;
        }
    }

    /// Compares what both generations report about a task, unless it changes meanwhile (26B-8).
    async fn compare(&mut self, task: &CreatedTask) {
        let (session, connection) =
            (&mut self.sessions[task.principal], &mut self.connections[task.principal]);
        let shared = &self.out.shared;
        let before = load_client::look(session, shared, &task.id).await;
        let stateless = load_client::look(connection, shared, &task.id).await;
        let after = load_client::look(session, shared, &task.id).await;
        let (Ok(before), Ok(stateless), Ok(after)) = (before, stateless, after) else {
            return shared.unexpected(format!("no answer about {task:?}"));
        };
        if before == after {
            shared.count(COMPARED);
            if let Err(what) = agreement(&before, &stateless) {
                shared.unexpected(format!("{what}: {before} and {stateless}"));
            }
        }
    }
}
