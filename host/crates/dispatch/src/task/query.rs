//! Questions about tasks: get, result, list, cancel. What is not yours reads as
//! unknown, and so does what has expired (T-23, T-40).

use crate::Fault;
use crate::access::caller::Caller;
use crate::client::client_channel::{Outlet, Place};
use crate::task::Tasks;
use crate::task::commit::Changed;
use crate::task::questions::Addressee;
use futures_util::stream::{self, Stream};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;
use toolyard_protocol::question::{self, Given};
use toolyard_protocol::response::with_related_task;
use toolyard_protocol::stateless::error::MISSING_CAPABILITY;
use toolyard_protocol::tools::text_result;
use toolyard_protocol::{RawJson, RpcError};
use toolyard_task::apply::MOST_ASKED_AGAIN;
use toolyard_task::audit::{By, name_of};
use toolyard_task::store::{After, ListQuery, Read};
use toolyard_task::task::{Era, Summary};
use toolyard_task::tool::AskError;
use toolyard_task::{Event, Outcome, Owner, Refusal, Task, TaskId};

/// However long nobody wakes it, a waiter looks again after this time: hints may
/// be lost.
const LOOK_AGAIN: Duration = Duration::from_secs(30);
/// The same while the task has questions.
const LOOK_AGAIN_ASKING: Duration = Duration::from_secs(1);

impl Tasks {
    /// The task as it is (T-22).
    ///
    /// # Errors
    /// [`Fault::UnknownTask`], [`Fault::TasksOff`], [`Fault::Store`].
    pub async fn task(&self, caller: &Caller, id: &str) -> Result<Task, Fault> {
        let id = self.known(caller, id)?;
        self.visible(caller, id).await
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
        let id = self.known(caller, id)?;
        let watch = self.waiters.watch(id);
        loop {
            let changed = watch.changed();
            tokio::pin!(changed);
            // Watch, then read, then wait: a change in between is not missed.
            changed.as_mut().enable();
            let task = self.visible(caller, id).await?;
            if let Some(outcome) = plain_outcome(&task) {
                self.access.note_retrieved(caller, &task);
                return Ok(outcome);
            }
            // Who asks for the result anew has given up any line that broke.
            let to = Addressee {
                session: caller.session.as_ref(),
                capabilities: &caller.capabilities,
                outlet: &outlet,
                place: Place::Expected,
                patience: Duration::ZERO,
            };
            self.offer_questions(&task, to).await?;
            // A question may be out on a line that breaks; nobody is told of that.
            let asks = task.open_questions().next().is_some();
            let look_again = if asks { LOOK_AGAIN_ASKING } else { LOOK_AGAIN };
            let left = Duration::from_millis(task.expires_at().since(self.clock.now()) + 50);
            tokio::select! {
                biased;
                () = changed => {}
                // T-24: it will not be over here; whoever asks the next host is told.
                () = self.slots.parted.wait() => return Err(Fault::Closing),
                () = tokio::time::sleep(left.min(look_again)) => {}
            }
        }
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
        let Ok(owner) = caller.reads() else { return Ok(Vec::new()) };
        Ok(self.store.list(&ListQuery { owner: owner.cloned(), after, limit }).await?)
    }

    pub(crate) async fn cancel_by(&self, caller: &Caller, id: &str, by: By) -> Result<Task, Fault> {
        let task = self.task(caller, id).await?;
        let message = match caller.owner {
            Some(_) => "The task was cancelled by request.",
            None => "The task was cancelled by the operator of this host.",
        };
        let cancelled = Event::Cancelled { message: message.to_owned() };
        match self.change(task.id, &cancelled, &by).await? {
            Changed::Done(task) => {
                tracing::info!(task = %task.id, tool = task.tool, owner = name_of(&task.owner), "task cancelled");
                Ok(task)
            }
            Changed::Refused(task, Refusal::Terminal) => Err(Fault::AlreadyOver(task.status())),
            // No other refusal follows a cancellation.
            Changed::Refused(..) | Changed::Gone => Err(Fault::UnknownTask),
        }
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
        let task = self.task(caller, id).await?;
        // In an order of their own, so that a simulation can be repeated.
        let responses: BTreeMap<String, RawJson> = responses.into_iter().collect();
        for (wire_key, response) in responses {
            let question = task.open_questions().find(|question| question.wire_key() == wire_key);
            let Some(question) = question else {
                tracing::debug!(task = %task.id, "an answer to a question that does not wait for one");
                continue;
            };
            let key = question.key.clone();
            let event = match question::given(question.kind, false, &response) {
                Ok(Given::Answer(answer)) => Event::Answered { key, answer: Ok(answer) },
                Ok(Given::Task(_)) | Err(_) if question.asked_again < MOST_ASKED_AGAIN => {
                    Event::AskedAgain { fence: None, key }
                }
                Ok(Given::Task(_)) => {
                    let error = RpcError::invalid_params("a task is no answer here");
                    Event::Answered { key, answer: Err(AskError::Refused(error)) }
                }
                Err(error) => Event::Answered { key, answer: Err(AskError::Refused(error)) },
            };
            // Somebody else may have answered meanwhile: theirs was the first.
            self.change(task.id, &event, &caller.by()).await?;
        }
        Ok(())
    }

