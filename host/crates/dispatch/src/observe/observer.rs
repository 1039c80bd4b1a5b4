//! Calls as they happen, for whoever looks on: a developer at a terminal.
//!
//! What may not live here: what is counted (`metrics.rs`), what is kept of a call when
//! it is over (`trace.rs`), and what goes on record (`audit.rs`). Where nobody looks on,
//! a call pays for one look at whether somebody does.

use crate::Fault;
use crate::observe::Observers;
use std::fmt::Display;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use tokio::time::Instant;
use toolyard_protocol::question::Checked;
use toolyard_protocol::{RawJson, RpcError};
use toolyard_task::tool::{GivenAnswer, Report};
use toolyard_task::{RunEnd, TaskId};

/// Who looks on at calls. Nothing here may wait: a call waits for it.
pub trait Observer: Send + Sync + 'static {
    /// Something happened in a call. Of each call the first event is
    /// [`CallEvent::Began`], the last [`CallEvent::Ended`].
    fn observed(&self, call: &ObservedCall<'_>, event: CallEvent<'_>);
}

/// The call in which something happened.
#[derive(Debug, Clone, Copy)]
pub struct ObservedCall<'a> {
    /// Its number, from 1, in this process.
    pub number: u64,
    /// What was called; there may be no tool of this name.
    pub tool: &'a str,
    /// The task that it is by now.
    pub task: Option<TaskId>,
    /// How long ago it came in.
    pub after: Duration,
}

/// What happened.
#[derive(Debug, Clone, Copy)]
pub enum CallEvent<'a> {
    /// It came in. Nothing has been looked at yet.
    Began {
        /// Who calls, in a word.
        caller: &'a str,
        /// The arguments, an object.
        arguments: &'a RawJson,
    },
    /// It is a task from now on, and durable.
    IsTask,
    /// The guest reports something; whether the client is told is another matter.
    Reported(&'a Report),
    /// The guest asks this, and may.
    Asked {
        /// Its name for the question.
        key: &'a str,
        /// The method.
        method: &'static str,
        /// The params, an object.
        params: &'a RawJson,
    },
    /// It got this answer, or none.
    Answered(&'a GivenAnswer),
    /// It is over.
    Ended(CallOutcome<'a>),
}

/// How an observed call ended.
#[derive(Debug, Clone, Copy)]
pub enum CallOutcome<'a> {
    /// With a result.
    Result {
        /// Its `isError`.
        is_error: bool,
        /// The `CallToolResult`.
        result: &'a RawJson,
    },
    /// With an error of the tool's own.
    Error(&'a RpcError),
    /// It was not taken in.
    Refused(&'a Fault),
    /// It was stopped: cancelled, out of its ttl, or the host stopped.
    Stopped,
}

/// Who looks on, if anybody does.
#[derive(Default)]
pub(crate) struct Gallery {
    observer: OnceLock<Arc<dyn Observer>>,
    calls: AtomicU64,
}

/// One call that is looked at; shared by the request and the run. Dropped before its
/// end was told, it was stopped.
pub(crate) struct Observation {
    observer: Arc<dyn Observer>,
    number: u64,
    tool: String,
    began: Instant,
    course: Mutex<Course>,
}

#[derive(Default)]
struct Course {
    task: Option<TaskId>,
    over: bool,
}

impl Observers {
    /// Has somebody look on at calls from now on. Only the first to be named counts.
    pub fn observe_by(&self, observer: Arc<dyn Observer>) {
        drop(self.gallery.observer.set(observer));
    }

    /// A call comes in.
    pub fn observe(&self, caller: &dyn Display, tool: &str, arguments: &RawJson) -> Option<Arc<Observation>> {
        let observer = self.gallery.observer.get()?;
        let observation = Observation {
            observer: observer.clone(),
            number: self.gallery.calls.fetch_add(1, Ordering::Relaxed) + 1,
            tool: toolyard_protocol::error::clip(tool, 128),
            began: Instant::now(),
            course: Mutex::default(),
        };
        let caller = caller.to_string();
        observation.tell(CallEvent::Began { caller: &caller, arguments });
        Some(Arc::new(observation))
    }
}

impl Observation {
    /// Something happened. After the end nothing does.
    pub fn tell(&self, event: CallEvent<'_>) {
        let task = {
            let course = self.lock();
            if course.over {
                return;
            }
            course.task
        };
        self.show(task, event);
    }

    /// It is this task from now on.
    pub fn set_task(&self, task: TaskId) {
        self.lock().task = Some(task);
        self.tell(CallEvent::IsTask);
    }

    /// The guest asks this under that key.
    pub fn asked(&self, key: &str, question: &Checked) {
        let method = question.kind.method();
        self.tell(CallEvent::Asked { key, method, params: &question.params });
    }

    /// It got these answers.
    pub fn answered(&self, answers: &[GivenAnswer]) {
        for answer in answers {
            self.tell(CallEvent::Answered(answer));
        }
    }

    /// The run is over.
    pub fn ended(&self, end: &RunEnd) {
        self.end(match end {
            RunEnd::Result { is_error, result, .. } => CallOutcome::Result { is_error: *is_error, result },
            RunEnd::Error(error) => CallOutcome::Error(error),
            RunEnd::Stopped => CallOutcome::Stopped,
        });
    }

    /// The call is over; the first who says so is believed. It ends a call that had no run.
    pub fn end(&self, outcome: CallOutcome<'_>) {
        let task = {
            let mut course = self.lock();
            if std::mem::replace(&mut course.over, true) {
                return;
            }
            course.task
        };
        self.show(task, CallEvent::Ended(outcome));
    }

    fn show(&self, task: Option<TaskId>, event: CallEvent<'_>) {
        let call = ObservedCall { number: self.number, tool: &self.tool, task, after: self.began.elapsed() };
        self.observer.observed(&call, event);
    }

    fn lock(&self) -> MutexGuard<'_, Course> {
        self.course.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Observation {
    fn drop(&mut self) {
        self.end(CallOutcome::Stopped);
    }
}
