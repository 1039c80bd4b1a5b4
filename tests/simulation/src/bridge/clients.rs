//! Clients without task support: how they call, leave, and collect the outcomes of their calls.

use crate::bridge::effects::{ERROR, HAND_OFF, Key, RESULT};
use crate::bridge::promises::{Fault as Planted, KEEPER, LOCAL, Leaving, TOOLS, arguments, is_stateless};
use crate::clients::Reached;
use crate::trace::{Observed as _, demand};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use toolyard_dispatch::{
    CallReply, Caller, Fault, HandOff, Handover, NoClientChannel, Principal, RawJson, RpcError, SessionId,
    Stop, StopCause, TaskId, Terms,
};
use toolyard_kit::principal;
use toolyard_protocol::stateless::input::Retry;

/// The behaviour of a client in one call.
#[derive(Debug, Clone)]
pub struct Plan {
    pub key: Key,
    /// When and how it leaves.
    pub leaves: Option<(u64, Leaving)>,
    /// Whether the reply is lost.
    pub is_lost: bool,
    /// The time in milliseconds between the reply and its arrival.
    pub lag: u64,
    /// Whether a client without a session is a keeper.
    pub is_keeper: bool,
    /// The same call, made at once when the client leaves.
    pub again: Option<Box<Plan>>,
}

fn caller(client: usize, number: Option<usize>) -> Caller {
    let capabilities = match number {
        Some(number) => RawJson::of(&json!({"experimental": {"call": {"number": number}}})),
        None => RawJson::empty_object(),
    };
    let anonymous = || Arc::new(Principal::Anonymous);
    match client {
        LOCAL => Caller::local(capabilities),
        1 => Caller::new(principal("ann"), Some(SessionId("ann's".into())), capabilities),
        2 => Caller::new(anonymous(), Some(SessionId("s".into())), capabilities),
        3 => Caller::stateless(principal("cat"), None, capabilities),
        _ => Caller::stateless(anonymous(), None, capabilities),
    }
}

impl Reached {
    fn bridge_terms(&self, client: usize, is_keeper: bool) -> Terms {
        let bridge = self.dispatch.settings().bridge.as_ref();
        let bridge = bridge.map(|bridge| bridge.terms(is_keeper.then_some(KEEPER)));
        match is_stateless(client) {
            true => Terms::Stateless { tasks: false, bridge, retry: Retry::default() },
            false => Terms::Sessions { has_tasks: true, bridge },
        }
    }

