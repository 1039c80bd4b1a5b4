//! The events of a run, for all that receive them besides its client.

use crate::observe::call_end::CallEnd;
use crate::observe::host_call_log::HostCalls;
use std::fmt::Display;
use toolyard_protocol::RawJson;
use toolyard_protocol::question::CheckedQuestion;
use toolyard_task::host_call::HostCall;
use toolyard_task::tool::{GivenAnswer, Report, RunUsage};
use toolyard_task::{Fence, RunEnd, TaskId};

/// An event of a run.
#[derive(Clone, Copy)]
pub(crate) enum RunEvent<'a> {
    /// The guest begins, with these arguments.
    Started(&'a RawJson),
    /// The call is a task from now on, and durable.
    IsTask,
    /// The guest reports something; the client may never see it.
    Reported(&'a Report),
    /// The host has done this for the guest. Only of the calls that are listed one by one.
    HostCall(&'a HostCall),
    /// The guest asks this question, and is allowed to.
    Asked {
        /// The key that the guest gives the question.
        key: &'a str,
        question: &'a CheckedQuestion,
    },
    /// The guest got this answer, or none.
    Answered(&'a GivenAnswer),
    /// The run has ended, and the guest is gone.
    Ended {
        end: &'a RunEnd,
        called: CallEnd,
        /// Why it was stopped.
        cause: Option<&'static str>,
        host_calls: &'a HostCalls,
    },
}

/// The facts about a run that its receivers need.
#[derive(Clone, Copy)]
pub(crate) struct RunFacts<'a> {
    /// The name of the tool; `None` for a provider.
    pub tool: Option<&'a str>,
    /// The task that it works on.
    pub task: Option<(TaskId, Fence)>,
    pub principal: Option<&'a dyn Display>,
    /// The resources that the guest used, once it has ended.
    pub usage: Option<&'a RunUsage>,
}

/// A receiver of the events of a run. It must not block: the run waits for it.
pub(crate) trait EventSink {
    fn receive(&self, run: &RunFacts<'_>, event: RunEvent<'_>);
}

impl<S: EventSink> EventSink for Option<&S> {
    fn receive(&self, run: &RunFacts<'_>, event: RunEvent<'_>) {
        if let Some(sink) = self {
            sink.receive(run, event);
        }
    }
}
