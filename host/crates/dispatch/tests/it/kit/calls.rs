//! Calls as clients make them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use toolyard_dispatch::{
    CallParams, CallReply, Caller, ClientChannel, Dispatch, NoClientChannel, Principal, RateKey, RawJson,
    SessionId, Stop, Terms, ToolCall,
};
use toolyard_kit::{done, question};
use toolyard_task::wire::RequestedTtl;
use toolyard_task::{RunContext, RunEnd};

/// The user of this machine, with a client that cannot be asked.
pub fn mute() -> Caller {
    Caller::local(RawJson::empty_object())
}

/// An unknown client, in this session if it has one.
pub fn anonymous(session: Option<&str>) -> Caller {
    let session = session.map(|id| SessionId(id.into()));
    Caller::new(Arc::new(Principal::Anonymous), session, RawJson::empty_object())
}

/// An unknown client that knows no sessions.
pub fn stranger() -> Caller {
    Caller::stateless(Arc::new(Principal::Anonymous), None, RawJson::empty_object())
}

/// A call on these terms, without arguments.
pub fn call_on(terms: Terms, name: &str, channel: Arc<dyn ClientChannel>) -> ToolCall {
    let (name, arguments) = (name.to_owned(), RawJson::empty_object());
    ToolCall {
        params: CallParams { name, arguments, task: None, progress_token: None, trace: None },
        terms,
        stop: Arc::new(Stop::default()),
        channel: channel.clone(),
        task_channel: channel,
        rate_key: RateKey::Local,
    }
}

/// A call of a client with a session.
pub fn call(name: &str, task: bool, channel: Arc<dyn ClientChannel>) -> ToolCall {
    let mut call = call_on(Terms::Sessions { has_tasks: true, bridge: None }, name, channel);
    call.params.task = task.then_some(Ok(RequestedTtl::Absent));
    call.params.progress_token = Some(RawJson::trusted("1"));
    call
}

/// A plain call of a client that cannot be reached.
pub fn plain_call(name: &str) -> ToolCall {
    call(name, false, Arc::new(NoClientChannel))
}

/// Calls a tool as a task, and returns the task's id.
pub async fn create(
    dispatch: &Arc<Dispatch>,
    caller: &Caller,
    name: &str,
    channel: Arc<dyn ClientChannel>,
) -> String {
    let reply = dispatch.call(caller, call(name, true, channel)).await.expect("created");
    let CallReply::Created(created) = reply else { panic!("{reply:?}") };
    created.view.id
}

/// The same for a client that cannot be reached.
pub async fn create_alone(dispatch: &Arc<Dispatch>, caller: &Caller, name: &str) -> String {
    create(dispatch, caller, name, Arc::new(NoClientChannel)).await
}

/// The body of a tool that asks one question and returns what came of it.
pub async fn asks(context: Arc<dyn RunContext>) -> RunEnd {
    let answers = context.ask(vec![question("a")]).await;
    done(&format!("{answers:?}"))
}

/// Counts its drops.
pub struct Counted(pub Arc<AtomicU32>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}
