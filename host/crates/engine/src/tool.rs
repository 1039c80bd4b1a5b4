//! A tool of a plugin, as the dispatcher sees it.

use crate::describe::Declared;
use crate::invoke;
use crate::plugin::Base;
use futures_util::future::BoxFuture;
use std::sync::Arc;
use toolyard_task::tool::ToolSpec;
use toolyard_task::wire::RawJson;
use toolyard_task::{RunContext, RunEnd, Tool};

/// One tool and all that a run of it needs.
pub(crate) struct GuestTool {
    pub spec: ToolSpec,
    /// What the guest calls it, without the manifest's prefix.
    pub guest_name: Arc<str>,
    pub declared: Arc<Declared>,
    pub base: Arc<Base>,
}

impl Tool for GuestTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn check(&self, arguments: &RawJson) -> Result<(), String> {
        self.declared.input.check(arguments).map_err(|what| {
            format!("The arguments do not fit the input schema of `{}`: {what}", self.spec.name())
        })
    }

    fn run(self: Arc<Self>, arguments: RawJson, context: Arc<dyn RunContext>) -> BoxFuture<'static, RunEnd> {
        Box::pin(invoke::run(self, arguments, context))
    }

    fn interrupt(&self) {
        self.base.engine.interrupt();
    }
}
