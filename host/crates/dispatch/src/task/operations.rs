//! Operations on tasks: get, result, list, cancel. A task of another owner reads as unknown, and so
//! does an expired one (T-23, T-40).

use crate::access::caller::Caller;
use crate::access::principal::Principal;
use crate::client::client_channel::{ClientChannel, Notice, RouteScope};
use crate::error::Fault;
use crate::slots::heartbeat::Heartbeat;
use crate::task::Tasks;
use crate::task::commit::{CommitOutcome, log_store_retry};
use crate::task::questions::{DOUBTS, KEYS, QuestionRecipient};
use futures_util::stream::{self, Stream};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use toolyard_protocol::progress::Progress;
use toolyard_protocol::question::{self, ClientAnswer};
use toolyard_protocol::response::with_related_task;
use toolyard_protocol::stateless::error::MISSING_CAPABILITY;
use toolyard_protocol::tools::text_result;
use toolyard_protocol::{RawJson, RpcError, Timestamp};
use toolyard_task::apply::MAX_ASKED_AGAIN;
use toolyard_task::approval::Decision;
use toolyard_task::audit::{By, name_of};
use toolyard_task::search::{Direction, Filter, OrderBy, Page, Position, Search, SortOrder};
use toolyard_task::store::ReadTask;
use toolyard_task::task::{Era, Summary};
use toolyard_task::timeline::Timeline;
use toolyard_task::{AskError, Event, Outcome, Owner, Refusal, Task, TaskId};

/// A waiter reads the task again after this time even without a wake-up, since hints may be lost.
const LOOK_AGAIN: Duration = Duration::from_secs(30);
/// The same while the task has questions.
const LOOK_AGAIN_ASKING: Duration = Duration::from_secs(1);

/// A wait for a task.
pub(crate) struct TaskWait<'a> {
    pub id: TaskId,
    /// The channel for the questions of the task, and for progress while it is silent.
    pub channel: Arc<dyn ClientChannel>,
    pub progress_token: Option<RawJson>,
    /// How long to wait at most.
    pub most: Duration,
    /// Whether a task in this state need not be waited for any longer.
    pub is_enough: &'a (dyn Fn(&Task) -> bool + Send + Sync),
}

impl Tasks {
    /// The task as it is (T-22).
    ///
    /// # Errors
    /// [`Fault::UnknownTask`], [`Fault::Store`].
    pub async fn task(&self, caller: &Caller, id: &str) -> Result<Task, Fault> {
        let id = self.known(caller, id)?;
        self.visible(caller, id).await
    }

    /// Waits until the task ends, and returns the result that the plain call would have had (T-24 to
    /// T-28). Meanwhile the questions of the task are sent through `channel`, unless they are pending
    /// elsewhere (IR-3, IR-7). Many callers may wait, and may ask again later; dropping the future ends
    /// this wait only.
    ///
    /// # Errors
    /// As [`Tasks::task`]; [`Fault::Closing`] if this host ends before the task.
    pub async fn task_result(
        &self,
        caller: &Caller,
        id: &str,
        channel: Arc<dyn ClientChannel>,
    ) -> Result<Result<RawJson, RpcError>, Fault> {
        let id = self.known(caller, id)?;
        let wait = TaskWait { id, channel, progress_token: None, most: Duration::MAX, is_enough: &|_| false };
        let task = self.wait_for(caller, wait).await?;
        match plain_outcome(&task) {
            Some(outcome) => {
                self.access.note_retrieved(caller, &task);
                Ok(outcome)
            }
            // T-24: the task will not end here; the next host has the result.
            None => Err(Fault::Closing),
        }
    }

