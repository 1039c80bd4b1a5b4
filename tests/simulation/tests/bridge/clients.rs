//! Clients without task support: how they call, leave, and collect the outcomes of their calls.

use crate::effects::{ERROR, HAND_OFF, Key, RESULT, World};
use crate::stage::{Fault as Planted, KEEPER, TOOLS, arguments};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use toolyard_dispatch::{
    CallParams, CallReply, Caller, Dispatch, Fault, HandOff, Handover, NoClientChannel, Principal, RateKey,
    RawJson, SessionId, Stop, StopCause, TaskId, Terms, ToolCall,
};
use toolyard_kit::principal;
use toolyard_protocol::stateless::input::Retry;
use toolyard_simulation::trace::Observed as _;

/// With sessions: the local user, a subject, an anonymous client. Without: a subject, an anonymous client.
pub const CLIENTS: usize = 5;
/// The local user.
pub const LOCAL: usize = 0;

/// Whether the tasks of this client belong to anyone.
pub fn is_anyone(client: usize) -> bool {
    client == 2 || client == 4
}

/// Whether this client has no session.
pub fn is_stateless(client: usize) -> bool {
    client >= 3
}

/// How a client leaves its call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leaving {
    /// It cancels, and gives a timeout as the reason.
    Timeout,
    /// It cancels, and gives no reason.
    Unsaid,
    /// It cancels because a person wants that.
    Person,
    /// The connection of a request without a session ends.
    Disconnect,
    /// The pipe of a client closes, and the host continues without it.
    Detach,
    /// The connection of a request in a session ends, which the host ignores.
    Broken,
    /// It stops waiting, and sends nothing.
    Silence,
}

impl Leaving {
    pub const ALL: [Self; 7] = [
        Self::Timeout,
        Self::Unsaid,
        Self::Person,
        Self::Disconnect,
        Self::Detach,
        Self::Broken,
        Self::Silence,
    ];

    /// Whether this client can leave in this way.
    pub fn fits(self, client: usize) -> bool {
        match self {
            Self::Disconnect => is_stateless(client),
            Self::Detach => client == LOCAL,
            Self::Broken => client == 1 || client == 2,
            // The only cancellation of a request without a session is the end of its connection.
            Self::Timeout | Self::Unsaid | Self::Person => !is_stateless(client),
            Self::Silence => true,
        }
    }

    /// The cause that the host gets.
    pub fn cause(self) -> Option<StopCause> {
        match self {
            Self::Timeout => Some(StopCause::Timeout),
            Self::Unsaid => Some(StopCause::Unsaid),
            Self::Person => Some(StopCause::Wanted),
            Self::Disconnect => Some(StopCause::Disconnected),
            Self::Detach => Some(StopCause::Detached),
            Self::Broken | Self::Silence => None,
        }
    }

    pub const fn name(self) -> &'static str {
        match self {
            Self::Timeout => "timeouts",
            Self::Unsaid => "cancellations without a reason",
            Self::Person => "stops by a person",
            Self::Disconnect => "disconnects without a session",
            Self::Detach => "detached pipes",
            Self::Broken => "disconnects in a session",
            Self::Silence => "clients that gave up without a word",
        }
    }

    /// Whether it stops a call as the end of a connection does.
    pub fn is_cut(self) -> bool {
        matches!(self, Self::Disconnect | Self::Detach)
    }

    /// Whether no reply arrives after it.
    pub fn breaks(self) -> bool {
        matches!(self, Self::Disconnect | Self::Detach | Self::Broken)
    }
}

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

/// The host, as a client reaches it.
#[derive(Clone)]
pub struct Reached {
    pub dispatch: Arc<Dispatch>,
    pub world: World,
    pub fault: Planted,
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
    fn terms(&self, client: usize, is_keeper: bool) -> Terms {
        let bridge = self.dispatch.settings().bridge.as_ref();
        if is_stateless(client) {
            let bridge = bridge.map(|bridge| bridge.terms(is_keeper.then_some(KEEPER)));
            return Terms::Stateless { tasks: false, bridge, retry: Retry::default() };
        }
        let bridge = bridge.map(|bridge| bridge.terms(None));
        Terms::Sessions { has_tasks: true, bridge }
    }

    async fn send(
        &self,
        caller: &Caller,
        (name, arguments): (&str, RawJson),
        terms: Terms,
        stop: &Arc<Stop>,
    ) -> Result<CallReply, Fault> {
        let params =
            CallParams { name: name.to_owned(), arguments, task: None, progress_token: None, trace: None };
        let channel = Arc::new(NoClientChannel);
        let call = ToolCall {
            params,
            terms,
            stop: stop.clone(),
            channel: channel.clone(),
            task_channel: channel,
            rate_key: RateKey::Local,
        };
        self.dispatch.call(caller, call).await
    }

