//! A host whose store meets one fault, and a client that repeats its request until it gets an
//! answer.

use crate::kit::prelude::*;
use crate::kit::swept::{Kind, Swept, swept};
use futures_util::future::join_all;
use std::time::Instant;
use tokio_util::sync::DropGuard;
use toolyard_dispatch::{ClientLookup, InputRequired, RequestedTtl, Stores};
use toolyard_task::TaskStore;
use toolyard_task::search::{Direction, Filter, Search};

/// How long a client waits for an answer before it goes away and comes back; only a
/// fault makes it wait so long.
const PATIENCE: Duration = Duration::from_millis(200);
/// How long anything may take at all.
const BOUND: Duration = Duration::from_secs(60);
/// More calls to the store than the life of any task needs.
const MOST: u32 = 300;
/// How many scenarios run at once: some wait for the host's periodic work.
const AT_ONCE: usize = 8;
/// A sweep that met fewer faults has tested nothing.
const LEAST: usize = 5;

/// Meets a fault at each call in turn. Returns the operations that met it.
pub async fn sweep(
    name: &'static str,
    kind: Kind,
    tools: fn() -> Vec<Arc<dyn Tool>>,
    scenario: fn(Arc<Stage>) -> BoxFuture<'static, ()>,
) -> Vec<&'static str> {
    let mut met = Vec::new();
    for first in (1..=MOST).step_by(AT_ONCE) {
        let calls = first..first + AT_ONCE as u32;
        let played = join_all(calls.map(|at| play(name, kind, at, tools, scenario))).await;
        let end = played.iter().any(Option::is_none);
        met.extend(played.into_iter().map_while(|met| met));
        if end {
            assert!(met.len() >= LEAST, "{name}: {kind:?} met {met:?} alone");
            return met;
        }
    }
    panic!("{name}: more than {MOST} calls of the store");
}

/// Plays a scenario whose call number `at` meets a fault. Returns the operation that met it.
async fn play(
    name: &str,
    kind: Kind,
    at: u32,
    tools: fn() -> Vec<Arc<dyn Tool>>,
    scenario: fn(Arc<Stage>) -> BoxFuture<'static, ()>,
) -> Option<&'static str> {
    let stage = Stage::new(format!("{name}, {kind:?} at call {at}"), kind, at, tools);
    let played = tokio::time::timeout(BOUND, scenario(stage.clone())).await;
    assert!(played.is_ok(), "{}, which is {:?}: it takes too long", stage.name, stage.swept.intercept.met());
    stage.swept.intercept.recover();
    stage.until_all_is_over().await;
    stage.swept.intercept.met()
}

impl ClientLookup for Client {
    fn channel(&self, _: Option<&SessionId>) -> Arc<dyn ClientChannel> {
        Arc::new(self.clone())
    }
}

/// A host with its client.
pub struct Stage {
    pub name: String,
    pub swept: Arc<Swept>,
    store: Arc<MemoryStore>,
    /// The handle of the host that meets the fault.
    handle: Arc<MemoryStore>,
    clock: Arc<TickingClock>,
    /// The host that the client talks to.
    host: Mutex<Host>,
    tools: fn() -> Vec<Arc<dyn Tool>>,
    client: Client,
    me: Caller,
}

#[derive(Clone)]
struct Host {
    dispatch: Arc<Dispatch>,
    /// Its services go on until this is dropped.
    _stop: Arc<DropGuard>,
}

impl Stage {
    fn new(name: String, kind: Kind, at: u32, tools: fn() -> Vec<Arc<dyn Tool>>) -> Arc<Self> {
        let clock = TickingClock::at(1_000_000);
        let store = Arc::new(MemoryStore::new(clock.clone()));
        let handle = Arc::new(store.node());
        let swept = swept(handle.clone(), kind, at);
        let client = Client::default();
        let faulty =
            Stores { tasks: swept.clone(), nodes: swept.clone(), keys: swept.clone(), ..stores(&handle) };
        let host = Mutex::new(start(faulty, &clock, tools(), &client));
        Arc::new(Self { name, swept, store, handle, clock, host, tools, client, me: local_caller() })
    }

    fn dispatch(&self) -> Arc<Dispatch> {
        self.host.lock().expect("no panic").dispatch.clone()
    }

    /// A further host on the same store, whose calls meet no fault.
    fn other_host(&self) -> (Arc<MemoryStore>, Host) {
        let handle = Arc::new(self.store.node());
        let stores = stores(&handle);
        (handle, start(stores, &self.clock, (self.tools)(), &self.client))
    }

    /// The answer to the client; `None` if it had to go away, after which the fault is gone. It goes away
    /// some time after the fault, so that a slow machine does not send it away before.
    async fn patiently<T>(&self, asks: impl Future<Output = T>) -> Option<T> {
        let goes = async {
            while self.swept.intercept.met().is_none() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            tokio::time::sleep(PATIENCE).await;
        };
        tokio::select! {
            biased;
            told = asks => Some(told),
            () = goes => {
                self.swept.intercept.recover();
                None
            }
        }
    }