    /// Waits until a task ends, is in a state that is enough, or the time is up, or until this host has
    /// given the task up. Returns the task as it is then.
    pub(crate) async fn wait_for(&self, caller: &Caller, wait: TaskWait<'_>) -> Result<Task, Fault> {
        let TaskWait { id, channel, progress_token, most, is_enough } = wait;
        let began = Instant::now();
        // Progress that the guest reported under this token is lower.
        let reached = self.slots.runs.progress(id).map_or(0.0, |progress| progress.progress + 1e-3);
        let mut heartbeat = Heartbeat::new(self.settings.bridge.is_some() && progress_token.is_some());
        let watch = self.waiters.watch(id);
        loop {
            let changed = watch.changed();
            tokio::pin!(changed);
            // Watch, then read, then wait: a change in between is not missed.
            changed.as_mut().enable();
            let task = self.visible(caller, id).await?;
            let left_to_wait = most.saturating_sub(began.elapsed());
            if !task.is_live() || is_enough(&task) || left_to_wait.is_zero() {
                return Ok(task);
            }
            // A client that asks for the result again has given up any broken route.
            let to = QuestionRecipient {
                session: caller.session.as_ref(),
                capabilities: &caller.capabilities,
                channel: &channel,
                scope: RouteScope::Expected,
                patience: Duration::ZERO,
            };
            self.offer_questions(&task, to).await?;
            // The route of a question may break without any event.
            let asks = task.open_questions().next().is_some();
            let look_again = if asks { LOOK_AGAIN_ASKING } else { LOOK_AGAIN };
            let left = Duration::from_millis(task.expires_at().since(self.clock.now()) + 50);
            // Its arguments may be large, and many requests may wait for it.
            drop(task);
            tokio::select! {
                biased;
                () = changed => {}
                () = self.slots.handed_over.wait() => return self.visible(caller, id).await,
                _ = heartbeat.tick() => {
                    if let Some(token) = &progress_token {
                        let progress =
                            Progress { progress: reached + began.elapsed().as_secs_f64(), total: None, message: None };
                        channel.notify(None, Notice::Progress { token: token.clone(), progress });
                    }
                }
                () = tokio::time::sleep(left.min(look_again).min(left_to_wait)) => {}
            }
        }
    }

    /// The caller's newest tasks, the newest first. For an anonymous client, these are the tasks
    /// that replies in its session named.
    pub(crate) async fn newest(&self, caller: &Caller, limit: u32) -> Result<Vec<Summary>, Fault> {
        let Some(owner) = caller.owns_bridged() else { return Ok(Vec::new()) };
        if owner == Owner::Anyone {
            let Some(session) = &caller.session else { return Ok(Vec::new()) };
            let mut found = Vec::new();
            for id in self.told.of(session) {
                match self.own(caller, id).await {
                    Ok(task) => found.push(Summary::of(&task)),
                    Err(Fault::UnknownTask) => {}
                    Err(fault) => return Err(fault),
                }
            }
            return Ok(found);
        }
        let order = SortOrder { by: OrderBy::Created, direction: Direction::Descending };
        let search = Search { order, ..Search::all(Some(owner), limit) };
        Ok(self.store.search(&search).await?.tasks)
    }

    /// The caller's tasks that the filter matches, ordered by their creation; for the operator, those of
    /// all owners. A page may be short although more tasks follow: [`Page::next`] says so.
    ///
    /// # Errors
    /// [`Fault::Store`].
    pub async fn find_tasks(
        &self,
        caller: &Caller,
        filter: Filter,
        direction: Direction,
        after: Option<Position>,
        limit: u32,
    ) -> Result<Page, Fault> {
        let Ok(owner) = caller.reads() else { return Ok(Page::default()) };
        if owner == Some(&Owner::Anyone) {
            // A client sees such a task only if it knows the id, so no client may list them.
            return Ok(Page::default());
        }
        let order = SortOrder { by: OrderBy::Created, direction };
        let search = Search { filter, order, after, ..Search::all(owner.cloned(), limit) };
        Ok(self.store.search(&search).await?)
    }

    /// The timeline of one of the caller's tasks, after this event. The operator also sees the attempts at
    /// tasks that are gone.
    ///
    /// # Errors
    /// As [`Tasks::task`].
    pub async fn timeline(
        &self,
        caller: &Caller,
        id: &str,
        after: Option<u64>,
        limit: u32,
    ) -> Result<Timeline, Fault> {
        let is_there = match self.task(caller, id).await {
            Ok(_) => true,
            // The operator also sees the attempts at tasks that are gone.
            Err(Fault::UnknownTask) if matches!(caller.reads(), Ok(None)) => false,
            Err(fault) => return Err(fault),
        };
        let id = TaskId::parse(id).ok_or(Fault::UnknownTask)?;
        let timeline = self.timeline.timeline(id, after, limit).await?;
        if is_there || !timeline.runs.is_empty() { Ok(timeline) } else { Err(Fault::UnknownTask) }
    }