    /// Calls a tool, and follows the plan.
    pub async fn follow(self, plan: Plan) {
        let Plan { key, leaves, is_lost, lag, is_keeper, again } = plan;
        let number = self.world.see().bridge.sends(key);
        let stop = Arc::new(Stop::default());
        if let Some((patience, leaving)) = leaves {
            let (this, stop) = (self.clone(), stop.clone());
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_millis(patience)).await;
                this.leave(number, leaving, &stop, again);
            });
        }
        let caller_now = caller(key.client, Some(number));
        let call = (TOOLS[key.tool].name, RawJson::trusted(arguments(key.arguments, number)), None);
        let terms = self.bridge_terms(key.client, is_keeper);
        let reply = self.send(&caller_now, call, terms, stop.clone(), Arc::new(NoClientChannel)).await;
        let reply = match reply {
            Err(Fault::Cancelled) if stop.is_set() => {
                self.world.see().bridge.unanswered(number);
                tokio::time::sleep(Duration::from_millis(500)).await;
                return self.world.see().bridge.look_at_stop(number);
            }
            reply => reply,
        };
        let arrival = self.judge(number, reply);
        if lag > 0 {
            tokio::time::sleep(Duration::from_millis(lag)).await;
        }
        let is_lost = is_lost || self.world.see().bridge.has_broken(number);
        self.deliver(key.client, arrival, is_lost, Some(number));
    }

    /// The client of a call leaves, and perhaps calls again at once.
    fn leave(self, number: usize, leaving: Leaving, stop: &Stop, again: Option<Box<Plan>>) {
        let Some(is_heard) = self.world.see().bridge.leaves(number, leaving) else { return };
        if is_heard && let Some(cause) = leaving.cause() {
            stop.set_because(cause);
            let is_presumed = stop.cause() == Some(StopCause::Presumed);
            self.world.see().bridge.hears(number, leaving, is_presumed);
        }
        if let Some(again) = again {
            // Boxed, because the future may contain another one of its type.
            let call: futures_util::future::BoxFuture<'static, ()> = Box::pin(self.follow(*again));
            tokio::spawn(call);
        }
    }

    /// Checks a reply to a call.
    fn judge(&self, number: usize, reply: Result<CallReply, Fault>) -> Arrival {
        let mut seen = self.world.see();
        match reply {
            Ok(CallReply::Result(_)) => {
                seen.bridge.replied(number, format_args!("ends with a plain result"));
                seen.count("plain results");
                Arrival { about: Some((number, RESULT)), learns: None, handover: None }
            }
            Ok(CallReply::Error(error)) => {
                seen.bridge.replied(number, format_args!("ends with the error {}", error.message));
                seen.count("errors");
                let origin = seen.bridge.origin_of_error(number, &error.message);
                Arrival { about: Some((origin, ERROR)), learns: None, handover: None }
            }
            Ok(CallReply::HandedOff(HandOff { outcome: Err(RpcError { message, .. }), handover })) => {
                let id = id_of(&handover);
                let origin = seen.bridge.origin(id);
                seen.bridge.replied(number, format_args!("has the error of call {origin}: {message}"));
                seen.count("errors");
                Arrival { about: Some((origin, ERROR)), learns: Some(id), handover: Some(handover) }
            }
            Ok(CallReply::HandedOff(HandOff { outcome: Ok(result), handover })) => {
                let (id, result) = (id_of(&handover), result.decode::<Value>().expect("JSON"));
                let origin = seen.bridge.origin(id);
                let is_hand_off = result["_meta"]["io.toolyard/task"].is_object();
                let joins = if origin == number { "" } else { ", which it joined" };
                let what = if is_hand_off { "is handed off as" } else { "has the outcome of" };
                seen.bridge.replied(number, format_args!("{what} the task of call {origin}{joins}"));
                seen.count(if is_hand_off { "hand-offs" } else { "outcomes of tasks" });
                if origin != number {
                    seen.count("calls that joined a task");
                }
                if is_hand_off {
                    demand!(seen, result["isError"] == false, "a hand-off is an error: {result}");
                } else {
                    seen.bridge.compare(id, &result, 0);
                    seen.bridge.look_at_joined(number, origin);
                }
                let excuse = if is_hand_off { HAND_OFF } else { RESULT };
                Arrival { about: Some((origin, excuse)), learns: Some(id), handover: Some(handover) }
            }
            Ok(other) => {
                demand!(seen, false, "call {number} is answered by {other:?}");
                Arrival { about: None, learns: None, handover: None }
            }
            Err(fault) => {
                seen.bridge.replied(number, format_args!("is refused: {fault}"));
                let is_index_lost = seen.bridge.promises.fault == Planted::IndexLost;
                let about = match &fault {
                    Fault::Busy { .. } => {
                        seen.count("refused as busy");
                        None
                    }
                    Fault::Closing => {
                        seen.count("refused by a host that ends");
                        seen.bridge.calls[number].is_refused = true;
                        Some((number, ERROR))
                    }
                    Fault::Store(_) if is_index_lost => Some((number, ERROR)),
                    other => {
                        demand!(seen, false, "call {number} is refused: {other}");
                        None
                    }
                };
                Arrival { about, learns: None, handover: None }
            }
        }
    }

    /// A reply reaches the socket, or does not.
    fn deliver(&self, client: usize, arrival: Arrival, is_lost: bool, number: Option<usize>) {
        let Arrival { about, learns, handover } = arrival;
        let mut seen = self.world.see();
        if let Some(number) = number {
            seen.bridge.arrives(number, !is_lost);
        }
        if !is_lost {
            if let Some((origin, excuse)) = about {
                seen.bridge.told(origin, excuse);
            }
            seen.bridge.known.entry(client).or_default().extend(learns);
        }
        let fault = seen.bridge.promises.fault;
        drop(seen);
        match handover {
            Some(handover) if !is_lost || fault == Planted::LostIsWritten => handover.mark_delivered(),
            handover => drop(handover),
        }
    }

    /// Calls a host tool, not a tool of a plugin; `None` if the host refuses the call.
    async fn host_tool(&self, client: usize, name: &str, arguments: &Value) -> Option<CallReply> {
        let (call, terms) = ((name, RawJson::of(arguments), None), self.bridge_terms(client, false));
        let channel = Arc::new(NoClientChannel);
        let reply = self.send(&caller(client, None), call, terms, Arc::default(), channel).await;
        match reply {
            Ok(reply) => Some(reply),
            Err(fault) => {
                let mut seen = self.world.see();
                seen.note(format_args!("client {client}: {name} is refused: {fault}"));
                let is_known = matches!(fault, Fault::Closing)
                    || (matches!(fault, Fault::Store(_)) && seen.bridge.promises.fault == Planted::IndexLost);
                demand!(seen, is_known, "{name} is refused: {fault}");
                None
            }
        }
    }

    /// Waits for the task with this id. Without an id, the host selects the task.
    pub async fn use_task_wait(self, client: usize, id: Option<TaskId>, seconds: u64, is_lost: bool) {
        let arguments = match id {
            Some(id) => json!({"task_id": id.to_string(), "seconds": seconds}),
            None => json!({"seconds": seconds}),
        };
        self.world.see().bridge.waits(client, true);
        let reply = self.host_tool(client, "task_wait", &arguments).await;
        let mut seen = self.world.see();
        seen.bridge.waits(client, false);
        let Some(reply) = reply else { return };
        seen.count(if id.is_some() { "waits by id" } else { "waits without an id" });
        match reply {
            CallReply::HandedOff(HandOff { outcome: Ok(result), handover }) => {
                let (id, result) = (id_of(&handover), result.decode::<Value>().expect("JSON"));
                let origin = seen.bridge.origin(id);
                seen.note(format_args!("client {client} collects call {origin}'s outcome, lost: {is_lost}"));
                seen.count("outcomes collected");
                seen.bridge.compare(id, &result, 1);
                drop(seen);
                let about = Some((origin, RESULT));
                let arrival = Arrival { about, learns: Some(id), handover: Some(handover) };
                self.deliver(client, arrival, is_lost, None);
            }
            CallReply::UnknownTask(text) => {
                demand!(seen, false, "client {client} does not find {id:?}: {}", text.as_str());
            }
            CallReply::Result(text) => {
                seen.note(format_args!("client {client} waits for {id:?}: {}", text.as_str()));
            }
            other => demand!(seen, false, "task_wait gives {other:?}"),
        }
    }

    /// Cancels a task.
    pub async fn use_task_cancel(self, client: usize, id: TaskId) {
        self.world.see().bridge.cancels.insert(id);
        let arguments = json!({"task_id": id.to_string()});
        let Some(reply) = self.host_tool(client, "task_cancel", &arguments).await else { return };
        let mut seen = self.world.see();
        seen.count("task_cancel");
        let is_found = matches!(reply, CallReply::Result(_));
        demand!(seen, is_found, "client {client} cannot cancel {id}: {reply:?}");
    }

    /// Lists the tasks of a client, which then knows their ids. The list must contain the tasks in `among`.
    pub async fn use_task_list(self, client: usize, among: Vec<TaskId>) {
        let Some(reply) = self.host_tool(client, "task_list", &json!({"status": "all"})).await else {
            return;
        };
        let mut seen = self.world.see();
        seen.count("task_list");
        let CallReply::Result(text) = reply else {
            return demand!(seen, false, "task_list gives {reply:?}");
        };
        let words = text.as_str().split(|letter: char| !letter.is_ascii_hexdigit() && letter != '-');
        let listed: Vec<TaskId> = words.filter(|word| word.len() == 36).filter_map(TaskId::parse).collect();
        for id in among {
            demand!(seen, listed.contains(&id), "client {client} does not find {id} in its list");
        }
        seen.bridge.known.entry(client).or_default().extend(listed);
    }
}

/// A reply on its way.
struct Arrival {
    /// The call that the reply is about, and the excuse for repeats of that call once the reply arrives.
    about: Option<(usize, &'static str)>,
    learns: Option<TaskId>,
    handover: Option<Handover>,
}

/// The id of the task, from the debug output: a handover shows the id nowhere else.
fn id_of(handover: &Handover) -> TaskId {
    let text = format!("{handover:?}");
    let words = text.split(|letter: char| !letter.is_ascii_hexdigit() && letter != '-');
    words.filter(|word| word.len() == 36).find_map(TaskId::parse).expect("the id of its task")
}
