//! One client of either generation: it takes one random step after another.

use super::{PEOPLE, Stage, session};
use crate::Session;
use crate::dice::Dice;
use crate::http::Connection;
use crate::stateless::{Client, Reply, everything};
use crate::tokens::token;
use crate::wait::PATIENCE;
use hyper::Method;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tokio::sync::watch;

/// A client and its state.
pub(super) struct Player {
    stage: Arc<Stage>,
    person: usize,
    dice: Dice,
    port: watch::Receiver<u16>,
    line: Line,
}

enum Line {
    Within(Session),
    Alone(Client),
}

/// A guest that asks one question as a task.
fn asks() -> Value {
    let schema = json!({"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]});
    let question = json!({"key": "q", "method": "elicitation/create",
        "params": {"message": "Sure?", "requestedSchema": schema}});
    json!({"steps": [{"begin": null}, {"ask": [question]}]})
}

fn accepted() -> Value {
    json!({"action": "accept", "content": {"ok": true}})
}

impl Player {
    /// The `number`th client; those with even numbers have a session.
    pub async fn enter(stage: Arc<Stage>, number: usize, dice: Dice) -> Self {
        let mut port = stage.port.subscribe();
        let at = *port.borrow_and_update();
        let person = number / 2 % PEOPLE.len();
        let line = match number % 2 {
            0 => Line::Within(session(at, PEOPLE[person]).await),
            _ => Line::Alone(Client::new(at).declaring(everything()).bearing(&token(PEOPLE[person]))),
        };
        Self { stage, person, dice, port, line }
    }

    /// Takes this many steps. If the host dies during one, the client continues with the next host.
    pub async fn play(&mut self, steps: u32) {
        for _ in 0..steps {
            if self.step().await.is_none() {
                self.stage.count("something was cut short");
                // Only a killed host breaks the connection.
                let changed = tokio::time::timeout(PATIENCE, self.port.changed());
                changed.await.expect("another host in its place").expect("the stage is there");
            }
            let port = *self.port.borrow_and_update();
            match &mut self.line {
                Line::Within(session) => {
                    *session =
                        session.at(port).numbered_from(i64::from(self.dice.below(1 << 40) as u32) << 16)
                }
                Line::Alone(client) if client.port() != port => {
                    *client = Client::new(port).declaring(everything()).bearing(&token(PEOPLE[self.person]));
                }
                Line::Alone(_) => {}
            }
            self.stage.steps.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// One step; `None` if the host died during it.
    async fn step(&mut self) -> Option<()> {
        let ms = self.dice.below(300);
        match self.dice.below(14) {
            0 | 1 => self.create("wait", json!({"ms": ms})).await,
            2 => self.create("fail", json!({"message": "no luck"})).await,
            3 => self.create("protocol_error", json!({"code": -7, "message": "odd"})).await,
            4 | 5 => self.create("script", asks()).await,
            6 => self.create("batch", json!({"steps": 3, "ms": ms / 5})).await,
            7 => self.plain().await,
            8 | 9 => self.look().await,
            10 => self.cancel().await,
            _ => self.answer().await,
        }
    }

    async fn ask(&self, method: &str, params: Value) -> Option<Value> {
        match &self.line {
            Line::Within(session) => session.try_request(session.next_id(), method, params).await,
            Line::Alone(client) => {
                let Reply { message, .. } = client.try_reply(&client.request(method, params)).await?;
                Some(message)
            }
        }
    }

    async fn create(&mut self, tool: &str, arguments: Value) -> Option<()> {
        let mut params = json!({"name": tool, "arguments": arguments});
        let within = matches!(self.line, Line::Within(_));
        if within {
            params["task"] = json!({});
        }
        let answer = self.ask("tools/call", params).await?;
        let result = &answer["result"];
        let id = if within { &result["task"]["taskId"] } else { &result["taskId"] };
        match id.as_str() {
            Some(id) => {
                self.stage.count(if within { "a session made a task" } else { "a call became a task" });
                self.stage.book(self.person, |book| book.created(id));
            }
            // The call ended before it became a task, or there are too many tasks.
            None if !within || answer["error"]["code"] == -32603 => self.stage.count("a call became none"),
            None => panic!("{tool}: {answer}"),
        }
        Some(())
    }

    async fn plain(&mut self) -> Option<()> {
        let text = format!("number {}", self.dice.below(1000));
        let call = json!({"name": "echo", "arguments": {"text": text}});
        let answer = self.ask("tools/call", call).await?;
        if answer["error"]["code"] != -32603 {
            assert_eq!(answer["result"]["content"][0]["text"], text, "{answer}");
        }
        Some(())
    }

    /// One task of the principal, created by any of its clients; every other time one of the latest, which
    /// may still be live.
    fn any(&mut self) -> Option<String> {
        let n = self.dice.below(1 << 32);
        let last = self.dice.pick(&[8, usize::MAX]);
        self.stage.book(self.person, |book| book.nth(n, last))
    }

    async fn look(&mut self) -> Option<()> {
        let Some(id) = self.any() else { return Some(()) };
        let answer = self.ask("tasks/get", json!({"taskId": id})).await?;
        let task = &answer["result"];
        assert_eq!(task["taskId"], id, "a task whose handle was given is found: {answer}");
        self.stage.book(self.person, |book| match &self.line {
            Line::Within(_) => book.saw_within(task),
            Line::Alone(_) => {
                let mut task = task.clone();
                // The server info in `_meta` may change with the host; the task may not.
                task.as_object_mut().expect("an object").remove("_meta");
                book.saw_alone(&task);
            }
        });
        Some(())
    }

    async fn cancel(&mut self) -> Option<()> {
        let Some(id) = self.any() else { return Some(()) };
        let answer = self.ask("tasks/cancel", json!({"taskId": id})).await?;
        match &self.line {
            Line::Within(_) if answer["error"]["code"] == -32602 => {}
            Line::Within(_) => {
                assert_eq!(answer["result"]["status"], "cancelled", "{answer}");
                self.stage.book(self.person, |book| book.saw_within(&answer["result"]));
                self.stage.count("a session cancelled");
            }
            Line::Alone(_) => {
                assert_eq!(answer["result"]["resultType"], "complete", "26T-20: {answer}");
                self.stage.count("a request alone cancelled");
            }
        }
        Some(())
    }

    /// Answers the question of a task, if there is one.
    async fn answer(&mut self) -> Option<()> {
        let Some(id) = self.any() else { return Some(()) };
        let answer = self.ask("tasks/get", json!({"taskId": id})).await?;
        if answer["result"]["status"] != "input_required" {
            return Some(());
        }
        match &self.line {
            Line::Within(session) => within(session, &id, &self.stage).await,
            Line::Alone(_) => {
                let asked = answer["result"]["inputRequests"].as_object().expect("requests");
                let answers: serde_json::Map<_, _> =
                    asked.keys().map(|key| (key.clone(), accepted())).collect();
                let params = json!({"taskId": id, "inputResponses": answers});
                let acknowledged = self.ask("tasks/update", params).await?;
                assert_eq!(acknowledged["result"]["resultType"], "complete", "{acknowledged}");
                self.stage.count("a request alone answered");
                Some(())
            }
        }
    }
}

/// Waits for the result of a task in a session, and answers the questions that come meanwhile.
async fn within(session: &Session, id: &str, stage: &Stage) -> Option<()> {
    let number = session.next_id();
    let message = json!({"jsonrpc": "2.0", "id": number, "method": "tasks/result", "params": {"taskId": id}});
    let port = session.port();
    let send = async |message: Value| {
        let mut connection = Connection::try_open(port).await?;
        connection.try_send(Method::POST, "/mcp", &session.headers(), message.to_string()).await
    };
    let answer = send(message).await?;
    if !answer.is_events() {
        return answer.try_json().await.map(drop);
    }
    let mut events = answer.events();
    loop {
        let message = crate::exchange::next(&mut events).await?;
        if message["method"] == "elicitation/create" {
            let response = json!({"jsonrpc": "2.0", "id": message["id"], "result": accepted()});
            send(response).await?;
            stage.count("a session answered");
        } else if message["id"] == number {
            return Some(());
        }
    }
}
