//! The offer of a plugin besides tools, for the dispatcher: resources, prompts, completion.

use crate::bindings::exports::toolyard::plugin::completion::Reference as GuestReference;
use crate::component::exports::{
    CallParams, CompleteParams, Completed, Got, Page, PageParams, Read, Templates,
};
use crate::convert::encode::{prompt, resource};
use crate::convert::guest_error::{call_error, rpc_error};
use crate::limits::failure::Failure;
use crate::limits::first_poll::FirstPolls;
use crate::run::invoke::{self, ContractCall, Invocation, RunOutcome, Subject};
use crate::run::loaded::PluginBase;
use futures_util::future::BoxFuture;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use toolyard_task::provider::{ProviderAnswer, ProviderSpec, Retrieval, RetrievalEnd};
use toolyard_task::wire::visible::clip;
use toolyard_task::wire::{RawJson, Reference, RpcError};
use toolyard_task::{Provider, Reservation, ReservationError, RunContext};
use wasmtime::component::{ComponentExportIndex, ComponentNamedList, Lift, Lower};

/// The maximum number of characters of a client's name or URI that are repeated to it.
const MAX_SHOWN_CHARS: usize = 200;

/// The resources, prompts and completion of one plugin.
pub(crate) struct GuestProvider {
    pub spec: ProviderSpec,
    /// The guest's names of its prompts, by the names that clients use.
    pub guest_names: BTreeMap<String, Arc<str>>,
    pub first_polls: FirstPolls,
    pub base: Arc<PluginBase>,
}

impl GuestProvider {
    /// A copy without these prompts.
    pub fn without(&self, left_out: &BTreeSet<&str>) -> Self {
        let mut spec = self.spec.clone();
        spec.prompts.retain(|prompt| !left_out.contains(prompt.name.as_str()));
        let mut guest_names = self.guest_names.clone();
        guest_names.retain(|name, _| !left_out.contains(name.as_str()));
        Self { spec, guest_names, first_polls: FirstPolls::default(), base: self.base.clone() }
    }
}

impl Provider for GuestProvider {
    fn spec(&self) -> &ProviderSpec {
        &self.spec
    }

    fn reserve(&self) -> Result<Reservation, ReservationError> {
        self.base.engine.budget.take(self.base.component.needs.within(self.base.manifest.limits.memory))
    }

    fn is_quick(&self) -> bool {
        self.first_polls.is_quick()
    }

    fn serve(
        self: Arc<Self>,
        request: Retrieval,
        reservation: Reservation,
        context: Arc<dyn RunContext>,
    ) -> BoxFuture<'static, RetrievalEnd> {
        Box::pin(async move {
            let end = serve(&self, request, reservation, &context).await;
            match &self.base.grants.redactor {
                Some(redactor) => redactor.retrieval_end(end),
                None => end,
            }
        })
    }

    fn interrupt(&self) {
        self.base.engine.interrupt();
    }
}

