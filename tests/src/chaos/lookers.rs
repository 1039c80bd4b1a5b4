//! Who looks after tasks when there was a disaster: everything that was acknowledged is
//! there, and what a dead host left comes to its end.

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

/// So many look at once.
pub(super) const LOOKERS: u32 = 8;
/// What is not over is looked at again after this time.
const AGAIN: Duration = Duration::from_millis(20);

/// Where they look.
#[derive(Clone)]
pub(super) struct Lookout {
    pub board: Arc<Board>,
    /// The number of the first of them in the history.
    pub first: u32,
    /// Hosts that all of them may ask.
    pub seats: Vec<Seat>,
    /// How long an answer is waited for before another host is asked, or the same one
    /// again. Without it, each question must be answered.
    pub leaving: Option<Duration>,
}

/// One of them, with a line for each person.
struct Looker {
    out: Lookout,
    who: u32,
    at: usize,
    lines: Vec<Line>,
}

impl Lookout {
    /// Looks at each of these tasks once.
    pub async fn look(&self, tasks: Vec<Made>) {
        self.spread(tasks, |mut looker, mine| async move {
            for made in &mine {
                looker.look(made, false).await;
            }
            Vec::new()
        })
        .await;
    }

    /// Looks after these tasks until every one is over, and answers what they ask; gives
    /// how long after `since` each of them was seen to be over.
    ///
    /// # Panics
    /// If one is not over within `limit`.
    pub async fn settle(&self, tasks: Vec<Made>, since: Instant, limit: Duration) -> Vec<Duration> {
        self.spread(tasks, move |mut looker, mut mine| async move {
            let board = looker.out.board.clone();
            let mut settled = Vec::new();
            // Each is looked at once at least, whatever was known of it.
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

    /// Shares these tasks out among the lookers.
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

    /// Looks at a task, at whichever host answers; perhaps answers what it asks.
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
