//! A live view of calls, for a developer at a terminal.
//!
//! Not here: metrics (`metrics.rs`), traces (`trace.rs`) and audit entries (`audit.rs`). Without an
//! observer, a call only pays for the check whether there is one.

use crate::error::Fault;
use crate::observe::Observers;
use crate::observe::event::{EventSink, RunEvent, RunFacts};
use parking_lot::Mutex;
use std::fmt::Display;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::time::Instant;
use toolyard_protocol::{RawJson, RpcError};
use toolyard_task::tool::{GivenAnswer, Report};
use toolyard_task::{RunEnd, TaskId};

/// An observer of calls. It must not block: the call waits for it.
pub trait Observer: Send + Sync + 'static {
    /// Something happened in a call. The first event of each call is [`CallEvent::Began`], the last is
    /// [`CallEvent::Ended`].
    fn observed(&self, call: &ObservedCall<'_>, event: CallEvent<'_>);
}

/// The call in which something happened.
#[derive(Debug, Clone, Copy)]
pub struct ObservedCall<'a> {
    /// The number of the call, from 1, in this process.
    pub number: u64,
    /// The requested tool, which may not exist.
    pub tool: &'a str,
    /// The task that it is by now.
    pub task: Option<TaskId>,
    /// How long ago it came in.
    pub after: Duration,
}

/// An event of a call.
#[derive(Debug, Clone, Copy)]
pub enum CallEvent<'a> {
    /// The call came in. Nothing has been looked at yet.
    Began {
        /// The principal, as a short text.
        caller: &'a str,
        /// The arguments, an object.
        arguments: &'a RawJson,
    },
    /// The call is a task from now on, and durable.
    IsTask,
    /// The guest reports something; the client may never see it.
    Reported(&'a Report),
    /// The guest asks this question, and is allowed to.
    Asked {
        /// The key that the guest gives the question.
        key: &'a str,
        /// The method.
        method: &'static str,
        /// The params, an object.
        params: &'a RawJson,
    },
    /// The guest got this answer, or none.
    Answered(&'a GivenAnswer),
    /// The call has ended.
    Ended(CallOutcome<'a>),
}

/// How an observed call ended.
#[derive(Debug, Clone, Copy)]
pub enum CallOutcome<'a> {
    /// With a result.
    Result {
        /// The `isError` of the result.
        is_error: bool,
        /// The `CallToolResult`.
        result: &'a RawJson,
    },
    /// With an error of the tool's own.
    Error(&'a RpcError),
    /// The call was not accepted.
    Refused(&'a Fault),
    /// The call was stopped: cancelled, out of its ttl, or the host stopped.
    Stopped,
}

/// The observer, if one is set, and the count of observed calls.
#[derive(Default)]
pub(crate) struct ObserverHandle {
    observer: OnceLock<Arc<dyn Observer>>,
    calls: AtomicU64,
}

/// An observed call, shared by the request and the run. Dropping it before the end reports the call
/// as stopped.
pub(crate) struct Observation {
    observer: Arc<dyn Observer>,
    number: u64,
    tool: String,
    began: Instant,
    state: Mutex<CallState>,
}

#[derive(Default)]
struct CallState {
    task: Option<TaskId>,
    over: bool,
}

impl Observers {
    /// Sets the observer of calls. The first one stays.
    pub fn set_observer(&self, observer: Arc<dyn Observer>) {
        drop(self.observer.observer.set(observer));
    }

    /// A call comes in.
    pub(crate) fn observe(
        &self,
        caller: &dyn Display,
        tool: &str,
        arguments: &RawJson,
    ) -> Option<Arc<Observation>> {
        let observer = self.observer.observer.get()?;
        let observation = Observation {
            observer: observer.clone(),
            number: self.observer.calls.fetch_add(1, Ordering::Relaxed) + 1,
            tool: toolyard_protocol::visible::clip(tool, 128),
            began: Instant::now(),
            state: Mutex::default(),
        };
        let caller = caller.to_string();
        observation.tell(CallEvent::Began { caller: &caller, arguments });
        Some(Arc::new(observation))
    }
}

impl Observation {
    /// Something happened. After the end nothing does.
    fn tell(&self, event: CallEvent<'_>) {
        let task = {
            let state = self.state.lock();
            if state.over {
                return;
            }
            state.task
        };
        self.show(task, event);
    }

    /// Reports the end of the call; only the first end counts. This also ends a call that had no
    /// run.
    pub fn end(&self, outcome: CallOutcome<'_>) {
        let task = {
            let mut state = self.state.lock();
            if std::mem::replace(&mut state.over, true) {
                return;
            }
            state.task
        };
        self.show(task, CallEvent::Ended(outcome));
    }

    fn show(&self, task: Option<TaskId>, event: CallEvent<'_>) {
        let call = ObservedCall { number: self.number, tool: &self.tool, task, after: self.began.elapsed() };
        self.observer.observed(&call, event);
    }
}

impl EventSink for Observation {
    fn receive(&self, run: &RunFacts<'_>, event: RunEvent<'_>) {
        match event {
            RunEvent::IsTask => {
                self.state.lock().task = run.task.map(|(task, _)| task);
                self.tell(CallEvent::IsTask);
            }
            RunEvent::Reported(report) => self.tell(CallEvent::Reported(report)),
            RunEvent::Asked { key, question } => {
                let method = question.kind.method();
                self.tell(CallEvent::Asked { key, method, params: &question.params });
            }
            RunEvent::Answered(answer) => self.tell(CallEvent::Answered(answer)),
            RunEvent::Ended { end, .. } => self.end(match end {
                RunEnd::Result { is_error, result, .. } => {
                    CallOutcome::Result { is_error: *is_error, result }
                }
                RunEnd::Error(error) => CallOutcome::Error(error),
                RunEnd::Stopped => CallOutcome::Stopped,
            }),
            RunEvent::Started(_) | RunEvent::HostCall(_) => {}
        }
    }
}

impl Drop for Observation {
    fn drop(&mut self) {
        self.end(CallOutcome::Stopped);
    }
}
