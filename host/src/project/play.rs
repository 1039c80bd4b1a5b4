//! A call made by this process itself, with its own client: plainly or as a task, to its
//! end, and cancelled in the right way if it is to stop.

use serde_json::{Value, json};
use std::sync::Arc;
use tokio::sync::watch;
use toolyard_dispatch::{
    CallParams, CallReply, Caller, ClientChannel, Dispatch, Fault, RELATED_TASK, RawJson, RequestedTtl,
    RpcError, Stop, Terms, ToolCall,
};

/// What is called.
pub struct Play {
    /// The tool.
    pub tool: String,
    /// The arguments, an object.
    pub arguments: RawJson,
    /// Whether it is called as a task.
    pub task: bool,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq)]
pub enum Ending {
    /// A `CallToolResult`.
    Result(RawJson),
    /// A JSON-RPC error, of the tool or of the host.
    Error(RpcError),
    /// It was stopped before it ended.
    Stopped,
}

/// Calls a tool, and cancels the call if `stop` turns true.
///
/// # Errors
/// [`Fault`] if the host did not take the call in.
pub async fn play(
    dispatch: &Arc<Dispatch>,
    caller: &Caller,
    play: Play,
    channel: Arc<dyn ClientChannel>,
    mut stop: watch::Receiver<bool>,
) -> Result<Ending, Fault> {
    let stopping = Arc::new(Stop::default());
    let call = ToolCall {
        params: CallParams {
            name: play.tool,
            arguments: play.arguments,
            task: play.task.then_some(Ok(RequestedTtl::Absent)),
            progress_token: Some(RawJson::trusted("0")),
            trace: None,
        },
        terms: Terms::Sessions { has_tasks: play.task },
        stop: stopping.clone(),
        channel: channel.clone(),
        task_channel: channel.clone(),
    };
    let calling = dispatch.call(caller, call);
    tokio::pin!(calling);
    let stopped = async |stop: &mut watch::Receiver<bool>| {
        if stop.wait_for(|stop| *stop).await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    let reply = tokio::select! {
        biased;
        reply = &mut calling => reply,
        () = stopped(&mut stop) => {
            stopping.set();
            calling.await
        }
    };
    let created = match reply {
        Ok(CallReply::Result(result)) => return Ok(Ending::Result(result)),
        Ok(CallReply::Error(error)) => return Ok(Ending::Error(error)),
        Ok(CallReply::Created(created)) => created,
        Ok(CallReply::InputRequired(_)) => {
            return Ok(Ending::Error(RpcError::internal(
                "A client on the spot was to be asked by an answer",
            )));
        }
        Err(Fault::Cancelled | Fault::Closing) => return Ok(Ending::Stopped),
        Err(fault) => return Err(fault),
    };
    let id = created.view.id;
    let waiting = dispatch.task_result(caller, &id, channel);
    tokio::pin!(waiting);
    let ended = tokio::select! {
        biased;
        ended = &mut waiting => ended?,
        () = stopped(&mut stop) => {
            // It may have ended in this very moment, which is as good.
            drop(dispatch.cancel_task(caller, &id).await);
            return Ok(Ending::Stopped);
        }
    };
    Ok(match ended {
        Ok(result) => Ending::Result(plain(&result)),
        Err(error) => Ending::Error(error),
    })
}

/// The result as the plain call would have given it: without the id of the task, which
/// is another one each time.
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