/// Serves a request. If the plugin lacks the interface, the host returns an empty answer.
async fn serve(
    provider: &GuestProvider,
    request: Retrieval,
    reservation: Reservation,
    context: &Arc<dyn RunContext>,
) -> RetrievalEnd {
    let exports = &provider.base.component.exports;
    let done = RetrievalEnd::Done;
    let order = |function, subject| Request { provider, subject, function, reservation, context };
    match request {
        Retrieval::Resources { cursor } => {
            let Some(resources) = &exports.resources else {
                return done(ProviderAnswer::Resources { entries: Vec::new(), next: None });
            };
            let params: PageParams<'_> = (cursor.as_deref(),);
            order("list-resources", format!("list of resources of `{}`", provider.base.file))
                .run::<_, Page, _, _>(&resources.list, params, |page| page.0, rpc_error, resource::page)
                .await
        }
        Retrieval::Templates => {
            let Some(resources) = &exports.resources else {
                return done(ProviderAnswer::Templates(Vec::new()));
            };
            let subject = format!("list of resource templates of `{}`", provider.base.file);
            let order = order("list-templates", subject);
            let encode = resource::templates;
            order.run::<_, Templates, _, _>(&resources.templates, (), |list| list.0, rpc_error, encode).await
        }
        Retrieval::Read { uri } => {
            let Some(resources) = &exports.resources else {
                return done(ProviderAnswer::Contents(None));
            };
            let params = (uri.as_str(),);
            order("read", format!("resource `{}`", clip(&uri, MAX_SHOWN_CHARS)))
                .run::<_, Read, _, _>(&resources.read, params, |read| read.0, rpc_error, resource::contents)
                .await
        }
        Retrieval::Prompt { name, arguments } => {
            let (Some(prompts), Some(guest_name)) = (&exports.prompts, provider.guest_names.get(&name))
            else {
                return RetrievalEnd::Failed(no_prompt(&name));
            };
            let params: CallParams<'_> = (guest_name, arguments.as_str());
            let order = order("get", format!("prompt `{name}`"));
            let told = context.tells_missing_capabilities();
            let fault = |subject: &str, error| call_error(subject, error, told);
            order.run::<_, Got, _, _>(&prompts.get, params, |got| got.0, fault, prompt::made).await
        }
        Retrieval::Complete { reference, name, value, settled } => {
            let Some(complete) = &exports.complete else {
                return done(ProviderAnswer::Completion(RawJson::trusted(
                    "{\"completion\":{\"values\":[],\"hasMore\":false}}",
                )));
            };
            let reference = match reference {
                Reference::Template { uri } => GuestReference::Template(uri),
                Reference::Prompt { name } => match provider.guest_names.get(&name) {
                    Some(guest_name) => GuestReference::Prompt(guest_name.to_string()),
                    None => return RetrievalEnd::Failed(no_prompt(&name)),
                },
            };
            let subject = format!("completion of `{}`", clip(&name, MAX_SHOWN_CHARS));
            let params: CompleteParams<'_> = (&reference, &name, &value, settled.as_str());
            let order = order("complete", subject);
            let encode = prompt::completed;
            order.run::<_, Completed, _, _>(complete, params, |values| values.0, rpc_error, encode).await
        }
    }
}

/// The error for an unknown prompt (CO-3, PR-4).
fn no_prompt(name: &str) -> RpcError {
    RpcError::invalid_params(format!("There is no prompt `{}`", clip(name, MAX_SHOWN_CHARS)))
}

/// A request to a guest.
struct Request<'a> {
    provider: &'a GuestProvider,
    /// A description of the requested object, as part of a sentence.
    subject: String,
    function: &'static str,
    reservation: Reservation,
    context: &'a Arc<dyn RunContext>,
}

impl Request<'_> {
    async fn run<P, R, T, E>(
        self,
        export: &ComponentExportIndex,
        params: P,
        unwrap: fn(R) -> Result<T, E>,
        fault: impl Fn(&str, E) -> RpcError,
        encode: fn(T, u64) -> Result<ProviderAnswer, Failure>,
    ) -> RetrievalEnd
    where
        P: ComponentNamedList + Lower + Send + Sync,
        R: ComponentNamedList + Lift + Send + Sync + 'static,
    {
        let base = &self.provider.base;
        let limits = &base.manifest.limits;
        let order = Invocation {
            base,
            limits,
            reserved: limits.memory,
            first_polls: &self.provider.first_polls,
            subject: Subject::Function(self.function),
            reservation: self.reservation,
            journal: None,
        };
        let fail = |failure: Failure| RpcError::internal(failure.sentence(&self.subject, limits));
        match invoke::invoke(order, ContractCall::<P, R>::new(export, params), self.context).await {
            RunOutcome::Stopped => RetrievalEnd::Stopped,
            RunOutcome::Failed(failure) => RetrievalEnd::Failed(fail(failure)),
            RunOutcome::Returned(returned, _) => match unwrap(returned) {
                Err(error) => RetrievalEnd::Failed(fault(&self.subject, error)),
                Ok(given) => match encode(given, limits.output) {
                    Ok(retrieved) => RetrievalEnd::Done(retrieved),
                    Err(failure) => RetrievalEnd::Failed(fail(failure)),
                },
            },
        }
    }
}
