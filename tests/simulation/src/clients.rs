//! The actions of clients, and the promises about the replies that they get.

use crate::time::StoreClock;
use crate::trace::{Observed as _, demand};
use crate::world::{Delivered, Seen, World, short};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use toolyard_dispatch::search::{Direction, Filter, Page};
use toolyard_dispatch::{
    CallParams, CallReply, Caller, ClientChannel, ClientLookup, ClientPresence, ClientRoute, Dispatch, Fault,
    Notice, RateKey, RawJson, RequestedTtl, RouteScope, SessionId, Stop, TaskId, Terms, ToolCall,
};
use toolyard_kit::principal;
use toolyard_protocol::stateless::input::Retry;
use toolyard_task::wire::TaskStatus;

/// The number of clients: the local user, two others with connections, and one without sessions.
pub const CLIENTS: usize = 4;

/// The stateless client.
pub const STATELESS: usize = 3;

/// The principal of a client.
pub fn caller(client: usize) -> Caller {
    let capabilities = RawJson::trusted(r#"{"elicitation":{}}"#);
    match client {
        0 => Caller::local(capabilities),
        1 => Caller::new(principal("ann"), None, capabilities),
        2 => Caller::new(principal("bob"), None, capabilities),
        _ => Caller::stateless(principal("cat"), None, capabilities),
    }
}

/// A task that its client knows.
#[derive(Debug, Clone)]
pub struct Known {
    /// The id of the task.
    pub id: TaskId,
    /// The client that owns it.
    pub client: usize,
}

/// A call that its client has to repeat with answers.
#[derive(Debug, Clone)]
pub struct Unfinished {
    /// The tool.
    pub tool: &'static str,
    /// The arguments.
    pub arguments: String,
    /// The state to send back.
    pub state: String,
    /// The keys of the questions.
    pub keys: Vec<String>,
}

/// A call of a client.
pub struct Wanted {
    /// The client.
    pub client: usize,
    /// The tool.
    pub tool: &'static str,
    /// The arguments.
    pub arguments: String,
    /// The ttl in milliseconds if the client asks for a task.
    pub ttl: Option<u64>,
    /// The state and answers from an earlier round trip.
    pub retry: Retry,
    /// Whether the client disconnects before the reply.
    pub leaves: bool,
    /// Whether the client cancels the call at once.
    pub gives_up: bool,
}

/// One host, as a client uses it.
#[derive(Clone)]
pub struct Reached {
    /// The number of the host.
    pub host: usize,
    /// The application.
    pub dispatch: Arc<Dispatch>,
    /// The observed world.
    pub world: World,
    /// The clock of the store.
    pub store_clock: Arc<StoreClock>,
}

impl Reached {
    /// Sends a call, and waits for the reply.
    pub(crate) async fn send(
        &self,
        caller: &Caller,
        (tool, arguments, ttl): (&str, RawJson, Option<u64>),
        terms: Terms,
        stop: Arc<Stop>,
        channel: Arc<dyn ClientChannel>,
    ) -> Result<CallReply, Fault> {
        let task = ttl.map(|ttl| Ok(RequestedTtl::Milliseconds(ttl)));
        let params = CallParams { name: tool.to_owned(), arguments, task, progress_token: None, trace: None };
        let task_channel = channel.clone();
        let call = ToolCall { params, terms, stop, channel, task_channel, rate_key: RateKey::Local };
        self.dispatch.call(caller, call).await
    }

    /// Calls a tool.
    pub async fn call(self, wanted: Wanted) {
        let Wanted { client, tool, arguments, ttl, retry, leaves, gives_up } = wanted;
        let channel: Arc<dyn ClientChannel> =
            Arc::new(Post { world: self.world.clone(), host: self.host, client });
        let stop = Arc::new(Stop::default());
        if gives_up {
            stop.set();
        }
        let terms = match client {
            STATELESS => Terms::Stateless { tasks: true, bridge: None, retry },
            _ => Terms::Sessions { has_tasks: true, bridge: None },
        };
        let call = (tool, RawJson::trusted(arguments.clone()), ttl);
        let reply = self.send(&caller(client), call, terms, stop, channel).await;
        let mut created = None;
        {
            let mut seen = self.world.see();
            match reply {
                Ok(CallReply::Created(new)) => {
                    let id = TaskId::parse(&new.view.id).expect("our own spelling");
                    seen.note(format_args!("client {client} learns of {}", short(id)));
                    let stored = seen.ledger.entries.contains_key(&id);
                    demand!(seen, stored, "{}: told of before it is stored", short(id));
                    if !leaves || new.handover.is_none() {
                        seen.count("acknowledged creations");
                        seen.known.push(Known { id, client });
                    }
                    if client == STATELESS && tool != "count" && tool != "order" {
                        seen.count("promotions");
                    }
                    created = Some(new);
                }
                Ok(CallReply::Result(_) | CallReply::Error(_)) => {
                    seen.note(format_args!("client {client} has its result"));
                }
                Ok(CallReply::HandedOff(_) | CallReply::TaskAsks(_) | CallReply::UnknownTask(_)) => {
                    panic!("these clients know tasks")
                }
                Ok(CallReply::InputRequired(asked)) => {
                    seen.note(format_args!("client {client} is asked in a round"));
                    seen.count("rounds");
                    let keys = asked.questions.into_iter().map(|(key, _)| key).collect();
                    let unfinished = Unfinished { tool, arguments, state: asked.state, keys };
                    seen.unfinished.push(unfinished);
                }
                Err(fault) => refused(&mut seen, client, &fault),
            }
        }
        if let Some(handover) = created.and_then(|created| created.handover)
            && !leaves
        {
            // Otherwise the task is cancelled, since no client knows it.
            handover.mark_delivered();
        }
    }

    /// Gets the status of a task; a stateless client sees its questions in it.
    pub async fn get(self, known: Known) {
        let floor = self.world.see().floor(known.id);
        let (caller, id) = (caller(known.client), known.id.to_string());
        let reply = async { self.dispatch.tasks().await?.task(&caller, &id).await }.await;
        let time = self.store_clock.stamp();
        let mut seen = self.world.see();
        match reply {
            Ok(task) => {
                let (client, version) = (known.client, task.version);
                seen.note(format_args!("client {client} reads version {version} of {}", short(known.id)));
                seen.told(&task, floor);
                if known.client == STATELESS {
                    let keys: Vec<String> =
                        task.open_questions().map(|question| question.wire_key().into_owned()).collect();
                    if !keys.is_empty() {
                        seen.open.push((known.id, keys));
                    }
                }
            }
            Err(Fault::UnknownTask) => seen.told_unknown(known.id, time),
            Err(fault) => refused(&mut seen, known.client, &fault),
        }
    }

    /// Waits for the result of a task.
    pub async fn result(self, known: Known) {
        let channel = Arc::new(Post { world: self.world.clone(), host: self.host, client: known.client });
        let (caller, id) = (caller(known.client), known.id.to_string());
        let reply = async { self.dispatch.tasks().await?.task_result(&caller, &id, channel).await }.await;
        let time = self.store_clock.stamp();
        let mut seen = self.world.see();
        match reply {
            Ok(result) => {
                seen.note(format_args!("client {} has the result of {}", known.client, short(known.id)));
                let over = seen.ledger.entries.get(&known.id).is_some_and(|entry| !entry.task.is_live());
                demand!(seen, over, "{}: a result before its end", short(known.id));
                let text = format!("{result:?}");
                let former = seen.results.entry(known.id).or_insert_with(|| text.clone()).clone();
                demand!(seen, former == text, "{}: {former}, and then {text}", short(known.id));
            }
            Err(Fault::UnknownTask) => seen.told_unknown(known.id, time),
            Err(fault) => refused(&mut seen, known.client, &fault),
        }
    }

    /// Cancels a task.
    pub async fn cancel(self, known: Known) {
        let floor = self.world.see().floor(known.id);
        let (caller, id) = (caller(known.client), known.id.to_string());
        let reply = async { self.dispatch.tasks().await?.cancel_task(&caller, &id).await }.await;
        let time = self.store_clock.stamp();
        let mut seen = self.world.see();
        let id = short(known.id);
        match reply {
            Ok(task) => {
                seen.count("acknowledged cancels");
                seen.note(format_args!("client {} learns that {id} is cancelled", known.client));
                demand!(seen, task.status() == TaskStatus::Cancelled, "{id}: cancelled, and is not");
                // The cancellation is written by now, and an ended task never changes.
                seen.told(&task, floor);
            }
            Err(Fault::AlreadyOver(status)) => {
                let task = seen.ledger.entries.get(&known.id).map(|entry| &entry.task);
                let true_now = task.is_some_and(|task| task.status() == status && !task.is_live());
                demand!(seen, true_now, "{id}: is said to be over, and is not");
            }
            Err(Fault::UnknownTask) => seen.told_unknown(known.id, time),
            Err(fault) => refused(&mut seen, known.client, &fault),
        }
    }

    /// Lists the client's tasks.
    pub async fn list(self, client: usize) {
        let me = caller(client);
        let (all, oldest) = (Filter::default(), Direction::Ascending);
        let reply =
            async { self.dispatch.tasks().await?.find_tasks(&me, all, oldest, None, 100).await }.await;
        let mut seen = self.world.see();
        match reply {
            Ok(Page { tasks, .. }) => {
                seen.count("listings");
                seen.note(format_args!("client {client} lists {} tasks", tasks.len()));
                for summary in tasks {
                    let mine = Some(&summary.owner) == me.owner.as_ref();
                    let stored = seen.ledger.entries.contains_key(&summary.id);
                    demand!(seen, mine && stored, "{}: listed, and not its own", short(summary.id));
                }
            }
            Err(fault) => refused(&mut seen, client, &fault),
        }
    }

    /// Answers a question that arrived in a request.
    pub async fn answer(self, question: Delivered, number: u64) {
        let response = Ok(answer(number));
        let reply = self.dispatch.take_response(&caller(question.client), &question.request, response).await;
        let mut seen = self.world.see();
        match reply {
            Ok(()) => {
                seen.count("answers");
                seen.note(format_args!("client {} has answered with {number}", question.client));
            }
            Err(fault) => refused(&mut seen, question.client, &fault),
        }
    }

    /// Answers questions by key.
    pub async fn update(self, id: TaskId, keys: Vec<String>, number: u64) {
        let answers: HashMap<String, RawJson> = keys.into_iter().map(|key| (key, answer(number))).collect();
        let (caller, task) = (caller(STATELESS), id.to_string());
        let reply = async { self.dispatch.tasks().await?.update_task(&caller, &task, answers).await }.await;
        let time = self.store_clock.stamp();
        let mut seen = self.world.see();
        match reply {
            Ok(()) => {
                seen.count("answers");
                seen.note(format_args!("{} is answered with {number}", short(id)));
            }
            Err(Fault::UnknownTask) => seen.told_unknown(id, time),
            Err(fault) => refused(&mut seen, STATELESS, &fault),
        }
    }
}

/// An answer that differs from all others.
pub fn answer(number: u64) -> RawJson {
    RawJson::trusted(format!(r#"{{"action":"accept","content":{{"number":"{number}"}}}}"#))
}

/// The owner of a task.
fn owner_of(seen: &Seen, task: TaskId) -> Option<usize> {
    let owner = &seen.ledger.entries.get(&task)?.task.owner;
    (0..CLIENTS).find(|client| caller(*client).owner.as_ref() == Some(owner))
}

fn refused(seen: &mut Seen, client: usize, fault: &Fault) {
    seen.note(format_args!("client {client} is refused: {fault}"));
    match fault {
        Fault::Store(_) => {
            seen.count("errors told to clients");
            let calm = seen.calm;
            demand!(seen, !calm, "an error of the store, which does not fail");
        }
        // The faults of the second line: the host lacks the tool, the round trip came too late, or its state
        // was already used.
        Fault::Busy { .. } | Fault::Closing | Fault::Cancelled => {}
        Fault::UnknownTool(_) | Fault::RequestState(_) | Fault::Answered(_) => {}
        other => seen.broke(format_args!("client {client} gets: {other}")),
    }
}

/// The channel to a client with a connection.
struct Post {
    world: World,
    host: usize,
    /// The client, used if the request does not name its task.
    client: usize,
}

/// The channel to the clients of tasks that this host took over.
pub struct Anywhere {
    /// The observed world.
    pub world: World,
    /// The host.
    pub host: usize,
}

impl ClientLookup for Anywhere {
    fn channel(&self, _: Option<&SessionId>) -> Arc<dyn ClientChannel> {
        Arc::new(Post { world: self.world.clone(), host: self.host, client: STATELESS })
    }
}

impl ClientChannel for Post {
    fn notify(&self, _: Option<TaskId>, _: Notice) {}

    fn route(&self, task: Option<TaskId>, _: RouteScope) -> Option<Arc<dyn ClientRoute>> {
        let client = task.and_then(|task| owner_of(&self.world.see(), task)).unwrap_or(self.client);
        // A client without a connection gets its questions only in replies.
        let post = Self { world: self.world.clone(), host: self.host, client };
        (client != STATELESS).then(|| Arc::new(post) as Arc<dyn ClientRoute>)
    }

    fn release(&self, _: Duration) {}
}

impl ClientRoute for Post {
    fn request(&self, id: &str, _: &str, _: &RawJson) -> bool {
        let mut seen = self.world.see();
        seen.note(format_args!("client {} is asked by host {}", self.client, self.host));
        seen.asked.push(Delivered { host: self.host, client: self.client, request: id.to_owned() });
        true
    }

    fn withdraw(&self, _: &str, _: &str, _: Option<TaskId>) {}

    fn presence(&self) -> ClientPresence {
        ClientPresence::There
    }
}
