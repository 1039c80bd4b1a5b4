//! Prompts and completion, and how the host asks one plugin for them (PR-2 to PR-4, CO-1 to CO-3).
//! Resources, for which it asks several plugins, are in [`resources`](crate::call::resources).

use crate::access::caller::Caller;
use crate::access::permit::AskPermit;
use crate::access::rules::{Object, ObjectKind};
use crate::application::Dispatch;
use crate::catalog::tools_list::page_of;
use crate::client::client_channel::ClientChannel;
use crate::error::Fault;
use crate::run::client::Client;
use crate::run::questions::round_trip::{InputRequired, RequestBinding, RoundTrip};
use crate::run::run::{DriveEnd, Run};
use crate::run::setup::Setup;
use crate::slots::Slots;
use crate::slots::admission::{LimitReached, SlotRequest};
use crate::slots::stop::Stop;
use futures_util::FutureExt as _;
use std::sync::Arc;
use std::time::Duration;
use toolyard_protocol::completion::{CompleteParams, Reference, has_variable};
use toolyard_protocol::page::page;
use toolyard_protocol::prompts::GetParams;
use toolyard_protocol::stateless::input::Retry;
use toolyard_protocol::{RawJson, RpcError};
use toolyard_task::Provider;
use toolyard_task::provider::{ProviderAnswer, Retrieval, RetrievalEnd};

/// A request to plugins, and how the host reaches its client meanwhile.
pub struct ProviderRequest<'a> {
    /// The caller.
    pub caller: &'a Caller,
    /// Stops the run (C-1).
    pub stop: Arc<Stop>,
    /// The channel for notices and questions.
    pub channel: Arc<dyn ClientChannel>,
    /// The token for progress notifications.
    pub progress_token: Option<RawJson>,
    /// The state and answers of an earlier round (26M-4); `None` with sessions.
    pub retry: Option<Retry>,
}

/// The reply to a request for a prompt or a resource.
#[derive(Debug)]
pub enum FetchReply {
    /// The result.
    Done(RawJson),
    /// The client must first answer, and then repeat the request (26M-2).
    InputRequired(InputRequired),
}

/// The end of a provider's run.
pub(crate) enum ProviderEnd {
    Done(ProviderAnswer),
    InputRequired(InputRequired),
}

/// Why a run of a plugin gave nothing.
pub(crate) enum ProviderFailure {
    /// There was no slot for it.
    Full(LimitReached),
    /// The run did not end in this time.
    Late(Duration),
    /// The plugin said so, or failed.
    Failed(RpcError),
    /// The whole request ends.
    Over(Fault),
}

impl ProviderFailure {
    /// The fault, where the request was for this plugin alone.
    pub fn fault(self, slots: &Slots) -> Fault {
        match self {
            Self::Full(full) => slots.busy(full),
            Self::Late(time) => {
                Fault::Answered(RpcError::internal(format!("The plugin did not answer within {time:?}")))
            }
            Self::Failed(error) => Fault::Answered(error),
            Self::Over(fault) => fault,
        }
    }
}

/// How long a run may take, and where it begins.
#[derive(Clone, Copy)]
pub(crate) struct RunBound {
    /// None: as long as the limits of the plugin allow.
    pub time: Option<Duration>,
    /// Whether it may begin on the thread that serves the client. Not if several begin at once, because
    /// each may compute there for a while.
    pub here: bool,
}

impl RunBound {
    /// For a request that is for one plugin.
    pub const NONE: Self = Self { time: None, here: true };
}

/// Stops a run when dropped, so that no run outlives its waiter.
struct StopsRun<'a> {
    stop: Arc<Stop>,
    provider: &'a Arc<dyn Provider>,
}

impl Drop for StopsRun<'_> {
    fn drop(&mut self) {
        if self.stop.set() {
            // After the flag is set: the guest must see it when it looks.
            self.provider.interrupt();
        }
    }
}

impl Dispatch {
    /// The result of `prompts/list` (PR-2).
    ///
    /// # Errors
    /// [`Fault::InvalidCursor`].
    pub async fn list_prompts(&self, caller: &Caller, cursor: Option<&str>) -> Result<RawJson, Fault> {
        const SCOPE: &str = "prompts";
        let after = match cursor {
            Some(cursor) => Some(self.deps.clients.open_cursor(SCOPE, cursor).await?),
            None => None,
        };
        let (prompts, more) = self.prompts_after(caller, after.as_deref());
        let next = match prompts.last() {
            Some((last, _)) if more => Some(self.deps.clients.seal_cursor(SCOPE, last).await?),
            _ => None,
        };
        Ok(page("prompts", prompts.iter().map(|(_, entry)| entry), next.as_deref()))
    }

