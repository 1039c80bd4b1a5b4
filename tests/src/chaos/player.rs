//! One client of either generation: it takes one random step after another, and records the answers.

use super::board::{Board, Kind, Made, Seat};
use super::line::{Era, Gone, Heard, Line};
use super::{LIVE, PEOPLE};
use crate::Session;
use crate::dice::Dice;
use crate::history::{Form, Op};
use crate::session::LATEST;
use crate::stateless::{Client, everything};
use crate::tokens::token;
use crate::wait::PATIENCE;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// Longer than any host lives, in milliseconds.
const FOR_EVER: u64 = 3_600_000;
/// A task that has not ended is checked again after this time.
const AGAIN: Duration = Duration::from_millis(2);

/// A client.
pub(super) struct Player {
    board: Arc<Board>,
    /// The URL of the sink that counts effects.
    sink: String,
    who: u32,
    person: usize,
    dice: Dice,
    seats: watch::Receiver<Vec<Seat>>,
    at: Seat,
    line: Line,
    /// How often it has moved to another host.
    moves: i64,
}

impl Player {
    /// The `who`th client; those with even numbers have a session. With `leaving`, it moves to another host
    /// if an answer does not come within that time.
    pub async fn enter(
        board: Arc<Board>,
        sink: String,
        who: u32,
        mut dice: Dice,
        leaving: Option<Duration>,
    ) -> Self {
        let mut seats = board.seats.subscribe();
        let at = dice.pick(&seats.borrow_and_update());
        let person = who as usize / 2 % PEOPLE.len();
        let token = token(PEOPLE[person]);
        let era = match who % 2 {
            0 => Era::Session(Session::open_by(at.port, LATEST, everything(), Some(&token)).await.session),
            _ => Era::Alone(Client::new(at.port).declaring(everything()).bearing(&token)),
        };
        let line = Line::new(era).leaving_after(leaving);
        Self { board, sink, who, person, dice, seats, at, line, moves: 1 }
    }

    /// Continues until `stop` is true, across all restarts of the hosts.
    pub async fn play(mut self, stop: watch::Receiver<bool>) {
        let board = self.board.clone();
        while !*stop.borrow() {
            let turn = board.turn.read().await;
            let stepped = self.step().await;
            drop(turn);
            let is_there = self.seats.borrow().contains(&self.at);
            let goes = match stepped {
                Ok(()) => !is_there || self.dice.below(8) == 0,
                Err(gone) => {
                    board.count(match gone {
                        Gone::Broken => "calls cut short",
                        Gone::Late => "calls that were not waited for any longer",
                        Gone::Storeless => "calls refused for want of the store",
                    });
                    // Only a killed host breaks the connection; at the end there is no replacement.
                    if !self.another().await {
                        return;
                    }
                    true
                }
            };
            if goes && let Some(seat) = self.elsewhere() {
                self.at = seat;
                self.moves += 1;
                self.line.move_to(seat.port, self.moves << 32);
            }
        }
    }

    /// Waits until there is another host; false if there never will be one.
    async fn another(&mut self) -> bool {
        let at = self.at;
        let other = self.seats.wait_for(|seats| seats.iter().any(|seat| *seat != at));
        tokio::time::timeout(PATIENCE, other).await.expect("another host in its place").is_ok()
    }

    /// Any other host, if there is one.
    fn elsewhere(&mut self) -> Option<Seat> {
        let others: Vec<Seat> =
            self.seats.borrow_and_update().iter().copied().filter(|seat| *seat != self.at).collect();
        (!others.is_empty()).then(|| self.dice.pick(&others))
    }

    async fn step(&mut self) -> Result<(), Gone> {
        let (live, _) = self.board.standing();
        match self.dice.below(24) {
            0..=7 if live < LIVE + LIVE / 4 => {
                let kind = self.dice.pick(&[Kind::Long, Kind::Long, Kind::Long, Kind::Asks, Kind::AsksAgain]);
                self.create(kind).await.map(drop)
            }
            0..=12 => self.create_and_wait().await,
            13 | 14 => self.create(Kind::Again).await.map(drop),
            15..=17 => self.look().await,
            18 => self.list().await,
            19 | 20 => self.cancel().await,
            21 | 22 => self.answer().await,
            _ => self.result().await,
        }
    }

