//! Resources, prompts and completion: each request is a run of one plugin, or of
//! several one after the other (R-2 to R-5, PR-2 to PR-4, CO-1 to CO-3).

use crate::admit::Claim;
use crate::authority::{Kind, Object};
use crate::call::client;
use crate::outlet::Outlet;
use crate::permit::Permit;
use crate::query::Caller;
use crate::rounds::{About, InputRequired, Rounds};
use crate::run::{Driven, Run};
use crate::runs::Work;
use crate::stop::Stop;
use crate::{Dispatch, Fault};
use futures_util::FutureExt as _;
use std::sync::Arc;
use toolyard_protocol::completion::{CompleteParams, Reference, has_variable};
use toolyard_protocol::page::page;
use toolyard_protocol::prompts::{GetParams, PromptDescription};
use toolyard_protocol::resources::{not_found, uri_of};
use toolyard_protocol::stateless::input::Retry;
use toolyard_protocol::{RawJson, RpcError};
use toolyard_task::Provider;
use toolyard_task::provider::{Retrieval, RetrievalEnd, Retrieved};

/// Who asks a plugin for something, and how it is reached meanwhile.
pub struct Request<'a> {
    /// Who asks.
    pub caller: &'a Caller,
    /// Stops the run (C-1).
    pub stop: Arc<Stop>,
    /// Where notices and questions go.
    pub outlet: Arc<dyn Outlet>,
    /// The token that progress is wanted under.
    pub progress_token: Option<RawJson>,
    /// What a stateless client brings from an earlier round (26M-4); none with
    /// sessions.
    pub retry: Option<Retry>,
}

/// What a request for a prompt or a resource gets.
#[derive(Debug)]
pub enum Fetched {
    /// The result.
    Done(RawJson),
    /// The client has to answer first, and then to make the request again (26M-2).
    InputRequired(InputRequired),
}

/// What a run of a plugin came to.
enum Served {
    Done(Retrieved),
    InputRequired(InputRequired),
}

/// Where a listing of resources goes on: in this plugin, from this cursor of its
/// own.
type Position = (String, Option<String>);

impl Dispatch {
    /// The result of `resources/list` (R-2). A plugin that fails is left out, so
    /// that it hides nobody else's resources.
    ///
    /// # Errors
    /// [`Fault::InvalidCursor`], [`Fault::Busy`], [`Fault::Cancelled`].
    pub async fn list_resources(
        self: &Arc<Self>,
        request: Request<'_>,
        cursor: Option<&str>,
    ) -> Result<RawJson, Fault> {
        const SCOPE: &str = "resources";
        let from = match cursor {
            Some(cursor) => {
                let position = self.open_cursor(SCOPE, cursor).await?;
                Some(serde_json::from_str::<Position>(&position).map_err(|_| Fault::InvalidCursor)?)
            }
            None => None,
        };
        let Some(permit) = self.permit_list(request.caller, Kind::Resource) else {
            return Ok(page("resources", [].iter(), None));
        };
        let shown = |entry: &RawJson| {
            uri_of(entry).is_some_and(|uri| self.shows(request.caller, Object::Resource(&uri)))
        };
        let mut inside = from.as_ref().and_then(|(_, cursor)| cursor.clone());
        let first = from.map(|(plugin, _)| plugin).unwrap_or_default();
        let providers = self.providers(|spec| spec.has_resources && spec.plugin >= first);
        // A cursor into a plugin that is gone means nothing to the next one.
        if providers.first().is_none_or(|provider| provider.spec().plugin != first) {
            inside = None;
        }
        let enough = self.settings.page as usize;
        let names: Vec<String> = providers.iter().map(|provider| provider.spec().plugin.clone()).collect();
        let mut entries = Vec::new();
        let mut next: Option<Position> = None;
        for (place, provider) in providers.into_iter().enumerate() {
            if entries.len() >= enough {
                break;
            }
            loop {
                let retrieval = Retrieval::Resources { cursor: inside.take() };
                match self.retrieve(&permit, &request, &provider, retrieval).await {
                    Ok(Served::Done(Retrieved::Resources { entries: more, next })) => {
                        entries.extend(more.into_iter().filter(shown));
                        inside = next;
                    }
                    Ok(_) => {}
                    Err(Fault::Answered(error)) => left_out(&provider, &error),
                    Err(fault) => return Err(fault),
                }
                if inside.is_none() || entries.len() >= enough {
                    break;
                }
            }
            next = match inside.take() {
                Some(inside) => Some((provider.spec().plugin.clone(), Some(inside))),
                None => names.get(place + 1).map(|plugin| (plugin.clone(), None)),
            };
        }
        let next = match next {
            Some(position) => Some(self.seal_cursor(SCOPE, RawJson::of(&position).as_str()).await?),
            None => None,
        };
        Ok(page("resources", entries.iter(), next.as_deref()))
    }