    /// The task as it is, and again whenever a client would see it changed, until it is
    /// over or is not the caller's to see any more. What changes faster than it is
    /// taken is left out; the last state never is.
    pub fn follow_task(
        self: &Arc<Self>,
        caller: Caller,
        id: TaskId,
    ) -> impl Stream<Item = Task> + Send + use<> {
        let begin = (self.clone(), caller, None::<Task>);
        stream::unfold(begin, move |(dispatch, caller, last)| async move {
            if last.as_ref().is_some_and(|last| !last.is_live()) {
                return None;
            }
            let task = dispatch.next_change(&caller, id, last.as_ref()).await?;
            Some((task.clone(), (dispatch, caller, Some(task))))
        })
    }

    /// The task once it is another than `last`.
    async fn next_change(&self, caller: &Caller, id: TaskId, last: Option<&Task>) -> Option<Task> {
        let watch = self.waiters.watch(id);
        loop {
            let changed = watch.changed();
            tokio::pin!(changed);
            changed.as_mut().enable();
            let left = match self.own(caller, id).await {
                Ok(task) if last.is_none_or(|last| last.updated_at != task.updated_at) => return Some(task),
                Ok(task) => Duration::from_millis(task.expires_at().since(self.clock.now()) + 50),
                Err(Fault::Store(error)) => {
                    tracing::warn!(task = %id, error = &error as &dyn std::error::Error, "the store failed while a task is followed; trying again");
                    LOOK_AGAIN_ASKING
                }
                Err(_) => return None,
            };
            tokio::select! {
                biased;
                () = changed => {}
                () = tokio::time::sleep(left.min(LOOK_AGAIN)) => {}
            }
        }
    }

    /// The id that this text spells.
    fn known(&self, caller: &Caller, id: &str) -> Result<TaskId, Fault> {
        TaskId::parse(id).ok_or_else(|| {
            self.access.note_unknown(caller, None);
            Fault::UnknownTask
        })
    }

    /// The caller's own task, its ttl seen to. What is not there, and what is
    /// somebody else's, is one read that finds nothing.
    pub(crate) async fn visible(&self, caller: &Caller, id: TaskId) -> Result<Task, Fault> {
        let found = self.own(caller, id).await;
        if matches!(found, Err(Fault::UnknownTask)) {
            self.access.note_unknown(caller, Some(id));
        }
        found
    }

    async fn own(&self, caller: &Caller, id: TaskId) -> Result<Task, Fault> {
        let mut found = self.store.read(id, caller.reads()?).await?;
        if found.is_none() && matches!(caller.owner, Some(Owner::Session(_))) {
            // Whoever knows the id of a task without an owner may ask about it.
            found = self.store.read(id, Some(&Owner::Anyone)).await?;
        }
        let Some(Read { task, now }) = found else { return Err(Fault::UnknownTask) };
        if task.is_gone(now) {
            return Err(Fault::UnknownTask);
        }
        if task.is_live() && now >= task.expires_at() {
            return match self.expire(id).await? {
                Changed::Done(task) | Changed::Refused(task, _) => Ok(task),
                Changed::Gone => Err(Fault::UnknownTask),
            };
        }
        Ok(task)
    }
}

/// What the plain call would have given (T-25), or the fixed errors for an end
/// that no plain call has (T-28).
fn plain_outcome(task: &Task) -> Option<Result<RawJson, RpcError>> {
    let id = task.id.to_string();
    let no_result = |message: String| {
        RpcError::internal(message)
            .with_data(&serde_json::json!({"taskId": id, "status": task.status().as_str()}))
    };
    Some(match task.outcome.as_ref()? {
        Outcome::Result { result, .. } => Ok(with_related_task(result, &id)),
        // A client with a session has no word for it: the tool says what is missing.
        Outcome::Error(error) if error.code == MISSING_CAPABILITY && task.era == Era::Stateless => {
            Ok(with_related_task(&text_result(&error.message, true), &id))
        }
        Outcome::Error(error) => Err(error.clone()),
        Outcome::Cancelled => Err(no_result("task was cancelled".to_owned())),
        Outcome::Expired => {
            Err(no_result(task.status_message.clone().unwrap_or_else(|| "task expired".to_owned())))
        }
    })
}
