//! One client of either generation: it takes one random step after another, and records the answers.

use super::client_connection::{ClientConnection, Generation, NoAnswer, Response};
use super::shared_state::{CreatedTask, HostAddress, Kind, SharedState};
use super::{LIVE, PRINCIPALS, sagas};
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
pub(super) struct LoadClient {
    shared: Arc<SharedState>,
    /// The port of the sink that counts effects.
    sink: u16,
    principal: usize,
    dice: Dice,
    addresses: watch::Receiver<Vec<HostAddress>>,
    at: HostAddress,
    connection: ClientConnection,
}

impl LoadClient {
    /// The `who`th client; those with even numbers have a session. With `move_after`, it moves to another
    /// host if an answer does not come within that time.
    pub async fn start(
        shared: Arc<SharedState>,
        sink: u16,
        who: u32,
        mut dice: Dice,
        move_after: Option<Duration>,
    ) -> Self {
        let mut addresses = shared.addresses.subscribe();
        let at = dice.pick(&addresses.borrow_and_update());
        let principal = who as usize / 2 % PRINCIPALS.len();
        let token = token(PRINCIPALS[principal]);
        let generation = match who % 2 {
            0 => Generation::Session(
                Session::open_by(at.port, LATEST, everything(), Some(&token)).await.session,
            ),
            _ => Generation::Stateless(Client::new(at.port).declaring(everything()).bearing(&token)),
        };
        let connection = ClientConnection::new(generation).moving_after(move_after);
        Self { shared, sink, principal, dice, addresses, at, connection }
    }

    /// Continues until `stop` is true, across all restarts of the hosts.
    pub async fn play(mut self, stop: watch::Receiver<bool>) {
        let shared = self.shared.clone();
        while !*stop.borrow() {
            let turn = shared.turn.read().await;
            let stepped = self.step().await;
            drop(turn);
            let is_there = self.addresses.borrow().contains(&self.at);
            let goes = match stepped {
                Ok(()) => !is_there || self.dice.below(8) == 0,
                Err(no_answer) => {
                    shared.count(match no_answer {
                        NoAnswer::HostLost => "calls cut short",
                        NoAnswer::TimedOut => "calls that were not waited for any longer",
                        NoAnswer::StoreUnavailable => "calls refused for want of the store",
                    });
                    // Only a killed host breaks the connection; at the end there is no replacement.
                    if !self.another().await {
                        return;
                    }
                    true
                }
            };
            if goes && let Some(address) = self.elsewhere() {
                self.at = address;
                self.connection.move_to(address.port);
            }
        }
    }

    /// Waits until there is another host; false if there never will be one.
    async fn another(&mut self) -> bool {
        let at = self.at;
        let other = self.addresses.wait_for(|addresses| addresses.iter().any(|address| *address != at));
        tokio::time::timeout(PATIENCE, other).await.expect("another host in its place").is_ok()
    }

    /// Any other host, if there is one.
    fn elsewhere(&mut self) -> Option<HostAddress> {
        let mut others = self.addresses.borrow_and_update().to_vec();
        others.retain(|address| *address != self.at);
        (!others.is_empty()).then(|| self.dice.pick(&others))
    }

    async fn step(&mut self) -> Result<(), NoAnswer> {
        let (live, _) = self.shared.live_and_finished();
        match self.dice.below(24) {
            0..=7 if live < LIVE + LIVE / 4 => {
                let kinds = [Kind::Long, Kind::Long, Kind::Long, Kind::Asks, Kind::AsksAgain, Kind::Saga];
                let kind = self.dice.pick(&kinds);
                self.create(kind).await.map(drop)
            }
            0..=12 => self.create_and_wait().await,
            13 | 14 => {
                let kind = self.dice.pick(&[Kind::Again, Kind::Again, Kind::Saga, Kind::StrictSaga]);
                self.create(kind).await.map(drop)
            }
            15..=17 => self.look().await,
            18 => self.list().await,
            19 | 20 => self.cancel().await,
            21 | 22 => self.answer().await,
            _ => self.result().await,
        }
    }

    async fn ask(&mut self, method: &str, params: Value) -> Result<Response, NoAnswer> {
        self.connection.ask(method, params, |_| json!({"action": "cancel"})).await
    }

