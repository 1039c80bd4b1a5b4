//! Reads resources and lists templates. A URI belongs to the plugin whose manifest claims it, and
//! the host asks no other. If no manifest claims a URI, the host asks the plugins that claim nothing, in the
//! order of their names.
//!
//! For a list, the host asks all plugins at once, each with a short time and a bounded number of runs. It
//! leaves out a plugin that is late, busy or endless, or that fails, so that no plugin hides the resources
//! of others.

mod claims;
mod list;

use crate::access::caller::Caller;
use crate::access::permit::{AskPermit, NoPermit};
use crate::access::rules::{Object, ObjectKind};
use crate::application::Dispatch;
use crate::call::resources_prompts::{FetchReply, ProviderEnd, ProviderFailure, ProviderRequest, RunBound};
use crate::error::Fault;
use crate::slots::admission::LimitReached;
use claims::{claimant, may_have, template_claimant};
use futures_util::future::join_all;
use std::sync::Arc;
use std::time::Duration;
use toolyard_protocol::RawJson;
use toolyard_protocol::page::page;
use toolyard_protocol::resources::not_found;
use toolyard_task::Provider;
use toolyard_task::provider::{ProviderAnswer, Retrieval};

/// The time that one plugin may take for its part of a list, or for a URI that another plugin may have. A client
/// waits for all of them, so the host leaves out a slower plugin.
const MAX_TIME: Duration = Duration::from_secs(2);

impl Dispatch {
    /// The result of `resources/read`.
    ///
    /// # Errors
    /// [`Fault::Answered`]: `-32002` if no plugin has it, or what the plugin
    /// said; else as [`Dispatch::list_resources`].
    pub async fn read_resource(
        self: &Arc<Self>,
        request: ProviderRequest<'_>,
        uri: &str,
    ) -> Result<FetchReply, Fault> {
        let unknown = || Fault::Answered(not_found(uri));
        let permit = self
            .deps
            .access
            .permit(request.caller, Object::Resource(uri))
            .map_err(|denial| denial.or(unknown))?;
        let providers = self.resource_providers();
        let claimant = claimant(&providers, uri);
        let owners: Vec<_> = providers.iter().filter(|provider| may_have(claimant, provider)).collect();
        let mut failed = None;
        for (at, provider) in owners.iter().enumerate() {
            // No plugin waits behind the last one.
            let time = (at + 1 < owners.len()).then_some(MAX_TIME);
            let bound = RunBound { time, here: true };
            let read = Retrieval::Read { uri: uri.to_owned() };
            match self.retrieve_within(&permit, &request, provider, read, bound).await {
                Ok(ProviderEnd::Done(ProviderAnswer::Contents(Some(contents)))) => {
                    return Ok(FetchReply::Done(contents));
                }
                Ok(ProviderEnd::InputRequired(input)) => return Ok(FetchReply::InputRequired(input)),
                Ok(ProviderEnd::Done(_)) => {}
                Err(ProviderFailure::Over(fault)) => return Err(fault),
                Err(failure) => {
                    if let ProviderFailure::Late(_) = failure {
                        self.log_left_out(provider, &failure);
                    }
                    failed.get_or_insert_with(|| failure.fault(&self.deps.slots));
                }
            }
        }
        Err(failed.unwrap_or_else(unknown))
    }

    /// Whether the caller may subscribe to this resource, which need not exist yet.
    ///
    /// # Errors
    /// [`Fault::InsufficientScope`]; [`Fault::Answered`]: `-32002` if the manifest of each plugin that has resources
    /// names other URIs.
    pub fn check_subscribe(&self, caller: &Caller, uri: &str) -> Result<(), Fault> {
        if let Err(NoPermit::Scope(fault)) = self.deps.access.check(caller, Object::Resource(uri)) {
            return Err(fault);
        }
        let providers = self.resource_providers();
        let claimant = claimant(&providers, uri);
        let may_exist = providers.iter().any(|provider| may_have(claimant, provider));
        if may_exist { Ok(()) } else { Err(Fault::Answered(not_found(uri))) }
    }

    /// The result of `resources/templates/list`, all on one page.
    ///
    /// # Errors
    /// [`Fault::InvalidCursor`] for any cursor, since none is given; else as
    /// [`Dispatch::list_resources`].
    pub async fn list_templates(
        self: &Arc<Self>,
        request: ProviderRequest<'_>,
        cursor: Option<&str>,
    ) -> Result<RawJson, Fault> {
        if cursor.is_some() {
            return Err(Fault::InvalidCursor);
        }
        let Some(permit) = self.deps.access.permit_list(request.caller, ObjectKind::Resource) else {
            return Ok(page("resourceTemplates", [].iter(), None));
        };
        let providers = self.resource_providers();
        let mut shown = Vec::new();
        for (at, mut templates) in self.templates_of(&permit, &request, &providers).await? {
            let count = templates.len();
            templates.retain(|(uri, _)| may_have(template_claimant(&providers, uri), &providers[at]));
            if templates.len() < count {
                log_uris_left_out(&providers[at], "template", count - templates.len());
            }
            templates.retain(|(uri, _)| self.deps.access.shows(request.caller, Object::Resource(uri)));
            shown.extend(templates.into_iter().map(|(_, entry)| entry));
        }
        Ok(page("resourceTemplates", shown.iter(), None))
    }

