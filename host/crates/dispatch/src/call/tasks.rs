//! Requests about tasks. The first one waits until the tasks of dead hosts are recovered.

use crate::access::caller::Caller;
use crate::application::Dispatch;
use crate::client::client_channel::ClientChannel;
use crate::error::Fault;
use crate::task::Tasks;
use std::sync::Arc;
use tokio::sync::watch;
use toolyard_protocol::{RawJson, RpcError};
use toolyard_task::Task;

impl Dispatch {
    /// The tasks, once those of dead hosts are recovered.
    ///
    /// # Errors
    /// [`Fault::TasksOff`], [`Fault::Store`].
    pub async fn tasks(&self) -> Result<&Arc<Tasks>, Fault> {
        if !self.deps.settings.tasks {
            return Err(Fault::TasksOff);
        }
        self.cluster.recover_once().await?;
        Ok(&self.deps.tasks)
    }

    /// Sends the open questions of a task through `channel`, unless they are out with a client.
    ///
    /// # Errors
    /// [`Fault::Store`].
    pub async fn offer_questions(
        &self,
        caller: &Caller,
        task: &Task,
        channel: &Arc<dyn ClientChannel>,
    ) -> Result<(), Fault> {
        let client = (caller.session.as_ref(), &caller.capabilities);
        Ok(self.deps.tasks.offer_anywhere(task, client, channel).await?)
    }

    /// A number that grows with every change of a task that this host makes or hears of: creations,
    /// changes, ends, removals, and hints of other hosts. It counts no tasks; a reader that sees it grow
    /// reads again.
    #[must_use]
    pub fn task_changes(&self) -> watch::Receiver<u64> {
        self.deps.tasks.waiters.changes()
    }

    /// Accepts a client's response to a request of this host. A response to no request, or from a
    /// session that was not asked, is ignored.
    ///
    /// # Errors
    /// [`Fault::Store`]: the answer was not written, and the client should send it again.
    pub async fn take_response(
        &self,
        caller: &Caller,
        request_id: &str,
        response: Result<RawJson, RpcError>,
    ) -> Result<(), Fault> {
        self.deps.tasks.take_response(caller, request_id, response).await
    }
}