    /// A page of the caller's prompts, each with its name, and whether more follow.
    fn prompts_after(&self, caller: &Caller, after: Option<&str>) -> (Vec<(String, RawJson)>, bool) {
        let catalog = self.deps.catalog.current();
        let mut prompts = catalog
            .prompts()
            .filter(|prompt| after.is_none_or(|after| prompt.name.as_str() > after))
            .filter(|prompt| self.deps.access.shows(caller, Object::Prompt(&prompt.name)))
            .map(|prompt| (prompt.name.clone(), RawJson::of(prompt)));
        page_of(&mut prompts, self.deps.settings.page, |(_, entry)| entry.as_bytes().len())
    }

    /// The result of `prompts/get` (PR-3).
    ///
    /// # Errors
    /// [`Fault::UnknownPrompt`], [`Fault::Answered`] with the fault of the arguments or the plugin's
    /// error; else as [`Dispatch::list_resources`].
    pub async fn get_prompt(
        self: &Arc<Self>,
        request: ProviderRequest<'_>,
        params: GetParams,
    ) -> Result<FetchReply, Fault> {
        let unknown = || Fault::UnknownPrompt(toolyard_protocol::visible::clip(&params.name, 128));
        let permit = self
            .deps
            .access
            .permit(request.caller, Object::Prompt(&params.name))
            .map_err(|denial| denial.or(unknown))?;
        let catalog = self.deps.catalog.current();
        let (provider, prompt) = catalog.prompt(&params.name).ok_or_else(unknown)?;
        params.check(prompt).map_err(Fault::Answered)?;
        let retrieval = Retrieval::Prompt { arguments: RawJson::of(&params.arguments), name: params.name };
        match self.retrieve(&permit, &request, provider, retrieval).await? {
            ProviderEnd::Done(ProviderAnswer::Prompt(result)) => Ok(FetchReply::Done(result)),
            ProviderEnd::InputRequired(input) => Ok(FetchReply::InputRequired(input)),
            _ => Err(Fault::Answered(RpcError::internal("The plugin gave something else than a prompt"))),
        }
    }