    async fn create(&mut self, kind: Kind) -> Result<Option<String>, NoAnswer> {
        let serial = self.shared.serial();
        let key = format!("{}-{serial}", kind.tool());
        let ms = match kind {
            Kind::Again => 20 + self.dice.below(400),
            Kind::Long => FOR_EVER,
            _ => self.dice.below(20),
        };
        let mut arguments = json!({"key": key, "ms": ms, "ask": kind.asks()});
        if kind.resumes() {
            arguments = sagas::arguments(kind, &key, self.sink, &mut self.dice);
        }
        match kind {
            Kind::Fails => arguments["error"] = json!(0),
            Kind::FailsInProtocol => arguments["error"] = json!(-7),
            _ => {}
        }
        // Quick tasks should stay quick, so only a quarter of them reports to the sink.
        let is_quick = matches!(kind, Kind::Quick | Kind::Fails | Kind::FailsInProtocol);
        let sends = !is_quick || serial.is_multiple_of(4);
        if sends && !kind.resumes() {
            arguments["sink"] = json!(format!("localhost:{}", self.sink));
        }
        let mut params = json!({"name": kind.tool(), "arguments": arguments});
        if self.connection.is_session() {
            params["task"] = json!({});
        }
        let sent = self.shared.now();
        let response = self.ask("tools/call", params).await?;
        let result = response.result();
        let task = if self.connection.is_session() { &result["task"] } else { result };
        let Some(id) = task["taskId"].as_str().map(str::to_owned) else {
            match response.code() {
                Some(-32603) => self.shared.count("creations refused"),
                _ => self.shared.unexpected(format!("a creation: {}", response.message)),
            }
            return Ok(None);
        };
        let (shared, principal, at) = (&self.shared, self.principal, self.at.number);
        shared.log(&id, sent, Some(shared.now()), Op::Create);
        shared.created(CreatedTask { id: id.clone(), at, key, principal, kind, sends, over: None });
        shared.count(if self.connection.is_session() { "created in sessions" } else { "created without" });
        Ok(Some(id))
    }

    async fn create_and_wait(&mut self) -> Result<(), NoAnswer> {
        let kind = self.dice.pick(&[Kind::Quick, Kind::Quick, Kind::Fails, Kind::FailsInProtocol]);
        let Some(id) = self.create(kind).await? else { return Ok(()) };
        if self.connection.is_session() {
            self.fetch(&id).await?;
        }
        // Its host may be lost, so this may take a while.
        loop {
            // A missing task is recorded, and judged with the rest.
            if self.get(&id).await?.is_null() || self.shared.is_over(&id) {
                return Ok(());
            }
            tokio::time::sleep(AGAIN).await;
        }
    }

    /// One task of the principal, created by any of its clients: from the latest, or from all.
    fn any(&mut self) -> Option<CreatedTask> {
        self.any_that(8, |_| true)
    }

    /// A task with this property, if one is found within this many tries.
    fn any_that(&mut self, tries: u32, fits: impl Fn(&CreatedTask) -> bool) -> Option<CreatedTask> {
        let last = self.dice.pick(&[200, usize::MAX]);
        (0..tries).find_map(|_| {
            let made = self.shared.nth(self.dice.below(1 << 32), last);
            made.filter(|made| made.principal == self.principal && fits(made))
        })
    }

    async fn look(&mut self) -> Result<(), NoAnswer> {
        let Some(made) = self.any() else { return Ok(()) };
        self.get(&made.id).await.map(drop)
    }

    async fn get(&mut self, id: &str) -> Result<Value, NoAnswer> {
        let task = look(&mut self.connection, &self.shared, id).await?;
        self.shared.count("looked at");
        Ok(task)
    }

    async fn list(&mut self) -> Result<(), NoAnswer> {
        if !self.connection.is_session() {
            return Ok(());
        }
        let sent = self.shared.now();
        let response = self.ask("tasks/list", json!({})).await?;
        match response.result()["tasks"].as_array() {
            Some(tasks) => tasks.iter().for_each(|task| self.shared.saw(sent, task)),
            None => self.shared.unexpected(format!("a list: {}", response.message)),
        }
        self.shared.count("lists");
        Ok(())
    }