    /// The result of `resources/templates/list` (R-3), all on one page.
    ///
    /// # Errors
    /// [`Fault::InvalidCursor`] for any cursor, since none is given; else as
    /// [`Dispatch::list_resources`].
    pub async fn list_templates(
        self: &Arc<Self>,
        request: Request<'_>,
        cursor: Option<&str>,
    ) -> Result<RawJson, Fault> {
        if cursor.is_some() {
            return Err(Fault::InvalidCursor);
        }
        let mut entries = Vec::new();
        if let Some(permit) = self.permit_list(request.caller, Kind::Resource) {
            for provider in self.providers(|spec| spec.has_resources) {
                let templates = self.templates(&permit, &request, &provider).await?.into_iter();
                let shown = templates.filter(|(uri, _)| self.shows(request.caller, Object::Resource(uri)));
                entries.extend(shown.map(|(_, entry)| entry));
            }
        }
        Ok(page("resourceTemplates", entries.iter(), None))
    }

    /// The templates of one plugin; none if it fails.
    async fn templates(
        self: &Arc<Self>,
        permit: &Permit,
        request: &Request<'_>,
        provider: &Arc<dyn Provider>,
    ) -> Result<Vec<(String, RawJson)>, Fault> {
        match self.retrieve(permit, request, provider, Retrieval::Templates).await {
            Ok(Served::Done(Retrieved::Templates(templates))) => Ok(templates),
            Ok(_) => Ok(Vec::new()),
            Err(Fault::Answered(error)) => {
                left_out(provider, &error);
                Ok(Vec::new())
            }
            Err(fault) => Err(fault),
        }
    }

    /// The result of `resources/read` (R-4): of the first plugin, by name, that
    /// has the resource.
    ///
    /// # Errors
    /// [`Fault::Answered`]: `-32002` if nobody has it (R-5), or what the plugin
    /// said; else as [`Dispatch::list_resources`].
    pub async fn read_resource(self: &Arc<Self>, request: Request<'_>, uri: &str) -> Result<Fetched, Fault> {
        let unknown = || Fault::Answered(not_found(uri));
        let permit =
            self.permit(request.caller, Object::Resource(uri)).map_err(|denial| denial.or(unknown))?;
        let mut failed = None;
        for provider in self.providers(|spec| spec.has_resources) {
            match self.retrieve(&permit, &request, &provider, Retrieval::Read { uri: uri.to_owned() }).await {
                Ok(Served::Done(Retrieved::Contents(Some(contents)))) => return Ok(Fetched::Done(contents)),
                Ok(Served::InputRequired(input)) => return Ok(Fetched::InputRequired(input)),
                Ok(_) => {}
                Err(Fault::Answered(error)) => {
                    failed.get_or_insert(error);
                }
                Err(fault) => return Err(fault),
            }
        }
        Err(failed.map_or_else(unknown, Fault::Answered))
    }

    /// The result of `prompts/list` (PR-2).
    ///
    /// # Errors
    /// [`Fault::InvalidCursor`].
    pub async fn list_prompts(&self, caller: &Caller, cursor: Option<&str>) -> Result<RawJson, Fault> {
        const SCOPE: &str = "prompts";
        let after = match cursor {
            Some(cursor) => Some(self.open_cursor(SCOPE, cursor).await?),
            None => None,
        };
        let (prompts, more) = self.prompts_after(caller, after.as_deref());
        let next = match prompts.last() {
            Some(last) if more => Some(self.seal_cursor(SCOPE, &last.name).await?),
            _ => None,
        };
        let entries: Vec<RawJson> = prompts.iter().map(RawJson::of).collect();
        Ok(page("prompts", entries.iter(), next.as_deref()))
    }

    /// A page of the caller's prompts, and whether more follow.
    fn prompts_after(&self, caller: &Caller, after: Option<&str>) -> (Vec<PromptDescription>, bool) {
        let catalog = self.catalog();
        let mut prompts = catalog
            .prompts()
            .filter(|prompt| after.is_none_or(|after| prompt.name.as_str() > after))
            .filter(|prompt| self.shows(caller, Object::Prompt(&prompt.name)));
        let page = prompts.by_ref().take(self.settings.page as usize).cloned().collect();
        (page, prompts.next().is_some())
    }

