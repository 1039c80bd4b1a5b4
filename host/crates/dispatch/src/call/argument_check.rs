//! Checks of arguments that take longer than a thread that serves clients may give.

use crate::access::caller::Caller;
use crate::call::reply::CallReply;
use crate::call::tools_call::{Origin, Permitted};
use crate::observe::metrics::Measured;
use crate::{Dispatch, Fault};
use std::sync::Arc;
use toolyard_task::tool::{CheckOrder, Checked};

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
                    CheckOrder { share: self.access.share(caller), stopped: Arc::new(move || stop.is_set()) };
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
