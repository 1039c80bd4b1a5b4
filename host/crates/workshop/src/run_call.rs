//! A call that this process makes itself, with its own client: as a plain call or a task, until it ends or is
//! cancelled in the proper way.

use serde_json::{Value, json};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use toolyard_dispatch::{
    CallParams, CallReply, Caller, ClientChannel, Dispatch, Fault, RELATED_TASK, RateKey, RawJson,
    RequestedTtl, RpcError, Stop, Terms, ToolCall,
};

/// A call to run.
pub struct ToolRun {
    /// The tool.
    pub tool: String,
    /// The arguments, an object.
    pub arguments: RawJson,
    /// Whether it is called as a task.
    pub task: bool,
}

/// How a call ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Ending {
    /// A `CallToolResult`.
    Result(RawJson),
    /// A JSON-RPC error, of the tool or of the host.
    Error(RpcError),
    /// The call was stopped before it ended.
    Stopped,
}

/// Calls a tool, and cancels the call if `stop` is cancelled.
///
/// # Errors
/// [`Fault`] if the host did not accept the call.
pub async fn run_call(
    dispatch: &Arc<Dispatch>,
    caller: &Caller,
    run: ToolRun,
    channel: Arc<dyn ClientChannel>,
    stop: &CancellationToken,
) -> Result<Ending, Fault> {
    let stopping = Arc::new(Stop::default());
    let call = ToolCall {
        params: CallParams {
            name: run.tool,
            arguments: run.arguments,
            task: run.task.then_some(Ok(RequestedTtl::Absent)),
            progress_token: Some(RawJson::trusted("0")),
            trace: None,
        },
        terms: Terms::Sessions { has_tasks: run.task, bridge: None },
        stop: stopping.clone(),
        channel: channel.clone(),
        task_channel: channel.clone(),
        rate_key: RateKey::Local,
    };
    let calling = dispatch.call(caller, call);
    tokio::pin!(calling);
    let reply = tokio::select! {
        biased;
        reply = &mut calling => reply,
        () = stop.cancelled() => {
            stopping.set();
            calling.await
        }
    };
    match reply {
        Ok(CallReply::Result(result)) => Ok(Ending::Result(result)),
        Ok(CallReply::Error(error)) => Ok(Ending::Error(error)),
        Ok(CallReply::Created(created)) => {
            wait_for_task(dispatch, caller, &created.view.id, channel, stop).await
        }
        // Only calls on other terms get replies that ask questions or hand a call off.
        Ok(
            CallReply::InputRequired(_)
            | CallReply::TaskAsks(_)
            | CallReply::HandedOff(_)
            | CallReply::UnknownTask(_),
        ) => Ok(Ending::Error(RpcError::internal(
            "The host replied to a call with a session as to one without",
        ))),
        Err(Fault::Cancelled | Fault::Closing) => Ok(Ending::Stopped),
        Err(fault) => Err(fault),
    }
}

/// Waits for the result of a task, and cancels the task if `stop` is cancelled.
async fn wait_for_task(
    dispatch: &Arc<Dispatch>,
    caller: &Caller,
    id: &str,
    channel: Arc<dyn ClientChannel>,
    stop: &CancellationToken,
) -> Result<Ending, Fault> {
    let tasks = dispatch.tasks().await?;
    tokio::select! {
        biased;
        ended = tasks.task_result(caller, id, channel) => Ok(match ended? {
            Ok(result) => Ending::Result(plain(&result)),
            Err(error) => Ending::Error(error),
        }),
        () = stop.cancelled() => {
            // The task may have ended at this moment, which is fine too.
            drop(tasks.cancel_task(caller, id).await);
            Ok(Ending::Stopped)
        }
    }
}

/// The result that a plain call would have given: without the id of the task, which differs each time.
fn plain(result: &RawJson) -> RawJson {
    let Ok(Value::Object(mut members)) = result.decode::<Value>() else { return result.clone() };
    if let Some(meta) = members.get_mut("_meta").and_then(Value::as_object_mut) {
        meta.remove(RELATED_TASK);
        if meta.is_empty() {
            members.remove("_meta");
        }
    }
    RawJson::of(&json!(members))
}
