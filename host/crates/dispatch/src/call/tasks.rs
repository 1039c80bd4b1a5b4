//! Requests about tasks. The first one waits until the tasks of dead hosts are recovered.

use crate::access::caller::Caller;
use crate::application::Dispatch;
use crate::client::client_channel::ClientChannel;
use crate::error::Fault;
use futures_util::stream::Stream;
use std::collections::HashMap;
use std::sync::Arc;
use tokio::sync::watch;
use toolyard_protocol::{RawJson, RpcError};
use toolyard_task::approval::Decision;
use toolyard_task::search::{Direction, Filter, Page, Position};
use toolyard_task::store::After;
use toolyard_task::task::Summary;
use toolyard_task::timeline::Timeline;
use toolyard_task::{Task, TaskId};

impl Dispatch {
    /// The task as it is (T-22).
    ///
    /// # Errors
    /// [`Fault::UnknownTask`], [`Fault::TasksOff`], [`Fault::Store`].
    pub async fn task(&self, caller: &Caller, id: &str) -> Result<Task, Fault> {
        self.recover_first().await?;
        self.deps.tasks.task(caller, id).await
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

    /// Waits until the task ends, and returns the result that the plain call would have had (T-24 to
    /// T-28). Meanwhile the questions of the task are sent through `channel`, unless they are pending
    /// elsewhere (IR-3, IR-7). Many callers may wait, and may ask again later; dropping the future ends
    /// this wait only.
    ///
    /// # Errors
    /// As [`Dispatch::task`]; [`Fault::Closing`] if this host ends before the task.
    pub async fn task_result(
        &self,
        caller: &Caller,
        id: &str,
        channel: Arc<dyn ClientChannel>,
    ) -> Result<Result<RawJson, RpcError>, Fault> {
        self.recover_first().await?;
        self.deps.tasks.task_result(caller, id, channel).await
    }

    /// A page of the caller's tasks: those that `params` asks for.
    ///
    /// # Errors
    /// [`Fault::InvalidParams`], [`Fault::InvalidCursor`], [`Fault::TasksOff`],
    /// [`Fault::Store`].
    pub async fn list_tasks(&self, caller: &Caller, params: Option<&RawJson>) -> Result<RawJson, Fault> {
        self.recover_first().await?;
        self.deps.tasks.list_tasks(caller, params).await
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
        self.recover_first().await?;
        self.deps.tasks.summaries(caller, after, limit).await
    }

    /// The caller's tasks that the filter matches, ordered by their creation; for the operator, those of
    /// all owners. A page may be short although more tasks follow: [`Page::next`] says so.
    ///
    /// # Errors
    /// [`Fault::TasksOff`], [`Fault::Store`].
    pub async fn find_tasks(
        &self,
        caller: &Caller,
        filter: Filter,
        direction: Direction,
        after: Option<Position>,
        limit: u32,
    ) -> Result<Page, Fault> {
        self.recover_first().await?;
        self.deps.tasks.find_tasks(caller, filter, direction, after, limit).await
    }

    /// A number that grows with every change of a task that this host makes or hears of: creations,
    /// changes, ends, removals, and hints of other hosts. It counts no tasks; a reader that sees it grow
    /// reads again.
    #[must_use]
    pub fn task_changes(&self) -> watch::Receiver<u64> {
        self.deps.tasks.waiters.changes()
    }

    /// The timeline of one of the caller's tasks, after this event. The operator also sees the attempts at
    /// tasks that are gone.
    ///
    /// # Errors
    /// As [`Dispatch::task`].
    pub async fn timeline(
        &self,
        caller: &Caller,
        id: &str,
        after: Option<u64>,
        limit: u32,
    ) -> Result<Timeline, Fault> {
        self.recover_first().await?;
        self.deps.tasks.timeline(caller, id, after, limit).await
    }

    /// Decides about a call that waits for an approval of the operator (`confirm`). `fingerprint` is that of the
    /// call that the operator was shown; for another one, nothing is decided. Only the operator decides: for any
    /// other caller there is no such task.
    ///
    /// # Errors
    /// [`Fault::NotDecided`], [`Fault::AlreadyOver`], else as [`Dispatch::task`].
    pub async fn decide(
        &self,
        caller: &Caller,
        id: &str,
        fingerprint: &str,
        decision: Decision,
    ) -> Result<Task, Fault> {
        self.recover_first().await?;
        self.deps.tasks.decide(caller, id, fingerprint, decision).await
    }

    /// Cancels a task. The cancel is final before this returns, and the host stops the guest (T-34
    /// to T-36).
    ///
    /// # Errors
    /// [`Fault::AlreadyOver`], else as [`Dispatch::task`].
    pub async fn cancel_task(&self, caller: &Caller, id: &str) -> Result<Task, Fault> {
        self.recover_first().await?;
        self.deps.tasks.cancel_by(caller, id, caller.by()).await
    }

    /// Has a task continued that failed because its runs could not continue. Only for the operator.
    ///
    /// # Errors
    /// [`Fault::InvalidParams`] for any other task, else as [`Dispatch::task`].
    pub async fn resume_task(&self, caller: &Caller, id: &str) -> Result<Task, Fault> {
        self.recover_first().await?;
        self.deps.tasks.resume_task(caller, id).await
    }

    /// Accepts a client's answers by key (26T-17). Answers to questions that are not open are
    /// ignored. The host asks again, under another key, for an answer that does not fit (26T-22);
    /// after a few attempts the guest gets it as it is.
    ///
    /// # Errors
    /// As [`Dispatch::task`].
    pub async fn update_task(
        &self,
        caller: &Caller,
        id: &str,
        responses: HashMap<String, RawJson>,
    ) -> Result<(), Fault> {
        self.recover_first().await?;
        self.deps.tasks.update_task(caller, id, responses).await
    }

    /// The task now, and after each change that a client would see, until it ends or the caller may
    /// no longer see it. A slow reader misses states in between, but never the last one.
    pub fn follow_task(
        self: &Arc<Self>,
        caller: Caller,
        id: TaskId,
    ) -> impl Stream<Item = Task> + Send + use<> {
        self.deps.tasks.follow_task(caller, id)
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

    async fn recover_first(&self) -> Result<(), Fault> {
        if !self.deps.settings.tasks {
            return Err(Fault::TasksOff);
        }
        Ok(self.cluster.recover_once().await?)
    }
}