    /// Decides about a call that waits for an approval of the operator (`confirm`). `fingerprint` is that of the
    /// call that the operator was shown; for another one, nothing is decided. Only the operator decides: for any
    /// other caller there is no such task.
    ///
    /// # Errors
    /// [`Fault::NotDecided`], [`Fault::AlreadyOver`], else as [`Tasks::task`].
    pub async fn decide(
        &self,
        caller: &Caller,
        id: &str,
        fingerprint: &str,
        decision: Decision,
    ) -> Result<Task, Fault> {
        // A client is never the operator.
        if !matches!(*caller.principal, Principal::Operator) {
            return Err(Fault::UnknownTask);
        }
        let task = self.task(caller, id).await?;
        let decided = Event::Decided { fingerprint: fingerprint.to_owned(), decision };
        match self.change(task.id, &decided, &caller.by()).await? {
            CommitOutcome::Done(task) => Ok(task),
            CommitOutcome::Refused(task, Refusal::Terminal) => Err(Fault::AlreadyOver(task.status())),
            CommitOutcome::Refused(_, refusal) => Err(Fault::NotDecided(refusal)),
            CommitOutcome::Gone => Err(Fault::UnknownTask),
        }
    }

    /// Has a task continued that failed because its runs could not continue. Only for the operator.
    ///
    /// # Errors
    /// [`Fault::InvalidParams`] for any other task, else as [`Tasks::task`].
    pub async fn resume_task(&self, caller: &Caller, id: &str) -> Result<Task, Fault> {
        // A client is never the operator.
        if !matches!(*caller.principal, Principal::Operator) {
            return Err(Fault::UnknownTask);
        }
        let task = self.task(caller, id).await?;
        let is_kept = self.journals.journal(task.id).await?.is_some_and(|journal| journal.entries > 0);
        let not_resumed = |why: Refusal| Fault::InvalidParams(format!("The task was not resumed: {why}"));
        if task.resume.is_some_and(|resume| resume.is_stuck) && !is_kept {
            return Err(not_resumed(Refusal::NotResumable));
        }
        match self.change(task.id, &Event::Retried, &caller.by()).await? {
            CommitOutcome::Done(task) => Ok(task),
            CommitOutcome::Refused(_, refusal) => Err(not_resumed(refusal)),
            CommitOutcome::Gone => Err(Fault::UnknownTask),
        }
    }

    /// Cancels a task. The cancel is final before this returns, and the host stops the guest (T-34
    /// to T-36).
    ///
    /// # Errors
    /// [`Fault::AlreadyOver`], else as [`Tasks::task`].
    pub async fn cancel_task(&self, caller: &Caller, id: &str) -> Result<Task, Fault> {
        self.cancel_by(caller, id, caller.by()).await
    }

    /// Cancels a task; the audit log names `by`.
    pub(crate) async fn cancel_by(&self, caller: &Caller, id: &str, by: By) -> Result<Task, Fault> {
        let task = self.task(caller, id).await?;
        let message = match caller.owner {
            Some(_) => "The task was cancelled by request.",
            None => "The task was cancelled by the operator of this host.",
        };
        let cancelled = Event::Cancelled { message: message.to_owned() };
        match self.change(task.id, &cancelled, &by).await? {
            CommitOutcome::Done(task) => {
                tracing::info!(
                    event = "task.cancelled", task = %task.id, tool = task.tool,
                    owner = name_of(&task.owner), reason = "request",
                    "task cancelled"
                );
                Ok(task)
            }
            CommitOutcome::Refused(task, Refusal::Terminal) => Err(Fault::AlreadyOver(task.status())),
            // A cancellation is refused for no other reason.
            CommitOutcome::Refused(..) | CommitOutcome::Gone => Err(Fault::UnknownTask),
        }
    }

