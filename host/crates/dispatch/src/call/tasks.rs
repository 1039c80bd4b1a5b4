//! What clients ask about tasks. Before the first such request is answered, the tasks of
//! dead hosts are seen to.

use crate::access::caller::Caller;
use crate::client::client_channel::Outlet;
use crate::{Dispatch, Fault};
use futures_util::stream::Stream;
use std::collections::HashMap;
use std::sync::Arc;
use toolyard_protocol::{RawJson, RpcError};
use toolyard_task::store::After;
use toolyard_task::task::Summary;
use toolyard_task::{Task, TaskId};

impl Dispatch {
    /// The task as it is (T-22).
    ///
    /// # Errors
    /// [`Fault::UnknownTask`], [`Fault::TasksOff`], [`Fault::Store`].
    pub async fn task(&self, caller: &Caller, id: &str) -> Result<Task, Fault> {
        self.see_to_the_dead().await?;
        self.tasks.task(caller, id).await
    }

    /// Waits until the task is over, and gives what the plain call would have
    /// given (T-24 to T-28). Meanwhile the questions of the task go out through
    /// `outlet`, unless they are out elsewhere (IR-3, IR-7). May be called by many
    /// and again; dropping it ends this wait only.
    ///
    /// # Errors
    /// As [`Dispatch::task`]; [`Fault::Closing`] if this host ends before the task.
    pub async fn task_result(
        &self,
        caller: &Caller,
        id: &str,
        outlet: Arc<dyn Outlet>,
    ) -> Result<Result<RawJson, RpcError>, Fault> {
        self.see_to_the_dead().await?;
        self.tasks.task_result(caller, id, outlet).await
    }

    /// A page of the caller's tasks: those that `params` asks for.
    ///
    /// # Errors
    /// [`Fault::InvalidParams`], [`Fault::InvalidCursor`], [`Fault::TasksOff`],
    /// [`Fault::Store`].
    pub async fn list_tasks(&self, caller: &Caller, params: Option<&RawJson>) -> Result<RawJson, Fault> {
        self.see_to_the_dead().await?;
        self.tasks.list_tasks(caller, params).await
    }

    /// Summaries of the caller's tasks after this one, the oldest first.
    ///
    /// # Errors
    /// [`Fault::TasksOff`], [`Fault::Store`].
    pub async fn summaries(
        &self,
        caller: &Caller,
        after: Option<After>,
        limit: u32,
    ) -> Result<Vec<Summary>, Fault> {
        self.see_to_the_dead().await?;
        self.tasks.summaries(caller, after, limit).await
    }

    /// Cancels a task: final before this returns, and its guest is told to stop
    /// (T-34 to T-36).
    ///
    /// # Errors
    /// [`Fault::AlreadyOver`], else as [`Dispatch::task`].
    pub async fn cancel_task(&self, caller: &Caller, id: &str) -> Result<Task, Fault> {
        self.see_to_the_dead().await?;
        self.tasks.cancel_by(caller, id, caller.by()).await
    }

    /// Takes in what a client answers by key (26T-17). What does not wait for an answer
    /// is ignored; what is no answer at all is asked again under another key (26T-22),
    /// so often, and is then the guest's to see.
    ///
    /// # Errors
    /// As [`Dispatch::task`].
    pub async fn update_task(
        &self,
        caller: &Caller,
        id: &str,
        responses: HashMap<String, RawJson>,
    ) -> Result<(), Fault> {
        self.see_to_the_dead().await?;
        self.tasks.update_task(caller, id, responses).await
    }

    /// The task as it is, and again whenever a client would see it changed, until it is
    /// over or is not the caller's to see any more. What changes faster than it is
    /// taken is left out; the last state never is.
    pub fn follow_task(
        self: &Arc<Self>,
        caller: Caller,
        id: TaskId,
    ) -> impl Stream<Item = Task> + Send + use<> {
        self.tasks.follow_task(caller, id)
    }

    /// Takes in a client's response to a request of ours. What answers nothing, or
    /// comes from a session that was not asked, is ignored.
    ///
    /// # Errors
    /// [`Fault::Store`]: the answer is not written and should be given again.
    pub async fn answered(
        &self,
        caller: &Caller,
        request_id: &str,
        response: Result<RawJson, RpcError>,
    ) -> Result<(), Fault> {
        self.tasks.answered(caller, request_id, response).await
    }

    async fn see_to_the_dead(&self) -> Result<(), Fault> {
        if !self.settings.tasks {
            return Err(Fault::TasksOff);
        }
        Ok(self.cluster.recover_once().await?)
    }
}