    /// Repeats a request until it is answered: only errors of the store may come before that.
    async fn until_told<T, F: Future<Output = Result<T, Fault>>>(
        &self,
        mut asks: impl FnMut() -> F,
    ) -> Result<T, Fault> {
        let start = Instant::now();
        loop {
            match self.patiently(asks()).await {
                None | Some(Err(Fault::Store(_))) => {
                    assert!(start.elapsed() < BOUND, "{}: never told", self.name);
                }
                Some(told) => return told,
            }
        }
    }

    /// Calls a tool as a task. `None` if the client got an error, or no answer.
    pub async fn create(&self, tool: &str) -> Option<String> {
        self.create_for(tool, 3_600_000).await
    }

    /// The same, for this many milliseconds.
    pub async fn create_for(&self, tool: &str, ttl: u64) -> Option<String> {
        let mut wanted = call(tool, true, Arc::new(self.client.clone()));
        wanted.params.task = Some(Ok(RequestedTtl::Milliseconds(ttl)));
        self.created(self.patiently(self.dispatch().call(&local_caller(), wanted)).await)
    }

    /// Calls a tool whose calls are tasks, without a connection.
    pub async fn create_statelessly(&self, tool: &str) -> Option<String> {
        self.created(self.call_statelessly(tool).await)
    }

    fn created(&self, reply: Option<Result<CallReply, Fault>>) -> Option<String> {
        match reply {
            Some(Ok(CallReply::Created(created))) => {
                if let Some(handover) = created.handover {
                    handover.mark_delivered();
                }
                Some(created.view.id)
            }
            Some(Err(Fault::Store(_))) | None => None,
            other => panic!("{}: {other:?}", self.name),
        }
    }

    /// Calls a tool without a connection.
    pub async fn call_statelessly(&self, tool: &str) -> Option<Result<CallReply, Fault>> {
        self.stateless(tool, Retry::default()).await
    }

    /// Repeats the call, with answers to all questions.
    pub async fn call_again(&self, tool: &str, asked: InputRequired) -> Option<Result<CallReply, Fault>> {
        let responses = asked.questions.into_iter().map(|(key, _)| (key, RawJson::trusted(YES))).collect();
        self.stateless(tool, Retry { responses, state: Some(asked.state) }).await
    }

    async fn stateless(&self, tool: &str, retry: Retry) -> Option<Result<CallReply, Fault>> {
        let terms = Terms::Stateless { tasks: true, bridge: None, retry };
        let call = call_on(terms, tool, Arc::new(self.client.clone()));
        self.patiently(self.dispatch().call(&local_caller(), call)).await
    }

    /// The task. It exists, because its creation was acknowledged.
    pub async fn task(&self, id: &str) -> Task {
        let dispatch = self.dispatch();
        let told = self.until_told(|| async { dispatch.tasks().await?.task(&self.me, id).await }).await;
        told.unwrap_or_else(|fault| panic!("{}: {fault}", self.name))
    }

