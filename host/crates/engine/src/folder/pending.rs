//! Plugins whose definitions are known from an earlier load of their component, which is being compiled again, as after
//! an upgrade of the host. Their tools are listed as they will be, and a call waits for the component.

use crate::convert::encode;
use crate::folder::plugin::Plugin;
use futures_util::future::BoxFuture;
use std::sync::Arc;
use tokio::sync::watch;
use toolyard_task::tool::{ArgumentCheck, CheckOrder, ToolSpec};
use toolyard_task::wire::RawJson;
use toolyard_task::{Digest, Reservation, RunContext, RunEnd, Tool};

/// The plugin, if there is one. Why there is none is for the operator: it may name paths and secrets.
type Outcome = Option<Arc<Plugin>>;

/// The definitions of a component that is being compiled.
pub(crate) struct KnownDefinitions {
    pub file: String,
    pub tools: Vec<ToolSpec>,
}

/// A plugin that is being compiled.
pub(crate) struct PendingPlugin {
    pub tools: Vec<Arc<dyn Tool>>,
    outcome: watch::Sender<Option<Outcome>>,
}

/// A tool of such a plugin.
struct PendingTool {
    spec: ToolSpec,
    outcome: watch::Receiver<Option<Outcome>>,
}

impl PendingPlugin {
    pub fn new(tools: Vec<ToolSpec>) -> Self {
        let (sender, outcome) = watch::channel(None);
        let tool = |spec| Arc::new(PendingTool { spec, outcome: outcome.clone() }) as Arc<dyn Tool>;
        Self { tools: tools.into_iter().map(tool).collect(), outcome: sender }
    }

    /// Lets the calls go on that wait for it.
    pub fn settle(self, outcome: Outcome) {
        self.outcome.send_replace(Some(outcome));
    }
}

impl PendingTool {
    /// Waits for the tool. The error is for the model.
    async fn ready(&self) -> Result<Arc<dyn Tool>, String> {
        let name = self.spec.name();
        let gone = || format!("The tool `{name}` is not offered any more");
        let mut outcome = self.outcome.clone();
        let settled = outcome.wait_for(Option::is_some).await.map_err(|_| gone())?.clone();
        let plugin = settled.flatten().ok_or_else(gone)?;
        let tool = plugin.tools.iter().find(|tool| tool.spec == self.spec);
        tool.map(|tool| tool.clone() as Arc<dyn Tool>).ok_or_else(gone)
    }
}

impl Tool for PendingTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn check(&self, _: &RawJson) -> ArgumentCheck {
        ArgumentCheck::Unfinished
    }

    fn check_fully(
        self: Arc<Self>,
        arguments: RawJson,
        order: CheckOrder,
    ) -> BoxFuture<'static, ArgumentCheck> {
        Box::pin(async move {
            match self.ready().await {
                Ok(tool) => tool.check_fully(arguments, order).await,
                Err(why) => ArgumentCheck::Misfit(why),
            }
        })
    }

    fn is_quick(&self) -> bool {
        false
    }

    fn run(
        self: Arc<Self>,
        arguments: RawJson,
        _: Reservation,
        context: Arc<dyn RunContext>,
    ) -> BoxFuture<'static, RunEnd> {
        Box::pin(async move {
            let tool = match self.ready().await {
                Ok(tool) => tool,
                Err(why) => return encode::error(&why),
            };
            match tool.reserve() {
                Ok(reservation) => tool.run(arguments, reservation, context).await,
                Err(_) => encode::error("The host has no room for this run now; call the tool again"),
            }
        })
    }

    fn interrupt(&self) {}

    fn of_component(self: Arc<Self>, digest: Digest) -> BoxFuture<'static, Result<Arc<dyn Tool>, String>> {
        Box::pin(async move { self.ready().await?.of_component(digest).await })
    }
}
