//! The parts of a run that its other parts need.

use crate::observe::event::RunFacts;
use crate::run::as_task::RunTask;
use crate::run::client::Client;
use crate::run::deps::RunDeps;
use crate::slots::stop::Stop;
use crate::slots::work::RunTarget;

/// The parts of a run that its other parts need.
#[derive(Clone, Copy)]
pub(crate) struct RunView<'a> {
    pub deps: &'a RunDeps,
    pub work: &'a RunTarget,
    pub client: &'a Client,
    pub stop: &'a Stop,
    /// The task that it works on.
    pub task: Option<&'a RunTask>,
    /// Whether it may become a task.
    pub may_be_task: bool,
}

impl<'a> RunView<'a> {
    /// The facts for the receivers of its events.
    pub fn facts(self, usage: Option<&'a toolyard_task::tool::RunUsage>) -> RunFacts<'a> {
        RunFacts {
            tool: self.work.tool_name(),
            task: self.task.map(|task| (task.id, task.fence)),
            principal: self.client.principal.as_deref().map(|principal| principal as &dyn std::fmt::Display),
            usage,
        }
    }
}