    /// The result of `completion/complete` (CO-2).
    ///
    /// # Errors
    /// [`Fault::NothingToComplete`] for an unknown prompt, template or argument
    /// (CO-3); else as [`Dispatch::get_prompt`].
    pub async fn complete(
        self: &Arc<Self>,
        request: ProviderRequest<'_>,
        params: CompleteParams,
    ) -> Result<RawJson, Fault> {
        let unknown = |what: String| Err(Fault::NothingToComplete(what));
        let (object, nothing) = match &params.reference {
            Reference::Prompt { name } => (Object::Prompt(name), "there is no such prompt"),
            Reference::Template { uri } => (Object::Resource(uri), "there is no such resource template"),
        };
        let nothing = || Fault::NothingToComplete(nothing.to_owned());
        let permit = self.deps.access.permit(request.caller, object).map_err(|denial| denial.or(nothing))?;
        let argument = toolyard_protocol::visible::clip(&params.name, 128);
        let catalog = self.deps.catalog.current();
        let provider = match &params.reference {
            Reference::Prompt { name } => {
                let (provider, prompt) = catalog.prompt(name).ok_or_else(nothing)?;
                if !prompt.arguments.iter().any(|known| known.name == params.name) {
                    return unknown(format!("the prompt has no argument `{argument}`"));
                }
                provider.clone()
            }
            Reference::Template { uri } => {
                let provider =
                    self.provider_of_template(&permit, &request, uri).await?.ok_or_else(nothing)?;
                if !has_variable(uri, &params.name) {
                    return unknown(format!("the template has no variable `{argument}`"));
                }
                provider
            }
        };
        if !provider.spec().has_completion {
            return Ok(RawJson::trusted(r#"{"completion":{"values":[],"total":0,"hasMore":false}}"#));
        }
        let CompleteParams { reference, name, value, settled } = params;
        let retrieval = Retrieval::Complete { reference, name, value, settled: RawJson::of(&settled) };
        match self.retrieve(&permit, &request, &provider, retrieval).await? {
            ProviderEnd::Done(ProviderAnswer::Completion(result)) => Ok(result),
            _ => Err(Fault::Answered(RpcError::internal("The plugin gave something else than a completion"))),
        }
    }

    /// Runs a plugin, as long as the limits of the plugin allow.
    pub(crate) async fn retrieve(
        self: &Arc<Self>,
        permit: &AskPermit,
        request: &ProviderRequest<'_>,
        provider: &Arc<dyn Provider>,
        retrieval: Retrieval,
    ) -> Result<ProviderEnd, Fault> {
        let served = self.retrieve_within(permit, request, provider, retrieval, RunBound::NONE).await;
        served.map_err(|failure| failure.fault(&self.deps.slots))
    }

    /// Runs a plugin within bounds. The run is stopped when its time is up, when its client
    /// cancels or is gone, and when this future is dropped.
    pub(crate) async fn retrieve_within(
        self: &Arc<Self>,
        permit: &AskPermit,
        request: &ProviderRequest<'_>,
        provider: &Arc<dyn Provider>,
        retrieval: Retrieval,
        bound: RunBound,
    ) -> Result<ProviderEnd, ProviderFailure> {
        if self.deps.slots.closing.is_set() {
            return Err(ProviderFailure::Over(Fault::Closing));
        }
        let stops = StopsRun { stop: Arc::new(Stop::default()), provider };
        let run = self.run_provider(permit, request, provider, retrieval, (stops.stop.clone(), bound.here));
        let time = async {
            match bound.time {
                Some(time) => {
                    tokio::time::sleep(time).await;
                    time
                }
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            served = run => {
                // It has ended; there is nothing to interrupt.
                stops.stop.set();
                served
            }
            () = request.stop.wait() => Err(ProviderFailure::Over(self.stop_fault())),
            time = time => Err(ProviderFailure::Late(time)),
        }
    }

    async fn run_provider(
        self: &Arc<Self>,
        permit: &AskPermit,
        request: &ProviderRequest<'_>,
        provider: &Arc<dyn Provider>,
        retrieval: Retrieval,
        (stop, here): (Arc<Stop>, bool),
    ) -> Result<ProviderEnd, ProviderFailure> {
        let round_trip = match (&request.retry, binding_of(request.caller, &retrieval)) {
            (Some(retry), Some(binding)) => Some(
                RoundTrip::begin(&self.deps, binding, retry.clone()).await.map_err(ProviderFailure::Over)?,
            ),
            _ => None,
        };
        debug_assert_eq!(permit.kind(), kind_of(&retrieval), "a permit is for one kind of object");
        let slot_request = SlotRequest::of_asking(permit, provider);
        let work = slot_request.work().clone();
        let mut slot = self.deps.slots.admission.admit(slot_request).map_err(ProviderFailure::Full)?;
        let mut client = Client::of(
            request.caller,
            permit.share().clone(),
            request.channel.clone(),
            request.progress_token.clone(),
        );
        if request.retry.is_some() && round_trip.is_none() {
            // 26M-1: the host asks a stateless client nothing in any other request.
            client.capabilities = RawJson::empty_object();
        }
        let setup = Setup {
            // Lists and look-ups of a resource go through every plugin: no user should be asked
            // about plugins that have nothing to do with the request.
            asks_permission: matches!(retrieval, Retrieval::Prompt { .. }),
            round_trip,
            ..Setup::new(work, stop, client)
        };
        let run = Run::new(self.deps.clone(), setup);
        let work = provider.clone().serve(retrieval, slot.take_reservation(), run.clone());
        let over = || ProviderFailure::Over(self.stop_fault());
        match run.to_end(slot, run.clone().drive(work).boxed(), here).await {
            Some(DriveEnd::Done(RetrievalEnd::Done(retrieved))) => Ok(ProviderEnd::Done(retrieved)),
            Some(DriveEnd::Suspended) if !run.stop.is_set() => match &run.questions.round_trip {
                Some(round_trip) => {
                    let input = round_trip.outcome(&self.deps).await.map_err(ProviderFailure::Over)?;
                    Ok(ProviderEnd::InputRequired(input))
                }
                None => Err(over()),
            },
            Some(DriveEnd::Done(RetrievalEnd::Failed(error))) => Err(ProviderFailure::Failed(error)),
            Some(DriveEnd::Panicked) => {
                Err(ProviderFailure::Failed(RpcError::internal("The engine failed during this request")))
            }
            _ => Err(over()),
        }
    }
}

/// The request that a state is bound to. Only these requests have round trips (26M-1).
fn binding_of(caller: &Caller, retrieval: &Retrieval) -> Option<RequestBinding> {
    match retrieval {
        Retrieval::Read { uri } => {
            Some(RequestBinding::of(caller, "resources/read", uri.clone(), RawJson::empty_object()))
        }
        Retrieval::Prompt { name, arguments } => {
            Some(RequestBinding::of(caller, "prompts/get", name.clone(), arguments.clone()))
        }
        Retrieval::Resources { .. } | Retrieval::Templates | Retrieval::Complete { .. } => None,
    }
}

/// The kind of object that this asks for.
const fn kind_of(retrieval: &Retrieval) -> ObjectKind {
    match retrieval {
        Retrieval::Resources { .. } | Retrieval::Templates | Retrieval::Read { .. } => ObjectKind::Resource,
        Retrieval::Complete { reference: Reference::Template { .. }, .. } => ObjectKind::Resource,
        Retrieval::Prompt { .. } | Retrieval::Complete { .. } => ObjectKind::Prompt,
    }
}