    pub async fn status_in_the_end(&self, id: &str) -> TaskStatus {
        let start = Instant::now();
        loop {
            let task = self.task(id).await;
            if !task.is_live() {
                return task.status();
            }
            assert!(start.elapsed() < BOUND, "{}: it never ends", self.name);
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// The task has a result with this text.
    pub async fn has_result(&self, id: &str, text: &str) {
        self.status_in_the_end(id).await;
        let dispatch = self.dispatch();
        let told = self.until_told(|| async {
            let tasks = dispatch.tasks().await?;
            tasks.task_result(&self.me, id, Arc::new(self.client.clone())).await
        });
        let told = told.await;
        assert!(matches!(&told, Ok(Ok(result)) if result.as_str().contains(text)), "{}: {told:?}", self.name);
    }

    /// The same for a task of a stateless client, which has the result in the task.
    pub async fn has_outcome(&self, id: &str, text: &str) {
        self.status_in_the_end(id).await;
        let outcome = self.task(id).await.outcome;
        let Some(Outcome::Result { result, .. }) = &outcome else { panic!("{}: {outcome:?}", self.name) };
        assert!(result.as_str().contains(text), "{}: {outcome:?}", self.name);
    }

    /// A listing has the task, whatever the fault.
    pub async fn listed(&self, id: &str) {
        let dispatch = self.dispatch();
        let listed = self.until_told(|| async {
            let tasks = dispatch.tasks().await?;
            tasks.find_tasks(&self.me, Filter::default(), Direction::Ascending, None, 100).await
        });
        let listed = listed.await.expect("a listing").tasks;
        assert!(listed.iter().any(|summary| summary.id.to_string() == id), "{}: not listed", self.name);
    }

    /// Cancels a task: in the end the client learns that it is cancelled.
    pub async fn cancel(&self, id: &str) {
        let dispatch = self.dispatch();
        match self.until_told(|| async { dispatch.tasks().await?.cancel_task(&self.me, id).await }).await {
            Ok(task) => assert_eq!(task.status(), TaskStatus::Cancelled, "{}", self.name),
            // Cancelled by the client's own request, whose answer was lost.
            Err(Fault::AlreadyOver(status)) => assert_eq!(status, TaskStatus::Cancelled, "{}", self.name),
            Err(fault) => panic!("{}: {fault}", self.name),
        }
    }

    async fn live(&self) -> Vec<String> {
        let all = self.store.search(&Search::all(None, 100)).await.expect("this handle meets no fault");
        let live = |status| matches!(status, TaskStatus::Working | TaskStatus::InputRequired);
        let live = all.tasks.into_iter().filter(|summary| live(summary.status));
        live.map(|summary| summary.id.to_string()).collect()
    }

    /// Cancels whatever there is but this.
    pub async fn cancel_all_but(&self, but: &str) {
        for id in self.live().await.iter().filter(|id| *id != but) {
            let dispatch = self.dispatch();
            let told = self.until_told(|| async { dispatch.tasks().await?.cancel_task(&self.me, id).await });
            let told = told.await;
            assert!(matches!(told, Ok(_) | Err(Fault::AlreadyOver(_))), "{}: {told:?}", self.name);
        }
    }

    /// Cancels whatever there is, known or not.
    pub async fn cancel_all(&self) {
        self.cancel_all_but("").await;
    }

    /// Answers whatever the client is asked, from now on.
    pub async fn answer_when_asked(self: &Arc<Self>) {
        let stage = self.clone();
        tokio::spawn(async move {
            let mut answered = 0;
            while Arc::strong_count(&stage) > 1 {
                let asked = stage.client.asked().get(answered).cloned();
                let Some(request) = asked else {
                    tokio::time::sleep(Duration::from_millis(2)).await;
                    continue;
                };
                answered += 1;
                let dispatch = stage.dispatch();
                let yes = || Ok(RawJson::trusted(YES));
                let told = stage.until_told(|| dispatch.take_response(&stage.me, &request, yes())).await;
                assert!(told.is_ok(), "{}: {told:?}", stage.name);
            }
        });
    }

    /// Answers the question of a task by its key, as often as it is asked.
    pub async fn answer_by_key(&self, id: &str) {
        let start = Instant::now();
        loop {
            let task = self.task(id).await;
            if !task.is_live() {
                return;
            }
            let key = task.open_questions().next().map(|question| question.wire_key().into_owned());
            if let Some(key) = key {
                let dispatch = self.dispatch();
                let answers = || HashMap::from([(key.clone(), RawJson::trusted(YES))]);
                let told = self.until_told(|| async {
                    dispatch.tasks().await?.update_task(&self.me, id, answers()).await
                });
                told.await.unwrap_or_else(|fault| panic!("{}: {fault}", self.name));
            }
            assert!(start.elapsed() < BOUND, "{}: it is not done with asking", self.name);
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// Tasks of these tools that another host had begun before it died.
    pub async fn left_by_a_dead_host(&self, tools: &[&str]) -> Vec<String> {
        let (handle, host) = self.other_host();
        let mut left = Vec::new();
        for tool in tools {
            left.push(create(&host.dispatch, &self.me, tool, Arc::new(Client::default())).await);
        }
        handle.kill();
        left
    }

    /// The ttl of a task passes, and the time for which its end is shown.
    pub async fn until_removed(&self, id: &str) {
        self.clock.advance(3_700_000);
        let (id, start) = (TaskId::parse(id).expect("an id"), Instant::now());
        while self.store.read(id, None).await.expect("this handle meets no fault").is_some() {
            assert!(start.elapsed() < BOUND, "{}: it is never removed", self.name);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Shuts the host down.
    pub async fn drain(&self, parting: DrainMode) {
        let dispatch = self.dispatch();
        let goes = async {
            tokio::time::sleep(PATIENCE).await;
            self.swept.intercept.recover();
        };
        tokio::join!(goes, dispatch.drain(Duration::ZERO, parting));
        // The rest of the process.
        self.handle.kill();
    }

    /// The next host ends or runs what was left.
    pub async fn next_host_sees_to(self: &Arc<Self>, ids: &[String]) {
        let (_, host) = self.other_host();
        *self.host.lock().expect("no panic") = host;
        self.answer_when_asked().await;
        for id in ids {
            self.status_in_the_end(id).await;
        }
        self.dispatch().recover_now().await;
    }

    /// No task is live, and no slot is taken.
    pub async fn until_all_is_over(&self) {
        let start = Instant::now();
        loop {
            let (live, running) = (self.live().await, self.dispatch().load().runs);
            if live.is_empty() && running == 0 {
                return;
            }
            let met = self.swept.intercept.met();
            assert!(start.elapsed() < BOUND, "{}, {met:?}: {live:?} live, {running} slots taken", self.name);
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
}

/// Starts a host.
fn start(stores: Stores, clock: &Arc<TickingClock>, tools: Vec<Arc<dyn Tool>>, client: &Client) -> Host {
    let settings = Settings {
        admission: Bounds { running: 2, running_per_principal: 2, ..SETTINGS.admission },
        rerun_after_ms: 1,
        ..SETTINGS
    };
    let dispatch = application(settings, stores, clock.clone(), tools);
    dispatch.set_client_lookup(Arc::new(client.clone()));
    Host { _stop: Arc::new(serve(&dispatch)), dispatch }
}
