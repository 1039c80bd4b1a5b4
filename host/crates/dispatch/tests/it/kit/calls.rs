//! Calls as clients with sessions make them.

use std::sync::Arc;
use toolyard_dispatch::{
    CallParams, CallReply, Caller, ClientChannel, Dispatch, RateKey, RawJson, Stop, Terms, ToolCall,
};
use toolyard_task::wire::RequestedTtl;

pub fn call(name: &str, task: bool, channel: Arc<dyn ClientChannel>) -> ToolCall {
    ToolCall {
        params: CallParams {
            name: name.to_owned(),
            arguments: RawJson::empty_object(),
            task: task.then_some(Ok(RequestedTtl::Absent)),
            progress_token: Some(RawJson::trusted("1")),
            trace: None,
        },
        terms: Terms::Sessions { has_tasks: true, bridge: None },
        stop: Arc::new(Stop::default()),
        channel: channel.clone(),
        task_channel: channel,
        rate_key: RateKey::Local,
    }
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