    /// Accepts a client's answers by key (26T-17). Answers to questions that are not open are
    /// ignored. The host asks again, under another key, for an answer that does not fit (26T-22);
    /// after a few attempts the guest gets it as it is.
    ///
    /// # Errors
    /// As [`Tasks::task`]; [`Fault::InvalidParams`] for an answer that is too large, or not the caller's to give.
    pub async fn update_task(
        &self,
        caller: &Caller,
        id: &str,
        responses: HashMap<String, RawJson>,
    ) -> Result<(), Fault> {
        let task = self.task(caller, id).await?;
        // Sorted, so that a simulation can be repeated.
        let responses: BTreeMap<String, RawJson> = responses.into_iter().collect();
        for (wire_key, response) in responses {
            let question = task.open_questions().find(|question| question.wire_key() == wire_key);
            let Some(question) = question else {
                tracing::debug!(task = %task.id, "an answer to a question that does not wait for one");
                continue;
            };
            // The operator decides about approvals elsewhere, and about permissions never.
            let is_for_owner = question.key.starts_with(KEYS) && !question.key.starts_with(DOUBTS);
            if is_for_owner && caller.owner.is_none() {
                let who = "only the owner of this task answers the questions of the host about it";
                return Err(Fault::InvalidParams(who.to_owned()));
            }
            question::check_size(question.kind, &response)
                .map_err(|error| Fault::InvalidParams(error.message.clone()))?;
            let key = question.key.clone();
            let event = match question::given(question.kind, false, &response) {
                Ok(ClientAnswer::Answer(answer)) => Event::Answered { key, answer: Ok(answer) },
                Ok(ClientAnswer::Task(_)) | Err(_) if question.asked_again < MAX_ASKED_AGAIN => {
                    Event::AskedAgain { fence: None, key }
                }
                Ok(ClientAnswer::Task(_)) => {
                    let error = RpcError::invalid_params("a task is no answer here");
                    Event::Answered { key, answer: Err(AskError::Refused(error)) }
                }
                Err(error) => Event::Answered { key, answer: Err(AskError::Refused(error)) },
            };
            // Another answer may have come first; that one counts.
            self.change(task.id, &event, &caller.by()).await?;
        }
        Ok(())
    }

    /// The task now, and after each change that a client would see, until it ends or the caller may
    /// no longer see it. A slow reader misses states in between, but never the last one.
    pub fn follow_task(
        self: &Arc<Self>,
        caller: Caller,
        id: TaskId,
    ) -> impl Stream<Item = Task> + Send + use<> {
        // Of the task it keeps no more than this: its arguments and result may be large.
        let begin = (self.clone(), caller, None::<Timestamp>, true);
        stream::unfold(begin, move |(dispatch, caller, last, is_live)| async move {
            if !is_live {
                return None;
            }
            let task = dispatch.next_change(&caller, id, last).await?;
            let (last, is_live) = (Some(task.updated_at), task.is_live());
            Some((task, (dispatch, caller, last, is_live)))
        })
    }

    /// The task once it has changed since `last`.
    async fn next_change(&self, caller: &Caller, id: TaskId, last: Option<Timestamp>) -> Option<Task> {
        let watch = self.waiters.watch(id);
        loop {
            let changed = watch.changed();
            tokio::pin!(changed);
            changed.as_mut().enable();
            let left = match self.own(caller, id).await {
                Ok(task) if last != Some(task.updated_at) => return Some(task),
                Ok(task) => Duration::from_millis(task.expires_at().since(self.clock.now()) + 50),
                Err(Fault::Store(error)) => {
                    log_store_retry(Some(id), &error);
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

    /// The caller's own task, expired if its ttl has passed. A task that does not exist and a task
    /// of another owner are one read that finds nothing.
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
            // A task without an owner is visible to everyone who knows its id.
            found = self.store.read(id, Some(&Owner::Anyone)).await?;
        }
        let Some(ReadTask { task, now }) = found else { return Err(Fault::UnknownTask) };
        if task.is_gone(now) {
            return Err(Fault::UnknownTask);
        }
        if task.is_live() && now >= task.expires_at() {
            return match self.expire(id).await? {
                CommitOutcome::Done(task) | CommitOutcome::Refused(task, _) => Ok(task),
                CommitOutcome::Gone => Err(Fault::UnknownTask),
            };
        }
        Ok(task)
    }
}

/// The outcome as a plain call has it, for a client that knows no tasks; `None` before the end.
pub(crate) fn outcome_of(task: &Task) -> Option<Result<RawJson, RpcError>> {
    Some(match task.outcome.as_ref()? {
        Outcome::Result { result, .. } => Ok(result.clone()),
        Outcome::Error(error) => Err(error.clone()),
        Outcome::Cancelled => Ok(text_result("The task was cancelled. It has no result.", true)),
        Outcome::Expired => Ok(text_result("The task did not end within its time. It has no result.", true)),
    })
}

/// The result that the plain call would have had (T-25), or the fixed errors for ends that no plain
/// call has (T-28).
fn plain_outcome(task: &Task) -> Option<Result<RawJson, RpcError>> {
    let id = task.id.to_string();
    let no_result = |message: String| {
        RpcError::internal(message)
            .with_data(&serde_json::json!({"taskId": id, "status": task.status().as_str()}))
    };
    Some(match task.outcome.as_ref()? {
        Outcome::Result { result, .. } => Ok(with_related_task(result, &id)),
        // A client with a session has no error code for it, so the tool says what is missing.
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
