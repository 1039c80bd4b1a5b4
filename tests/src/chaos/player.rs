//! One client of either generation: what it does, one thing at random after another,
//! and what it notes of it.

use super::board::{Board, Kind, Made};
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
use tokio::sync::watch;

/// What is certain to outlive its host, in milliseconds.
const FOR_EVER: u64 = 3_600_000;

/// A client.
pub(super) struct Player {
    board: Arc<Board>,
    /// Where effects are counted.
    sink: String,
    who: u32,
    person: usize,
    dice: Dice,
    port: watch::Receiver<u16>,
    line: Line,
}

impl Player {
    /// The `who`th client; those of even numbers have a session.
    pub async fn enter(board: Arc<Board>, sink: String, who: u32, dice: Dice) -> Self {
        let mut port = board.port.subscribe();
        let at = *port.borrow_and_update();
        let person = who as usize / 2 % PEOPLE.len();
        let token = token(PEOPLE[person]);
        let era = match who % 2 {
            0 => Era::Session(Session::open_by(at, LATEST, everything(), Some(&token)).await.session),
            _ => Era::Alone(Client::new(at).declaring(everything()).bearing(&token)),
        };
        Self { board, sink, who, person, dice, port, line: Line::new(era) }
    }

    /// Goes on until `stop` is true, through every life of the host.
    pub async fn play(mut self, stop: watch::Receiver<bool>) {
        let mut lives = 1_i64;
        while !*stop.borrow() {
            if self.step().await.is_err() {
                self.board.count("calls cut short by a kill");
                // Only a host that was killed breaks off; at the end there is no other.
                let changed = tokio::time::timeout(PATIENCE, self.port.changed());
                if changed.await.expect("another host in its place").is_err() {
                    return;
                }
            }
            if self.port.has_changed().unwrap_or(false) || self.at() != *self.port.borrow() {
                lives += 1;
                let port = *self.port.borrow_and_update();
                self.line.move_to(port, lives << 32);
            }
        }
    }

    fn at(&self) -> u16 {
        match &self.line.era {
            Era::Session(session) => session.port(),
            Era::Alone(client) => client.port(),
        }
    }

    async fn step(&mut self) -> Result<(), Gone> {
        let (live, _) = self.board.standing();
        match self.dice.roll(24) {
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
            Kind::Quick | Kind::Asks | Kind::AsksAgain => self.dice.roll(20),
            Kind::Again => 20 + self.dice.roll(400),
            Kind::Long => FOR_EVER,
        };
        let mut arguments = json!({"key": key, "ms": ms, "ask": kind.asks()});
        // The quick ones are to be quick.
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
        board.created(Made { id: id.clone(), key, person, kind, sends, over: None });
        board.count(if self.line.is_session() { "created in sessions" } else { "created without" });
        Ok(Some(id))
    }

    async fn create_and_wait(&mut self) -> Result<(), Gone> {
        let Some(id) = self.create(Kind::Quick).await? else { return Ok(()) };
        if self.line.is_session() {
            self.fetch(&id).await?;
        }
        while !self.board.is_over(&id) {
            self.get(&id).await?;
        }
        Ok(())
    }

    /// One task of the person, whoever made it: of the latest, or of all.
    fn any(&mut self) -> Option<Made> {
        let last = self.dice.pick(&[200, usize::MAX]);
        (0..8).find_map(|_| {
            self.board.nth(self.dice.roll(1 << 32), last).filter(|made| made.person == self.person)
        })
    }

    async fn look(&mut self) -> Result<(), Gone> {
        let Some(made) = self.any() else { return Ok(()) };
        self.get(&made.id).await.map(drop)
    }

    async fn get(&mut self, id: &str) -> Result<Value, Gone> {
        let sent = self.board.now();
        let heard = self.ask("tasks/get", json!({"taskId": id})).await?;
        self.board.count("looked at");
        Ok(note(&self.board, self.who, id, sent, &heard))
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
            // It was over.
            (Some(-32602), true) => self.board.count("cancels that came too late"),
            _ => self.board.odd(format!("a cancel of {id}: {}", heard.message)),
        }
        Ok(())
    }

    async fn result(&mut self) -> Result<(), Gone> {
        let Some(Made { id, .. }) = self.any().filter(|made| made.over.is_some()) else { return Ok(()) };
        if self.line.is_session() { self.fetch(&id).await } else { self.get(&id).await.map(drop) }
    }

    /// Waits for the result of a task in a session, and answers what comes on the way.
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
            // What came of it tells when it was taken at the latest.
            let until = heard.is_ok().then(|| board.now());
            board.log(who, id, at, until, Op::Answer(word));
            board.count("answers in sessions");
        }
        let heard = heard?;
        board.result(who, id, sent, Form::Session, (heard.bytes().to_owned(), heard.code().is_none()));
        board.count("results fetched");
        Ok(())
    }

    /// Answers what a task asks, if it does.
    async fn answer(&mut self) -> Result<(), Gone> {
        let asking = |made: &Made| made.kind.asks() && made.over.is_none();
        let Some(Made { id, .. }) = self.any().filter(asking) else { return Ok(()) };
        self.board.touched(&id);
        if self.line.is_session() {
            return self.fetch(&id).await;
        }
        answer(&mut self.line, &self.board, self.who, &id).await
    }
}

/// Looks at a task and answers what it asks.
pub(super) async fn answer(line: &mut Line, board: &Board, who: u32, id: &str) -> Result<(), Gone> {
    let sent = board.now();
    let heard = line.ask("tasks/get", json!({"taskId": id}), |_| Value::Null).await?;
    let task = note(board, who, id, sent, &heard);
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

/// Notes the answer to `tasks/get`; gives the task.
pub(super) fn note(board: &Board, who: u32, id: &str, sent: u64, heard: &Heard) -> Value {
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