    /// The result of `prompts/get` (PR-3).
    ///
    /// # Errors
    /// [`Fault::UnknownPrompt`], [`Fault::Answered`] with what is wrong with the
    /// arguments or what the plugin said; else as [`Dispatch::list_resources`].
    pub async fn get_prompt(
        self: &Arc<Self>,
        request: Request<'_>,
        params: GetParams,
    ) -> Result<Fetched, Fault> {
        let unknown = || Fault::UnknownPrompt(toolyard_protocol::error::clip(&params.name, 128));
        let permit =
            self.permit(request.caller, Object::Prompt(&params.name)).map_err(|denial| denial.or(unknown))?;
        let catalog = self.catalog();
        let (provider, prompt) = catalog.prompt(&params.name).ok_or_else(unknown)?;
        params.check(prompt).map_err(Fault::Answered)?;
        let retrieval = Retrieval::Prompt { arguments: RawJson::of(&params.arguments), name: params.name };
        match self.retrieve(&permit, &request, provider, retrieval).await? {
            Served::Done(Retrieved::Prompt(result)) => Ok(Fetched::Done(result)),
            Served::InputRequired(input) => Ok(Fetched::InputRequired(input)),
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
        request: Request<'_>,
        params: CompleteParams,
    ) -> Result<RawJson, Fault> {
        let unknown = |what: String| Err(Fault::NothingToComplete(what));
        let (object, nothing) = match &params.reference {
            Reference::Prompt { name } => (Object::Prompt(name), "there is no such prompt"),
            Reference::Template { uri } => (Object::Resource(uri), "there is no such resource template"),
        };
        let nothing = || Fault::NothingToComplete(nothing.to_owned());
        let permit = self.permit(request.caller, object).map_err(|denial| denial.or(nothing))?;
        let argument = toolyard_protocol::error::clip(&params.name, 128);
        let catalog = self.catalog();
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
            Served::Done(Retrieved::Completion(result)) => Ok(result),
            _ => Err(Fault::Answered(RpcError::internal("The plugin gave something else than a completion"))),
        }
    }

    async fn provider_of_template(
        self: &Arc<Self>,
        permit: &Permit,
        request: &Request<'_>,
        template: &str,
    ) -> Result<Option<Arc<dyn Provider>>, Fault> {
        for provider in self.providers(|spec| spec.has_resources) {
            let templates = self.templates(permit, request, &provider).await?;
            if templates.iter().any(|(known, _)| known == template) {
                return Ok(Some(provider));
            }
        }
        Ok(None)
    }

    fn providers(
        &self,
        wanted: impl Fn(&toolyard_task::provider::ProviderSpec) -> bool,
    ) -> Vec<Arc<dyn Provider>> {
        self.catalog().providers().iter().filter(|provider| wanted(provider.spec())).cloned().collect()
    }

    /// One run of a plugin.
    async fn retrieve(
        self: &Arc<Self>,
        _permit: &Permit,
        request: &Request<'_>,
        provider: &Arc<dyn Provider>,
        retrieval: Retrieval,
    ) -> Result<Served, Fault> {
        if self.closing.is_set() {
            return Err(Fault::Closing);
        }
        let rounds = match (&request.retry, about(request.caller, &retrieval)) {
            (Some(retry), Some(about)) => Some(Rounds::begin(self, about, retry.clone()).await?),
            _ => None,
        };
        let work = Work::Provider(provider.clone());
        let share = self.share(request.caller);
        let claim = Claim { owner: share.account.clone(), work: work.clone() };
        let mut slot = self.admission.admit(claim).map_err(|full| self.busy(full))?;
        let client = client(request.caller, share, request.outlet.clone(), request.progress_token.clone());
        let mut run = Run::new(self.clone(), work, request.stop.clone(), client);
        // Lists, and the search for a resource, go through every plugin: nobody is to
        // be asked for plugins that have nothing to do with it.
        run.asks_permission = matches!(retrieval, Retrieval::Prompt { .. });
        if request.retry.is_some() && rounds.is_none() {
            // 26M-1: with any other request a stateless client is asked nothing.
            run.capabilities = RawJson::empty_object();
        }
        run.rounds = rounds;
        let run = Arc::new(run);
        let work = provider.clone().serve(retrieval, slot.room(), run.clone());
        match self.to_end(&run, slot, run.clone().drive(work).boxed()).await {
            Some(Driven::Done(RetrievalEnd::Done(retrieved))) => Ok(Served::Done(retrieved)),
            Some(Driven::Suspended) if !request.stop.is_set() => match &run.rounds {
                Some(rounds) => Ok(Served::InputRequired(rounds.outcome(self).await?)),
                None => Err(Fault::Cancelled),
            },
            Some(Driven::Done(RetrievalEnd::Failed(error))) => Err(Fault::Answered(error)),
            Some(Driven::Panicked) => {
                Err(Fault::Answered(RpcError::internal("The engine failed during this request")))
            }
            _ if self.closing.is_set() => Err(Fault::Closing),
            _ => Err(Fault::Cancelled),
        }
    }
}

/// What a round is about: only these requests have any (26M-1).
fn about(caller: &Caller, retrieval: &Retrieval) -> Option<About> {
    match retrieval {
        Retrieval::Read { uri } => {
            Some(About::of(caller, "resources/read", uri.clone(), RawJson::empty_object()))
        }
        Retrieval::Prompt { name, arguments } => {
            Some(About::of(caller, "prompts/get", name.clone(), arguments.clone()))
        }
        Retrieval::Resources { .. } | Retrieval::Templates | Retrieval::Complete { .. } => None,
    }
}

fn left_out(provider: &Arc<dyn Provider>, error: &RpcError) {
    tracing::warn!(plugin = provider.spec().plugin, %error, "a plugin could not list its resources and is left out");
}
