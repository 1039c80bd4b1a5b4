//! Checks of arguments that take longer than a thread that serves clients may give.

use crate::access::caller::Caller;
use crate::call::reply::CallReply;
use crate::call::tools_call::{Origin, Permitted};
use crate::observe::metrics::Measured;
use crate::run::run::Run;
use crate::{Dispatch, Fault};
use std::sync::Arc;
use toolyard_protocol::RawJson;
use toolyard_protocol::tools::text_result;
use toolyard_task::tool::{CheckOrder, Checked};
use toolyard_task::{Room, RunEnd};

impl Dispatch {
    /// Creates a task for a session, once its arguments are known to fit.
    pub(crate) async fn call_as_task_once_checked(
        self: &Arc<Self>,
        caller: &Caller,
        tool: Arc<Measured>,
        call: Permitted,
        checked: Checked,
        origin: Origin,
    ) -> Result<CallReply, Fault> {
        let checked = match checked {
            Checked::Unfinished => {
                let stop = call.stop.clone();
                let order =
                    CheckOrder { share: self.share(caller), stopped: Arc::new(move || stop.is_set()) };
                Box::pin(tool.tool().check_fully(call.params.arguments.clone(), order)).await
            }
            checked => checked,
        };
        match checked {
            Checked::Fits => self.call_as_task(caller, tool, call, origin).await,
            Checked::Misfit(wrong) => {
                tool.misfit();
                Err(Fault::InvalidParams(wrong))
            }
            Checked::Unfinished => Err(Fault::Cancelled),
        }
    }
}

impl Run {
    /// Runs a tool once its arguments have been checked to the end, as part of the run.
    pub(crate) async fn check_and_run(
        self: Arc<Self>,
        tool: Arc<Measured>,
        arguments: RawJson,
        room: Room,
    ) -> RunEnd {
        let run = self.clone();
        let order = CheckOrder { share: self.share.clone(), stopped: Arc::new(move || run.stop.is_set()) };
        match tool.tool().check_fully(arguments.clone(), order).await {
            Checked::Fits => tool.tool().run(arguments, room, self).await,
            Checked::Misfit(wrong) => {
                tool.misfit();
                RunEnd::Result { is_error: true, result: text_result(&wrong, true), message: Some(wrong) }
            }
            Checked::Unfinished => RunEnd::Stopped,
        }
    }
}
