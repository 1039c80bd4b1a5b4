//! Checks of tasks after a disaster: every acknowledged task exists, and the tasks of a dead host end.

use super::PEOPLE;
use super::board::{Board, Made, Seat};
use super::line::{Era, Line};
use super::player;
use crate::stateless::{Client, everything};
use crate::tokens::token;
use crate::wait::PATIENCE;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// The number of concurrent lookers.
pub(super) const LOOKERS: u32 = 8;
/// A task that has not ended is checked again after this time.
const AGAIN: Duration = Duration::from_millis(20);

/// The shared state of a group of lookers.
#[derive(Clone)]
pub(super) struct Lookout {
    pub board: Arc<Board>,
    /// The number of the first looker in the history.
    pub first: u32,
    /// Hosts that all of them may ask.
    pub seats: Vec<Seat>,
    /// How long a looker waits for an answer before it asks another host, or the same one again. With `None`,
    /// every request must be answered.
    pub leaving: Option<Duration>,
}

/// One looker, with a connection for each principal.
struct Looker {
    out: Lookout,
    who: u32,
    at: usize,
    lines: Vec<Line>,
}

impl Lookout {
    /// Checks each of these tasks once.
    pub async fn look(&self, tasks: Vec<Made>) {
        self.spread(tasks, |mut looker, mine| async move {
            for made in &mine {
                looker.look(made, false).await;
            }
            Vec::new()
        })
        .await;
    }

    /// Checks these tasks until all have ended, and answers their questions; returns how long after `since`
    /// each end was seen.
    ///
    /// # Panics
    /// If one has not ended within `limit`.
    pub async fn settle(&self, tasks: Vec<Made>, since: Instant, limit: Duration) -> Vec<Duration> {
        self.spread(tasks, move |mut looker, mut mine| async move {
            let board = looker.out.board.clone();
            let mut settled = Vec::new();
            // Each task is checked at least once, whatever is known of it.
            let mut first = true;
            while !mine.is_empty() {
                for made in &mine {
                    if first || !board.is_over(&made.id) {
                        looker.look(made, true).await;
                    }
                }
                first = false;
                mine.retain(|made| {
                    let over = board.is_over(&made.id);
                    settled.extend(over.then(|| since.elapsed()));
                    !over
                });
                if let Some(late) = mine.first().filter(|_| since.elapsed() > limit) {
                    let task = looker.lines[late.person]
                        .ask("tasks/get", json!({"taskId": late.id}), |_| Value::Null);
                    let task = task.await.map(|heard| heard.message);
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

    /// Distributes these tasks among the lookers.
    async fn spread<F, R>(&self, tasks: Vec<Made>, work: F) -> Vec<Duration>
    where
        F: Fn(Looker, Vec<Made>) -> R,
        R: Future<Output = Vec<Duration>> + Send + 'static,
    {
        let mut shares = vec![Vec::new(); LOOKERS as usize];
        for (n, made) in tasks.into_iter().enumerate() {
            shares[n % LOOKERS as usize].push(made);
        }
        let mut looking = JoinSet::new();
        for (looker, mine) in (0..).zip(shares) {
            looking.spawn(work(Looker::new(self, looker), mine));
        }
        let mut gathered = Vec::new();
        while let Some(looked) = looking.join_next().await {
            gathered.extend(looked.expect("a looker sees nothing that must not be"));
        }
        gathered
    }
}

impl Looker {
    fn new(out: &Lookout, number: u32) -> Self {
        let at = number as usize % out.seats.len();
        let line = |name: &&str| {
            let client = Client::new(out.seats[at].port).declaring(everything()).bearing(&token(name));
            Line::new(Era::Alone(client)).leaving_after(out.leaving)
        };
        let lines = PEOPLE.iter().map(line).collect();
        Self { out: out.clone(), who: out.first + number, at, lines }
    }

    /// Checks a task on whichever host answers; if `answers`, also answers its question.
    async fn look(&mut self, made: &Made, answers: bool) {
        let begun = Instant::now();
        loop {
            let (line, board, id) = (&mut self.lines[made.person], &self.out.board, &made.id);
            let looked = match answers {
                true => player::answer(line, board, self.who, id).await,
                false => player::look(line, board, self.who, id).await.map(drop),
            };
            let Err(gone) = looked else { return };
            let waits = self.out.leaving.is_some() && begun.elapsed() < PATIENCE;
            assert!(waits, "no answer about {made:?} from any of {:?}: {gone:?}", self.out.seats);
            self.at = (self.at + 1) % self.out.seats.len();
            for line in &mut self.lines {
                line.move_to(self.out.seats[self.at].port, 1);
            }
            tokio::time::sleep(AGAIN).await;
        }
    }
}