    /// The plugin that lists this template, among those that may have it.
    pub(crate) async fn provider_of_template(
        self: &Arc<Self>,
        permit: &AskPermit,
        request: &ProviderRequest<'_>,
        template: &str,
    ) -> Result<Option<Arc<dyn Provider>>, Fault> {
        let mut providers = self.resource_providers();
        let claimant = template_claimant(&providers, template).cloned();
        providers.retain(|provider| may_have(claimant.as_ref(), provider));
        let listed = self.templates_of(permit, request, &providers).await?;
        let found = listed.iter().find(|(_, templates)| templates.iter().any(|(uri, _)| uri == template));
        Ok(found.map(|(at, _)| providers[*at].clone()))
    }

    /// The templates of these plugins, in their order.
    async fn templates_of(
        self: &Arc<Self>,
        permit: &AskPermit,
        request: &ProviderRequest<'_>,
        providers: &[Arc<dyn Provider>],
    ) -> Result<Vec<(usize, Templates)>, Fault> {
        let bound = RunBound { time: Some(MAX_TIME), here: providers.len() == 1 };
        let ask =
            |at: usize| self.retrieve_within(permit, request, &providers[at], Retrieval::Templates, bound);
        let given = self.ask_all(providers, ask).await?;
        let templates = |(at, end)| match end {
            ProviderEnd::Done(ProviderAnswer::Templates(templates)) => Some((at, templates)),
            _ => None,
        };
        Ok(given.into_iter().filter_map(templates).collect())
    }

    /// Asks all these plugins concurrently. Returns their answers in their order, and logs why it leaves others
    /// out. Plugins for which the host or the caller had no slot are asked again when others are done,
    /// so that a list takes only the slots that are free.
    async fn ask_all<R, F: Future<Output = Result<R, ProviderFailure>>>(
        &self,
        providers: &[Arc<dyn Provider>],
        ask: impl Fn(usize) -> F,
    ) -> Result<Vec<(usize, R)>, Fault> {
        let mut waiting: Vec<usize> = (0..providers.len()).collect();
        let (mut given, mut full) = (Vec::with_capacity(providers.len()), Vec::new());
        while !waiting.is_empty() {
            let results = join_all(waiting.iter().map(|at| ask(*at))).await;
            let mut again = Vec::new();
            let mut reached = None;
            for (at, result) in waiting.iter().copied().zip(results) {
                match result {
                    Ok(answer) => given.push((at, answer)),
                    Err(ProviderFailure::Over(fault)) => return Err(fault),
                    Err(ProviderFailure::Full(limit @ (LimitReached::Host | LimitReached::Principal))) => {
                        reached = Some(limit);
                        again.push(at);
                    }
                    Err(failure) => {
                        self.log_left_out(&providers[at], &failure);
                        if let ProviderFailure::Full(limit) = failure {
                            full.push(limit);
                        }
                    }
                }
            }
            if let Some(limit) = reached.filter(|_| again.len() == waiting.len()) {
                return Err(self.deps.slots.busy(limit));
            }
            waiting = again;
        }
        // If every plugin is busy, an empty list would be wrong.
        match full.first() {
            Some(limit) if full.len() == providers.len() => Err(self.deps.slots.busy(*limit)),
            _ => {
                given.sort_by_key(|(at, _)| *at);
                Ok(given)
            }
        }
    }

    /// Logs why a plugin is left out.
    fn log_left_out(&self, provider: &Arc<dyn Provider>, failure: &ProviderFailure) {
        match failure {
            ProviderFailure::Over(_) => {}
            ProviderFailure::Late(_) => {
                log_plugin_left_out(provider, &format!("it took longer than {MAX_TIME:?}"));
            }
            ProviderFailure::Full(limit) => log_plugin_left_out(provider, &self.deps.slots.busy(*limit)),
            ProviderFailure::Failed(error) => log_plugin_left_out(provider, error),
        }
    }

    /// The plugins with resources, in the order of their names.
    fn resource_providers(&self) -> Vec<Arc<dyn Provider>> {
        let catalog = self.deps.catalog.current();
        let providers = catalog.providers().iter().filter(|provider| provider.spec().has_resources);
        providers.cloned().collect()
    }
}

/// Templates, each with its entry.
type Templates = Vec<(String, RawJson)>;

fn log_plugin_left_out(provider: &Arc<dyn Provider>, reason: &dyn std::fmt::Display) {
    tracing::warn!(
        event = "resources.plugin_left_out", plugin = provider.spec().plugin, %reason,
        "plugin left out of a list of resources"
    );
}

fn log_uris_left_out(provider: &Arc<dyn Provider>, kind: &str, count: usize) {
    tracing::warn!(
        event = "resources.uris_left_out",
        plugin = provider.spec().plugin,
        kind,
        count,
        setting = "resources.uris",
        "resources of a plugin left out of a list"
    );
}