    /// Calls a tool, and follows the plan.
    pub async fn call(self, plan: Plan) {
        let Plan { key, leaves, is_lost, lag, is_keeper, again } = plan;
        let number = self.world.see().sends(key);
        let stop = Arc::new(Stop::default());
        if let Some((patience, leaving)) = leaves {
            let (this, stop) = (self.clone(), stop.clone());
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_millis(patience)).await;
                this.leave(number, leaving, &stop, again);
            });
        }
        let caller_now = caller(key.client, Some(number));
        let call = (TOOLS[key.tool].name, RawJson::trusted(arguments(key.arguments, number)));
        let reply = self.send(&caller_now, call, self.terms(key.client, is_keeper), &stop).await;
        let reply = match reply {
            Err(Fault::Cancelled) if stop.is_set() => {
                self.world.see().unanswered(number);
                tokio::time::sleep(Duration::from_millis(500)).await;
                return self.world.see().look_at_stop(number);
            }
            reply => reply,
        };
        let arrival = self.judge(number, reply);
        if lag > 0 {
            tokio::time::sleep(Duration::from_millis(lag)).await;
        }
        let is_lost = is_lost || self.world.see().has_broken(number);
        self.deliver(key.client, arrival, is_lost, Some(number));
    }

    /// The client of a call leaves, and perhaps calls again at once.
    fn leave(self, number: usize, leaving: Leaving, stop: &Stop, again: Option<Box<Plan>>) {
        let Some(is_heard) = self.world.see().leaves(number, leaving) else { return };
        if is_heard && let Some(cause) = leaving.cause() {
            stop.set_because(cause);
            let is_presumed = stop.cause() == Some(StopCause::Presumed);
            self.world.see().hears(number, leaving, is_presumed);
        }
        if let Some(again) = again {
            // Boxed, because the future may contain another one of its type.
            let call: futures_util::future::BoxFuture<'static, ()> = Box::pin(self.call(*again));
            tokio::spawn(call);
        }
    }

    /// Checks a reply to a call.
    fn judge(&self, number: usize, reply: Result<CallReply, Fault>) -> Arrival {
        let mut seen = self.world.see();
        match reply {
            Ok(CallReply::Result(_)) => {
                seen.replied(number, format_args!("ends with a plain result"));
                seen.count("plain results");
                Arrival { about: Some((number, RESULT)), learns: None, handover: None }
            }
            Ok(CallReply::Error(error)) => {
                seen.replied(number, format_args!("ends with the error {}", error.message));
                seen.count("errors");
                let origin = seen.origin_of_error(number, &error.message);
                Arrival { about: Some((origin, ERROR)), learns: None, handover: None }
            }
            Ok(CallReply::HandedOff(HandOff { outcome: Err(error), handover })) => {
                let id = id_of(&handover);
                let origin = seen.origin(id);
                seen.replied(number, format_args!("has the error of call {origin}: {}", error.message));
                seen.count("errors");
                Arrival { about: Some((origin, ERROR)), learns: Some(id), handover: Some(handover) }
            }
            Ok(CallReply::HandedOff(HandOff { outcome: Ok(result), handover })) => {
                let (id, result) = (id_of(&handover), result.decode::<Value>().expect("JSON"));
                let origin = seen.origin(id);
                let is_hand_off = result["_meta"]["io.toolyard/task"].is_object();
                let joins = if origin == number { "" } else { ", which it joined" };
                let what = if is_hand_off { "is handed off as" } else { "has the outcome of" };
                seen.replied(number, format_args!("{what} the task of call {origin}{joins}"));
                seen.count(if is_hand_off { "hand-offs" } else { "outcomes of tasks" });
                if origin != number {
                    seen.count("calls that joined a task");
                }
                if is_hand_off {
                    seen.demand(result["isError"] == false, format_args!("a hand-off is an error: {result}"));
                } else {
                    seen.compare(id, &result, 0);
                    seen.look_at_joined(number, origin);
                }
                let excuse = if is_hand_off { HAND_OFF } else { RESULT };
                Arrival { about: Some((origin, excuse)), learns: Some(id), handover: Some(handover) }
            }
            Ok(other) => {
                seen.demand(false, format_args!("call {number} is answered by {other:?}"));
                Arrival { about: None, learns: None, handover: None }
            }
            Err(fault) => {
                seen.replied(number, format_args!("is refused: {fault}"));
                let about = match &fault {
                    Fault::Busy { .. } => {
                        seen.count("refused as busy");
                        None
                    }
                    Fault::Closing => {
                        seen.count("refused by a host that ends");
                        seen.calls[number].is_refused = true;
                        Some((number, ERROR))
                    }
                    Fault::Store(_) if self.fault == Planted::IndexLost => Some((number, ERROR)),
                    other => {
                        seen.demand(false, format_args!("call {number} is refused: {other}"));
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
            seen.arrives(number, !is_lost);
        }
        if !is_lost {
            if let Some((origin, excuse)) = about {
                seen.told(origin, excuse);
            }
            seen.known.entry(client).or_default().extend(learns);
        }
        drop(seen);
        match handover {
            Some(handover) if !is_lost || self.fault == Planted::LostIsWritten => handover.mark_delivered(),
            handover => drop(handover),
        }
    }

    /// Calls a host tool, not a tool of a plugin; `None` if the host refuses the call.
    async fn host_tool(&self, client: usize, name: &str, arguments: &Value) -> Option<CallReply> {
        let call = (name, RawJson::of(arguments));
        let reply = self.send(&caller(client, None), call, self.terms(client, false), &Arc::default()).await;
        match reply {
            Ok(reply) => Some(reply),
            Err(fault) => {
                let mut seen = self.world.see();
                seen.note(format_args!("client {client}: {name} is refused: {fault}"));
                let is_known = matches!(fault, Fault::Closing)
                    || (matches!(fault, Fault::Store(_)) && self.fault == Planted::IndexLost);
                seen.demand(is_known, format_args!("{name} is refused: {fault}"));
                None
            }
        }
    }

    /// Waits for the task with this id. Without an id, the host selects the task.
    pub async fn wait(self, client: usize, id: Option<TaskId>, seconds: u64, is_lost: bool) {
        let arguments = match id {
            Some(id) => json!({"task_id": id.to_string(), "seconds": seconds}),
            None => json!({"seconds": seconds}),
        };
        self.world.see().waits(client, true);
        let reply = self.host_tool(client, "task_wait", &arguments).await;
        let mut seen = self.world.see();
        seen.waits(client, false);
        let Some(reply) = reply else { return };
        seen.count(if id.is_some() { "waits by id" } else { "waits without an id" });
        match reply {
            CallReply::HandedOff(HandOff { outcome: Ok(result), handover }) => {
                let (id, result) = (id_of(&handover), result.decode::<Value>().expect("JSON"));
                let origin = seen.origin(id);
                seen.note(format_args!(
                    "client {client} collects the outcome of call {origin}, lost: {is_lost}"
                ));
                seen.count("outcomes collected");
                seen.compare(id, &result, 1);
                drop(seen);
                let about = Some((origin, RESULT));
                self.deliver(
                    client,
                    Arrival { about, learns: Some(id), handover: Some(handover) },
                    is_lost,
                    None,
                );
            }
            CallReply::UnknownTask(text) => {
                seen.demand(false, format_args!("client {client} does not find {id:?}: {}", text.as_str()));
            }
            CallReply::Result(text) => {
                seen.note(format_args!("client {client} waits for {id:?}: {}", text.as_str()));
            }
            other => seen.demand(false, format_args!("task_wait gives {other:?}")),
        }
    }

    /// Cancels a task.
    pub async fn cancel(self, client: usize, id: TaskId) {
        self.world.see().cancels.insert(id);
        let arguments = json!({"task_id": id.to_string()});
        let Some(reply) = self.host_tool(client, "task_cancel", &arguments).await else { return };
        let mut seen = self.world.see();
        seen.count("task_cancel");
        let is_found = matches!(reply, CallReply::Result(_));
        seen.demand(is_found, format_args!("client {client} cannot cancel {id}: {reply:?}"));
    }

    /// Lists the tasks of a client, which then knows their ids. The list must contain the tasks in `among`.
    pub async fn list(self, client: usize, among: Vec<TaskId>) {
        let Some(reply) = self.host_tool(client, "task_list", &json!({"status": "all"})).await else {
            return;
        };
        let mut seen = self.world.see();
        seen.count("task_list");
        let CallReply::Result(text) = reply else {
            return seen.demand(false, format_args!("task_list gives {reply:?}"));
        };
        let words = text.as_str().split(|letter: char| !letter.is_ascii_hexdigit() && letter != '-');
        let listed: Vec<TaskId> = words.filter(|word| word.len() == 36).filter_map(TaskId::parse).collect();
        for id in among {
            seen.demand(listed.contains(&id), format_args!("client {client} does not find {id} in its list"));
        }
        seen.known.entry(client).or_default().extend(listed);
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