    async fn ask(&mut self, method: &str, params: Value) -> Result<Heard, Gone> {
        self.line.ask(method, params, |_| json!({"action": "cancel"})).await
    }

    async fn create(&mut self, kind: Kind) -> Result<Option<String>, Gone> {
        let serial = self.board.serial();
        let key = format!("{}-{serial}", kind.tool());
        let ms = match kind {
            Kind::Quick | Kind::Asks | Kind::AsksAgain => self.dice.below(20),
            Kind::Again => 20 + self.dice.below(400),
            Kind::Long => FOR_EVER,
        };
        let mut arguments = json!({"key": key, "ms": ms, "ask": kind.asks()});
        // Quick tasks should stay quick, so only a quarter of them reports to the sink.
        let sends = kind != Kind::Quick || serial.is_multiple_of(4);
        if sends {
            arguments["sink"] = json!(self.sink);
        }
        let mut params = json!({"name": kind.tool(), "arguments": arguments});
        if self.line.is_session() {
            params["task"] = json!({});
        }
        let sent = self.board.now();
        let heard = self.ask("tools/call", params).await?;
        let result = heard.result();
        let task = if self.line.is_session() { &result["task"] } else { result };
        let Some(id) = task["taskId"].as_str().map(str::to_owned) else {
            match heard.code() {
                Some(-32603) => self.board.count("creations refused"),
                _ => self.board.odd(format!("a creation: {}", heard.message)),
            }
            return Ok(None);
        };
        let (board, who, person) = (&self.board, self.who, self.person);
        board.log(who, &id, sent, Some(board.now()), Op::Create);
        board.created(Made { id: id.clone(), at: self.at.number, key, person, kind, sends, over: None });
        board.count(if self.line.is_session() { "created in sessions" } else { "created without" });
        Ok(Some(id))
    }

    async fn create_and_wait(&mut self) -> Result<(), Gone> {
        let Some(id) = self.create(Kind::Quick).await? else { return Ok(()) };
        if self.line.is_session() {
            self.fetch(&id).await?;
        }
        // Its host may be lost, so this may take a while.
        loop {
            // A missing task is recorded, and judged with the rest.
            if self.get(&id).await?.is_null() || self.board.is_over(&id) {
                return Ok(());
            }
            tokio::time::sleep(AGAIN).await;
        }
    }

    /// One task of the principal, created by any of its clients: from the latest, or from all.
    fn any(&mut self) -> Option<Made> {
        self.any_that(8, |_| true)
    }

    /// A task with this property, if one is found within this many tries.
    fn any_that(&mut self, tries: u32, fits: impl Fn(&Made) -> bool) -> Option<Made> {
        let last = self.dice.pick(&[200, usize::MAX]);
        (0..tries).find_map(|_| {
            let made = self.board.nth(self.dice.below(1 << 32), last);
            made.filter(|made| made.person == self.person && fits(made))
        })
    }

    async fn look(&mut self) -> Result<(), Gone> {
        let Some(made) = self.any() else { return Ok(()) };
        self.get(&made.id).await.map(drop)
    }

    async fn get(&mut self, id: &str) -> Result<Value, Gone> {
        let task = look(&mut self.line, &self.board, self.who, id).await?;
        self.board.count("looked at");
        Ok(task)
    }

    async fn list(&mut self) -> Result<(), Gone> {
        if !self.line.is_session() {
            return Ok(());
        }
        let sent = self.board.now();
        let heard = self.ask("tasks/list", json!({})).await?;
        match heard.result()["tasks"].as_array() {
            Some(tasks) => tasks.iter().for_each(|task| self.board.saw(self.who, sent, task)),
            None => self.board.odd(format!("a list: {}", heard.message)),
        }
        self.board.count("lists");
        Ok(())
    }