    async fn cancel(&mut self) -> Result<(), NoAnswer> {
        let Some(CreatedTask { id, .. }) = self.any() else { return Ok(()) };
        self.shared.touched(&id);
        let sent = self.shared.now();
        let response = self.ask("tasks/cancel", json!({"taskId": id})).await?;
        let answered = Some(self.shared.now());
        match (response.code(), self.connection.is_session()) {
            (None, true) => {
                self.shared.log(&id, sent, answered, Op::Cancelled);
                self.shared.saw(sent, response.result());
                self.shared.count("cancels acknowledged");
            }
            (None, false) => {
                self.shared.log(&id, sent, answered, Op::CancelledOrOver);
                self.shared.count("cancels acknowledged");
            }
            // The task had ended.
            (Some(-32602), true) => self.shared.count("cancels that came too late"),
            _ => self.shared.unexpected(format!("a cancel of {id}: {}", response.message)),
        }
        Ok(())
    }

    async fn result(&mut self) -> Result<(), NoAnswer> {
        let Some(CreatedTask { id, .. }) = self.any().filter(|made| made.over.is_some()) else {
            return Ok(());
        };
        if self.connection.is_session() { self.fetch(&id).await } else { self.get(&id).await.map(drop) }
    }

    /// Waits for the result of a task in a session, and answers the questions that come meanwhile.
    async fn fetch(&mut self, id: &str) -> Result<(), NoAnswer> {
        let shared = self.shared.clone();
        let sent = shared.now();
        let mut answered = Vec::new();
        let response = self
            .connection
            .ask("tasks/result", json!({"taskId": id}), |_| {
                let word = word(&shared);
                answered.push((word.clone(), shared.now()));
                accepted(&word)
            })
            .await;
        for (word, at) in answered {
            // The result tells when the answer was accepted at the latest.
            let until = response.is_ok().then(|| shared.now());
            shared.log(id, at, until, Op::Answer(word));
            shared.count("answers in sessions");
        }
        let response = response?;
        shared.result(id, sent, Form::Session, (response.bytes().to_owned(), response.code().is_none()));
        shared.count("results fetched");
        Ok(())
    }

    /// Answers the question of a task, if there is one.
    async fn answer(&mut self) -> Result<(), NoAnswer> {
        let asking = |made: &CreatedTask| made.kind.asks() && made.over.is_none();
        let Some(CreatedTask { id, .. }) = self.any_that(100, asking) else { return Ok(()) };
        self.shared.touched(&id);
        if self.connection.is_session() {
            return self.fetch(&id).await;
        }
        answer(&mut self.connection, &self.shared, &id).await
    }
}

/// Gets a task and records its state.
pub(super) async fn look(
    connection: &mut ClientConnection,
    shared: &SharedState,
    id: &str,
) -> Result<Value, NoAnswer> {
    let sent = shared.now();
    let response = connection.ask("tasks/get", json!({"taskId": id}), |_| Value::Null).await?;
    Ok(note(shared, id, sent, &response))
}

/// Gets a task and answers its question.
pub(super) async fn answer(
    connection: &mut ClientConnection,
    shared: &SharedState,
    id: &str,
) -> Result<(), NoAnswer> {
    let task = look(connection, shared, id).await?;
    let Some(asked) = task["inputRequests"].as_object() else { return Ok(()) };
    let word = word(shared);
    let responses: serde_json::Map<_, _> = asked.keys().map(|key| (key.clone(), accepted(&word))).collect();
    let params = json!({"taskId": id, "inputResponses": responses});
    let sent = shared.now();
    let response = connection.ask("tasks/update", params, |_| Value::Null).await;
    let answered = response.is_ok().then(|| shared.now());
    shared.log(id, sent, answered, Op::Answer(word));
    shared.count("answers without a session");
    let response = response?;
    if response.code().is_some() {
        shared.unexpected(format!("an answer to {id}: {}", response.message));
    }
    Ok(())
}

/// Records the answer to `tasks/get`; returns the task.
fn note(shared: &SharedState, id: &str, sent: u64, response: &Response) -> Value {
    let task = response.result();
    if response.code() == Some(-32602) {
        shared.log(id, sent, Some(shared.now()), Op::Missing);
    } else if task["taskId"] == id {
        shared.saw(sent, task);
        if let Some(bytes) = response.bytes_of("result") {
            shared.result(id, sent, Form::Alone, (bytes, true));
        }
    } else {
        shared.unexpected(format!("a look at {id}: {}", response.message));
    }
    task.clone()
}

fn word(shared: &SharedState) -> String {
    format!("w{}", shared.serial())
}

fn accepted(word: &str) -> Value {
    json!({"action": "accept", "content": {"word": word}})
}
