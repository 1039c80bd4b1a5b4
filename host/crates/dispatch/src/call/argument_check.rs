//! Checks of arguments that take longer than a thread that serves clients may give.

use crate::access::caller::Caller;
use crate::call::reply::CallReply;
use crate::call::tools_call::{PermittedCall, TaskOrigin};
use crate::{Dispatch, Fault};
use std::sync::Arc;
use toolyard_task::tool::{CheckOrder, Checked};

impl Dispatch {
    /// Creates a task for a session, once its arguments are known to fit.
    pub(crate) async fn call_as_task_once_checked(
        self: &Arc<Self>,
        caller: &Caller,
        call: PermittedCall,
        checked: Checked,
        origin: TaskOrigin,
    ) -> Result<CallReply, Fault> {
        let checked = match checked {
            Checked::Unfinished => {
                let (stop, permit) = (call.stop.clone(), &call.permit);
                let order =
                    CheckOrder { share: permit.share().clone(), stopped: Arc::new(move || stop.is_set()) };
                let checked = permit.tool().tool().check_fully(permit.arguments().clone(), order);
                let checked = Box::pin(checked).await;
                if let Checked::Misfit(_) = &checked {
                    permit.tool().count_invalid_arguments();
                }
                checked
            }
            checked => checked,
        };
        match checked {
            Checked::Fits => self.call_as_task(caller, call, origin).await,
            Checked::Misfit(wrong) => Err(Fault::InvalidParams(wrong)),
            Checked::Unfinished => Err(Fault::Cancelled),
        }
    }
}