    async fn cancel(&mut self) -> Result<(), Gone> {
        let Some(Made { id, .. }) = self.any() else { return Ok(()) };
        self.board.touched(&id);
        let sent = self.board.now();
        let heard = self.ask("tasks/cancel", json!({"taskId": id})).await?;
        let answered = Some(self.board.now());
        match (heard.code(), self.line.is_session()) {
            (None, true) => {
                self.board.log(self.who, &id, sent, answered, Op::Cancelled);
                self.board.saw(self.who, sent, heard.result());
                self.board.count("cancels acknowledged");
            }
            (None, false) => {
                self.board.log(self.who, &id, sent, answered, Op::CancelledOrOver);
                self.board.count("cancels acknowledged");
            }
            // The task had ended.
            (Some(-32602), true) => self.board.count("cancels that came too late"),
            _ => self.board.odd(format!("a cancel of {id}: {}", heard.message)),
        }
        Ok(())
    }

    async fn result(&mut self) -> Result<(), Gone> {
        let Some(Made { id, .. }) = self.any().filter(|made| made.over.is_some()) else { return Ok(()) };
        if self.line.is_session() { self.fetch(&id).await } else { self.get(&id).await.map(drop) }
    }

    /// Waits for the result of a task in a session, and answers the questions that come meanwhile.
    async fn fetch(&mut self, id: &str) -> Result<(), Gone> {
        let (board, who) = (self.board.clone(), self.who);
        let sent = board.now();
        let mut answered = Vec::new();
        let heard = self
            .line
            .ask("tasks/result", json!({"taskId": id}), |_| {
                let word = word(&board);
                answered.push((word.clone(), board.now()));
                accepted(&word)
            })
            .await;
        for (word, at) in answered {
            // The result tells when the answer was accepted at the latest.
            let until = heard.is_ok().then(|| board.now());
            board.log(who, id, at, until, Op::Answer(word));
            board.count("answers in sessions");
        }
        let heard = heard?;
        board.result(who, id, sent, Form::Session, (heard.bytes().to_owned(), heard.code().is_none()));
        board.count("results fetched");
        Ok(())
    }

    /// Answers the question of a task, if there is one.
    async fn answer(&mut self) -> Result<(), Gone> {
        let asking = |made: &Made| made.kind.asks() && made.over.is_none();
        let Some(Made { id, .. }) = self.any_that(100, asking) else { return Ok(()) };
        self.board.touched(&id);
        if self.line.is_session() {
            return self.fetch(&id).await;
        }
        answer(&mut self.line, &self.board, self.who, &id).await
    }
}

/// Gets a task and records its state.
pub(super) async fn look(line: &mut Line, board: &Board, who: u32, id: &str) -> Result<Value, Gone> {
    let sent = board.now();
    let heard = line.ask("tasks/get", json!({"taskId": id}), |_| Value::Null).await?;
    Ok(note(board, who, id, sent, &heard))
}

/// Gets a task and answers its question.
pub(super) async fn answer(line: &mut Line, board: &Board, who: u32, id: &str) -> Result<(), Gone> {
    let task = look(line, board, who, id).await?;
    let Some(asked) = task["inputRequests"].as_object() else { return Ok(()) };
    let word = word(board);
    let responses: serde_json::Map<_, _> = asked.keys().map(|key| (key.clone(), accepted(&word))).collect();
    let params = json!({"taskId": id, "inputResponses": responses});
    let sent = board.now();
    let heard = line.ask("tasks/update", params, |_| Value::Null).await;
    let answered = heard.is_ok().then(|| board.now());
    board.log(who, id, sent, answered, Op::Answer(word));
    board.count("answers without a session");
    let heard = heard?;
    if heard.code().is_some() {
        board.odd(format!("an answer to {id}: {}", heard.message));
    }
    Ok(())
}

/// Records the answer to `tasks/get`; returns the task.
fn note(board: &Board, who: u32, id: &str, sent: u64, heard: &Heard) -> Value {
    let task = heard.result();
    if heard.code() == Some(-32602) {
        board.log(who, id, sent, Some(board.now()), Op::Missing);
    } else if task["taskId"] == id {
        board.saw(who, sent, task);
        if let Some(bytes) = heard.bytes_of("result") {
            board.result(who, id, sent, Form::Alone, (bytes, true));
        }
    } else {
        board.odd(format!("a look at {id}: {}", heard.message));
    }
    task.clone()
}

fn word(board: &Board) -> String {
    format!("w{}", board.serial())
}

fn accepted(word: &str) -> Value {
    json!({"action": "accept", "content": {"word": word}})
}
