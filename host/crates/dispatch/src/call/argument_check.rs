//! Checks of arguments that take longer than a thread that serves clients may give.

use crate::access::caller::Caller;
use crate::application::Dispatch;
use crate::call::reply::CallReply;
use crate::call::tools_call::{PermittedCall, TaskOrigin};
use crate::error::Fault;
use std::sync::Arc;
use toolyard_task::tool::{ArgumentCheck, CheckOrder};

impl Dispatch {
    /// Creates a task for a session, once its arguments are known to fit.
    pub(crate) async fn call_as_task_once_checked(
        self: &Arc<Self>,
        caller: &Caller,
        call: PermittedCall,
        checked: ArgumentCheck,
        origin: TaskOrigin,
    ) -> Result<CallReply, Fault> {
        let checked = match checked {
            ArgumentCheck::Unfinished => {
                let (stop, permit) = (call.stop.clone(), &call.permit);
                let order =
                    CheckOrder { share: permit.share().clone(), stopped: Arc::new(move || stop.is_set()) };
                let checked = permit.tool().tool().check_fully(permit.arguments().clone(), order);
                let checked = Box::pin(checked).await;
                if let ArgumentCheck::Misfit(_) = &checked {
                    permit.tool().invalid.inc();
                }
                checked
            }
            checked => checked,
        };
        match checked {
            ArgumentCheck::Fits => self.call_as_task(caller, call, origin).await,
            ArgumentCheck::Misfit(wrong) => Err(Fault::InvalidParams(wrong)),
            ArgumentCheck::Unfinished => Err(Fault::Cancelled),
        }
    }
}
