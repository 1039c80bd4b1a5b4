//! A host with the bridge, and tools that end when the test releases them.

use crate::kit::prelude::*;
use toolyard_dispatch::{BridgeTerms, StopCause};
use toolyard_kit::{Native, bridge};

pub struct Stage {
    pub dispatch: Arc<Dispatch>,
    store: Arc<MemoryStore>,
    pub clock: Arc<TickingClock>,
}

impl Stage {
    /// A host that hands off after this time.
    pub fn new(after: Duration, tools: Vec<Arc<dyn Tool>>) -> Self {
        Self::with(after, tools, |_| {})
    }

    pub fn with(after: Duration, tools: Vec<Arc<dyn Tool>>, set: impl FnOnce(&mut Settings)) -> Self {
        let mut settings = Settings { bridge: Some(Arc::new(bridge(after))), ..SETTINGS };
        set(&mut settings);
        Self::on(memory(), settings, tools)
    }

    /// Another process on the same store.
    pub fn next_process(&self, tools: Vec<Arc<dyn Tool>>) -> Self {
        let store = Arc::new(self.store.node());
        Self::on(store, self.dispatch.settings().clone(), tools)
    }

    fn on(store: Arc<MemoryStore>, settings: Settings, tools: Vec<Arc<dyn Tool>>) -> Self {
        let clock = TickingClock::at(1);
        Self { dispatch: application(settings, stores(&store), clock.clone(), tools), store, clock }
    }

    pub fn terms(&self) -> BridgeTerms {
        self.dispatch.settings().bridge.as_ref().expect("is on").terms(None)
    }

    pub async fn call_by(
        &self,
        caller: &Caller,
        (name, arguments): (&str, &Value),
        channel: Arc<dyn ClientChannel>,
        stop: Arc<Stop>,
    ) -> Result<CallReply, Fault> {
        let terms = Terms::Sessions { has_tasks: true, bridge: Some(self.terms()) };
        let mut call = call_on(terms, name, channel);
        call.params.arguments = RawJson::of(arguments);
        call.stop = stop;
        call.rate_key = RateKey::of(&caller.principal, None);
        let reply = tokio::time::timeout(Duration::from_secs(30), self.dispatch.call(caller, call)).await;
        reply.expect("an answer within half a minute")
    }

    pub async fn call(&self, caller: &Caller, name: &str) -> Result<CallReply, Fault> {
        self.call_with(caller, name, json!({})).await
    }

    pub async fn call_with(&self, caller: &Caller, name: &str, arguments: Value) -> Result<CallReply, Fault> {
        self.call_by(caller, (name, &arguments), Arc::new(NoClientChannel), Arc::default()).await
    }

    /// A call of `render` that is cancelled for this cause at this age (ms).
    pub async fn stopped_at(
        &self,
        caller: &Caller,
        arguments: Value,
        (cause, age): (StopCause, i64),
        work: &Work,
    ) -> Result<CallReply, Fault> {
        let moment = async {
            work.begun().await;
            // The run has been seen to last by then.
            tokio::time::sleep(Duration::from_millis(5)).await;
            self.clock.advance(age);
        };
        self.call_stopped_by(caller, ("render", arguments), cause, moment).await
    }

    /// A call of `render` whose client has a timeout, so that it goes on.
    pub async fn timed_out(&self, caller: &Caller, work: &Work) {
        drop(self.stopped_at(caller, json!({}), (StopCause::Timeout, 0), work).await);
    }

    /// A call that is cancelled for this cause when the moment comes.
    pub async fn call_stopped_by(
        &self,
        caller: &Caller,
        (name, arguments): (&str, Value),
        cause: StopCause,
        moment: impl Future<Output = ()>,
    ) -> Result<CallReply, Fault> {
        let stop = Arc::new(Stop::default());
        let call = self.call_by(caller, (name, &arguments), Arc::new(NoClientChannel), stop.clone());
        let (reply, ()) = tokio::join!(call, async {
            moment.await;
            stop.set_because(cause);
        });
        reply
    }
}

/// Runs that end when the test releases them, counted.
#[derive(Default, Clone)]
pub struct Work {
    started: Arc<AtomicU32>,
    dropped: Arc<AtomicU32>,
    begun: Arc<Notify>,
    go: Arc<Notify>,
}

impl Work {
    pub fn tool(&self, name: &str) -> Arc<dyn Tool> {
        self.run(native(name))
    }

    pub fn run(&self, spec: Native) -> Arc<dyn Tool> {
        spec.runs_sharing(self, |work, _| async move {
            let _counted = Counted(work.dropped);
            work.started.fetch_add(1, Ordering::SeqCst);
            work.begun.notify_one();
            work.go.notified().await;
            done("rendered")
        })
    }

    pub fn started(&self) -> u32 {
        self.started.load(Ordering::SeqCst)
    }

    pub fn dropped(&self) -> u32 {
        self.dropped.load(Ordering::SeqCst)
    }

    /// Waits for the next run to begin.
    pub async fn begun(&self) {
        self.begun.notified().await;
    }

    /// Lets one run end.
    pub fn finish(&self) {
        self.go.notify_one();
    }
}

/// The text and the whole of a result that names a task or comes from one. The result has reached its
/// client.
pub fn hand_off(reply: Result<CallReply, Fault>) -> (String, Value) {
    let CallReply::HandedOff(hand_off) = reply.expect("a reply") else { panic!("a hand-off was expected") };
    hand_off.handover.mark_delivered();
    let result: Value = hand_off.outcome.expect("a result").decode().expect("JSON");
    (result["content"][0]["text"].as_str().expect("a text").to_owned(), result)
}

/// The text of a host tool's own result.
pub fn plain(reply: Result<CallReply, Fault>) -> String {
    let reply = reply.expect("a reply");
    assert!(matches!(reply, CallReply::Result(_)), "a plain result was expected");
    text_of(&reply)
}

/// The text of the tool's result, however the call came to it.
pub fn text_of(reply: &CallReply) -> String {
    let result = match reply {
        CallReply::Result(result) => result,
        CallReply::HandedOff(hand_off) => hand_off.outcome.as_ref().expect("a result"),
        other => panic!("{other:?}"),
    };
    let result: Value = result.decode().expect("JSON");
    result["content"][0]["text"].as_str().expect("a text").to_owned()
}
