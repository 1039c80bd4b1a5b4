//! The target of a run: a tool, or a provider of resources and prompts.

use crate::observe::metrics::MeasuredTool;
use std::sync::Arc;
use toolyard_task::tool::ReportBounds;
use toolyard_task::{Digest, Provider, Reservation, ReservationError};

/// The target of a run.
#[derive(Clone)]
pub(crate) enum RunTarget {
    /// A tool.
    Tool(Arc<MeasuredTool>),
    /// A resource, a prompt or a completion.
    Provider(Arc<dyn Provider>),
}

impl RunTarget {
    /// For logs: the tool, or the plugin.
    pub fn name(&self) -> &str {
        self.tool_name().unwrap_or_else(|| self.plugin())
    }

    /// The tool's name, if it is one.
    pub fn tool_name(&self) -> Option<&str> {
        match self {
            Self::Tool(tool) => Some(tool.spec().name()),
            Self::Provider(_) => None,
        }
    }

    /// The file that it comes from.
    pub fn plugin(&self) -> &str {
        self.component().0
    }

    /// How many runs of its plugin there may be at once.
    pub fn concurrency(&self) -> Option<u32> {
        match self {
            Self::Tool(tool) => tool.spec().concurrency,
            Self::Provider(provider) => provider.spec().concurrency,
        }
    }

    /// How many tasks of its plugin may wait.
    pub fn queue(&self) -> Option<u32> {
        match self {
            Self::Tool(tool) => tool.spec().queue,
            // Only tools are called as tasks.
            Self::Provider(_) => None,
        }
    }

    /// The plugin and its component.
    pub fn component(&self) -> (&str, &Digest) {
        match self {
            Self::Tool(tool) => (&tool.spec().plugin, &tool.spec().digest),
            Self::Provider(provider) => (&provider.spec().plugin, &provider.spec().digest),
        }
    }

    /// Reserves the resources that a run of it needs.
    pub fn reserve(&self) -> Result<Reservation, ReservationError> {
        match self {
            Self::Tool(tool) => tool.reserve(),
            Self::Provider(provider) => provider.reserve(),
        }
    }

    /// Whether a run of it may begin on a thread that serves clients.
    pub fn is_quick(&self) -> bool {
        match self {
            Self::Tool(tool) => tool.is_quick(),
            Self::Provider(provider) => provider.is_quick(),
        }
    }

    /// The limits on the reports of a run.
    pub fn bounds(&self) -> ReportBounds {
        match self {
            Self::Tool(tool) => tool.spec().reports,
            Self::Provider(provider) => provider.spec().reports,
        }
    }

    /// Makes it look at its stop signal at once.
    pub fn interrupt(&self) {
        match self {
            Self::Tool(tool) => tool.interrupt(),
            Self::Provider(provider) => provider.interrupt(),
        }
    }
}
