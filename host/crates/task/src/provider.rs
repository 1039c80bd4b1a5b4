//! The offers of a plugin other than tools: resources, prompts, completion.

use crate::id::Digest;
use crate::reservation::{Reservation, ReservationError};
use crate::tool::{ReportBounds, RunContext};
use crate::wire::{PromptDescription, RawJson, Reference, RpcError, UriRange};
use futures_util::future::BoxFuture;
use std::sync::Arc;

/// The resources, prompts and completion of one plugin. As with a [`Tool`](crate::Tool), a request
/// keeps the object that it resolved when the plugin is reloaded.
pub trait Provider: Send + Sync + 'static {
    /// The offers.
    fn spec(&self) -> &ProviderSpec;

    /// The reservation of one run, as [`Tool::reserve`](crate::Tool::reserve).
    ///
    /// # Errors
    /// Why there is none now.
    fn reserve(&self) -> Result<Reservation, ReservationError> {
        Ok(Reservation::UNBOUNDED)
    }

    /// As [`Tool::is_quick`](crate::Tool::is_quick).
    fn is_quick(&self) -> bool {
        true
    }

    /// Serves one request. As with [`Tool::run`](crate::Tool::run), nothing
    /// happens before the first poll, and dropping the future ends the run.
    fn serve(
        self: Arc<Self>,
        request: Retrieval,
        reservation: Reservation,
        context: Arc<dyn RunContext>,
    ) -> BoxFuture<'static, RetrievalEnd>;

    /// Makes runs that are computing look at [`RunContext::stopped`] at once.
    fn interrupt(&self);
}

/// The fixed properties of a provider.
#[derive(Debug, Clone, PartialEq)]
pub struct ProviderSpec {
    /// The plugin's file name, for people.
    pub plugin: String,
    /// The component.
    pub digest: Digest,
    /// How many runs of the plugin there may be at once.
    pub concurrency: Option<u32>,
    /// The limits on the reports of a run.
    pub reports: ReportBounds,
    /// The prompts, under the names that clients use; listed once per component version, like tools.
    pub prompts: Vec<PromptDescription>,
    /// Whether there are prompts at all, even if the list is empty now.
    pub has_prompts: bool,
    /// Whether there are resources.
    pub has_resources: bool,
    /// The URIs that its resources may have, if the manifest bounds them; the host asks it for no
    /// others.
    pub uris: Option<Vec<UriRange>>,
    /// Whether arguments can be completed.
    pub has_completion: bool,
}

/// A request to a provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Retrieval {
    /// A page of its resources.
    Resources {
        /// Where the page begins, in the plugin's own words.
        cursor: Option<String>,
    },
    /// The resource templates of the provider.
    Templates,
    /// The content of a resource.
    Read {
        /// The URI of the resource.
        uri: String,
    },
    /// A prompt, filled in.
    Prompt {
        /// The name of the prompt, as clients use it.
        name: String,
        /// An object of strings.
        arguments: RawJson,
    },
    /// Values for an argument.
    Complete {
        /// The prompt or template, a prompt by the name that clients use.
        reference: Reference,
        /// The argument.
        name: String,
        /// The beginning of its value.
        value: String,
        /// The arguments that are settled already: an object of strings.
        settled: RawJson,
    },
}

/// The answer of a provider, encoded as MCP shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProviderAnswer {
    /// A page of resources.
    Resources {
        /// `Resource` objects.
        entries: Vec<RawJson>,
        /// The cursor of the next page.
        next: Option<String>,
    },
    /// Templates: each with its `uriTemplate`, and the `ResourceTemplate` object.
    Templates(Vec<(String, RawJson)>),
    /// A `ReadResourceResult`; `None` if the resource does not exist.
    Contents(Option<RawJson>),
    /// A `GetPromptResult`.
    Prompt(RawJson),
    /// A `CompleteResult`.
    Completion(RawJson),
}

/// How a request to a provider ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RetrievalEnd {
    /// The requested objects.
    Done(ProviderAnswer),
    /// With an error. Traps, exceeded limits and malformed output also arrive in this way, as `-32603`
    /// with a message that says what happened.
    Failed(RpcError),
    /// The request was stopped because [`RunContext::stopped`] turned true.
    Stopped,
}
