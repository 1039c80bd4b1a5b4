//! Lists and reads resources. The host asks several plugins at once, each with a short
//! time and a bounded number of runs. It leaves out a plugin that is late, busy or endless, or that
//! fails, so that no plugin hides the resources of others.
//!
//! A URI goes to the plugin whose manifest names it, that listed it, or whose template fits it. The host offers a URI
//! to all plugins, in the order of their names, only if it belongs to none of them.

use crate::access::caller::Caller;
use crate::access::permit::{AskPermit, NoPermit};
use crate::access::rules::{Object, ObjectKind};
use crate::application::Dispatch;
use crate::call::plugin_pages::{PluginPage, PluginTurn, log_plugin_left_out, log_uris_left_out};
use crate::call::resources_prompts::{FetchReply, ProviderEnd, ProviderFailure, ProviderRequest, RunBound};
use crate::catalog::resource_index::{PluginResources, plugin_that_claims, plugin_that_claims_template};
use crate::error::Fault;
use crate::slots::admission::LimitReached;
use futures_util::future::join_all;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use toolyard_protocol::RawJson;
use toolyard_protocol::page::page;
use toolyard_protocol::resources::{not_found, uri_of};
use toolyard_task::Provider;
use toolyard_task::provider::{ProviderAnswer, Retrieval};

/// The most pages of one plugin that a client gets while it goes on listing. A longer list is taken to
/// have no end, and would keep the client busy forever.
const MAX_PAGES: u32 = 1_000;
/// The most runs of one plugin for one request that lists resources. A plugin that has entries gives
/// some in its first page; one that gave eight pages without any is taken to have no end.
const MAX_RUNS: u32 = 8;
/// How long one plugin may take for its part of a list of resources or templates. A client waits for the whole
/// list, so the host leaves out a slower plugin.
const MAX_LIST_TIME: Duration = Duration::from_secs(2);
/// The bytes that the pages of all plugins may take in one answer. A page that does not fit waits
/// for the next answer.
const MAX_PAGE_BYTES: usize = 16 << 20;

/// The position of a listing: for each plugin that has more, its name, its own cursor, and how many
/// of its pages were given.
type Positions = Vec<(String, Option<String>, u32)>;

impl Dispatch {
    /// The result of `resources/list`: a page of each plugin that has more.
    ///
    /// # Errors
    /// [`Fault::InvalidCursor`], [`Fault::Busy`], [`Fault::Cancelled`].
    pub async fn list_resources(
        self: &Arc<Self>,
        request: ProviderRequest<'_>,
        cursor: Option<&str>,
    ) -> Result<RawJson, Fault> {
        const SCOPE: &str = "resources";
        let from = match cursor {
            Some(cursor) => {
                let position = self.deps.clients.open_cursor(SCOPE, cursor).await?;
                Some(serde_json::from_str::<Positions>(&position).map_err(|_| Fault::InvalidCursor)?)
            }
            None => None,
        };
        let Some(permit) = self.deps.access.permit_list(request.caller, ObjectKind::Resource) else {
            return Ok(page("resources", [].iter(), None));
        };
        let providers = self.resource_providers();
        let mut turns = self.turns(&providers, from);
        self.list_pages(&permit, &request, &providers, &mut turns).await?;
        self.leave_foreign_out(&providers, &mut turns);
        let more: Positions = turns
            .iter_mut()
            .filter_map(|turn| Some((turn.provider.spec().plugin.clone(), turn.next.take()?, turn.pages)))
            .collect();
        let position = RawJson::of(&more);
        let next = if more.is_empty() {
            None
        } else {
            Some(self.deps.clients.seal_cursor(SCOPE, position.as_str()).await?)
        };
        let entries = turns.iter().flat_map(|turn| &turn.entries);
        Ok(page("resources", entries, next.as_deref()))
    }

    /// The plugins to ask: all, or those that had more and are still loaded.
    fn turns(&self, providers: &[Arc<dyn Provider>], from: Option<Positions>) -> Vec<PluginTurn> {
        let turn = |provider: &Arc<dyn Provider>, next, pages| PluginTurn {
            provider: provider.clone(),
            next: Some(next),
            pages,
            runs: 0,
            time: MAX_LIST_TIME,
            entries: Vec::new(),
            foreign: 0,
        };
        let Some(positions) = from else {
            return providers.iter().map(|provider| turn(provider, None, 0)).collect();
        };
        let of = |name: &str| providers.iter().find(|provider| provider.spec().plugin == name);
        positions
            .into_iter()
            .filter_map(|(plugin, next, pages)| Some(turn(of(&plugin)?, next, pages)))
            .collect()
    }

    /// Asks for pages, round by round, until there is enough.
    async fn list_pages(
        self: &Arc<Self>,
        permit: &AskPermit,
        request: &ProviderRequest<'_>,
        providers: &[Arc<dyn Provider>],
        turns: &mut [PluginTurn],
    ) -> Result<(), Fault> {
        let until = Instant::now() + MAX_LIST_TIME * 2;
        let enough = self.deps.settings.page as usize;
        let (mut given, mut bytes) = (0, 0);
        for round in 0..MAX_RUNS {
            let open: Vec<usize> = (0..turns.len()).filter(|at| turns[*at].next.is_some()).collect();
            if open.is_empty() || given >= enough || Instant::now() >= until {
                break;
            }
            let mut pages = self.ask_for_pages(permit, request, turns, &open).await?;
            if round == 0 && request_is_busy(&pages) {
                let full = pages.into_iter().find_map(|(_, page)| page.err());
                return Err(full.map_or(Fault::Cancelled, |failure| failure.fault(&self.deps.slots)));
            }
            // The shortest first, so that a plugin with large pages displaces no other.
            pages.sort_by_key(|(at, page)| (page.as_ref().map_or(0, PluginPage::bytes), *at));
            for (at, page) in pages {
                let turn = &mut turns[at];
                match page {
                    Ok(page) if bytes > 0 && bytes + page.bytes() > MAX_PAGE_BYTES => given = enough,
                    Ok(page) => {
                        bytes += page.bytes();
                        given += self.take_page(request, providers, turn, page);
                    }
                    Err(failure) => {
                        turn.next = None;
                        self.note_failure(request, &turn.provider, &failure);
                    }
                }
            }
        }
        for turn in turns.iter_mut() {
            if turn.next.is_some() && turn.entries.is_empty() && turn.runs >= MAX_RUNS {
                turn.next = None;
                self.note_late(request, &turn.provider, "it gives pages without entries and without an end");
            }
        }
        Ok(())
    }

    /// Asks each of these plugins for a page, concurrently.
    async fn ask_for_pages(
        self: &Arc<Self>,
        permit: &AskPermit,
        request: &ProviderRequest<'_>,
        turns: &mut [PluginTurn],
        open: &[usize],
    ) -> Result<Vec<(usize, Result<PluginPage, ProviderFailure>)>, Fault> {
        let asked: &[PluginTurn] = turns;
        let here = open.len() == 1;
        let ask = |at: usize| async move {
            let turn = &asked[at];
            let cursor = turn.next.clone().flatten();
            let begun = Instant::now();
            let given = self
                .ask_one(permit, request, &turn.provider, Retrieval::Resources { cursor }, (turn.time, here))
                .await;
            given.map(|given| match given {
                ProviderAnswer::Resources { entries, next } => {
                    (PluginPage { entries, next }, begun.elapsed())
                }
                _ => (PluginPage { entries: Vec::new(), next: None }, begun.elapsed()),
            })
        };
        let pages = self.all_that_fit(open.to_vec(), |at| ask(*at)).await?;
        let mut taken = Vec::with_capacity(pages.len());
        for (at, page) in pages {
            let turn = &mut turns[at];
            turn.runs += 1;
            taken.push((
                at,
                page.map(|(page, took)| {
                    turn.time = turn.time.saturating_sub(took);
                    page
                }),
            ));
        }
        Ok(taken)
    }

    /// Takes the entries of a page that are shown, and returns their size.
    fn take_page(
        &self,
        request: &ProviderRequest<'_>,
        providers: &[Arc<dyn Provider>],
        turn: &mut PluginTurn,
        page: PluginPage,
    ) -> usize {
        let asked = turn.next.take().flatten();
        turn.pages += 1;
        let mine = providers.iter().position(|provider| Arc::ptr_eq(provider, &turn.provider));
        let mut own = Vec::new();
        let before = turn.entries.len();
        for entry in page.entries {
            let Some(uri) = uri_of(&entry) else { continue };
            if !self.may_list(providers, mine, &uri) {
                turn.foreign += 1;
                continue;
            }
            if self.deps.access.shows(request.caller, Object::Resource(&uri)) {
                turn.entries.push(entry);
            }
            own.push(uri);
        }
        self.deps.catalog.resources.note_uris(&turn.provider, own.iter().map(String::as_str));
        turn.next = match page.next {
            Some(next) if asked.as_ref() == Some(&next) => {
                self.note_late(request, &turn.provider, "its cursor repeats");
                None
            }
            Some(_) if turn.pages >= MAX_PAGES => {
                self.note_late(request, &turn.provider, "it has more pages than are listed");
                None
            }
            next => next.map(Some),
        };
        turn.entries.len() - before
    }

    /// Removes the entries that belong to another plugin, now that all pages are here, and logs
    /// that.
    fn leave_foreign_out(&self, providers: &[Arc<dyn Provider>], turns: &mut [PluginTurn]) {
        for turn in turns {
            let mine = providers.iter().position(|provider| Arc::ptr_eq(provider, &turn.provider));
            let before = turn.entries.len();
            turn.entries
                .retain(|entry| uri_of(entry).is_some_and(|uri| self.may_list(providers, mine, &uri)));
            turn.foreign += before - turn.entries.len();
            if turn.foreign > 0 {
                log_uris_left_out(&turn.provider, "resource", turn.foreign);
            }
        }
    }

    /// Whether this plugin may list this URI: its manifest must allow the URI, and no other plugin
    /// may have it. Of two plugins that list one URI, the first by name has it.
    fn may_list(&self, providers: &[Arc<dyn Provider>], mine: Option<usize>, uri: &str) -> bool {
        let Some(mine) = mine else { return true };
        match plugin_that_claims(providers, uri) {
            Some(claimant) => claimant == mine,
            None => {
                providers[mine].spec().uris.is_none()
                    && self.deps.catalog.resources.plugin_that_lists(&providers[..mine], uri).is_none()
            }
        }
    }

    /// As [`Dispatch::may_list`], for a template.
    fn may_list_template(&self, providers: &[Arc<dyn Provider>], mine: usize, template: &str) -> bool {
        match plugin_that_claims_template(providers, template) {
            Some(claimant) => claimant == mine,
            None => {
                let index = &self.deps.catalog.resources;
                providers[mine].spec().uris.is_none()
                    && index.plugin_that_lists_template(&providers[..mine], template).is_none()
            }
        }
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
        let templates = self.all_templates(&permit, &request, &providers, true).await?;
        let shown =
            templates.iter().filter(|(uri, _)| self.deps.access.shows(request.caller, Object::Resource(uri)));
        let entries: Vec<RawJson> = shown.map(|(_, entry)| entry.clone()).collect();
        Ok(page("resourceTemplates", entries.iter(), None))
    }

    /// The templates that these plugins may list. The plugins are asked concurrently.
    async fn all_templates(
        self: &Arc<Self>,
        permit: &AskPermit,
        request: &ProviderRequest<'_>,
        providers: &[Arc<dyn Provider>],
        busy_is_error: bool,
    ) -> Result<Vec<(String, RawJson)>, Fault> {
        let time = MAX_LIST_TIME;
        let here = providers.len() == 1;
        let ask =
            |at: &usize| self.ask_one(permit, request, &providers[*at], Retrieval::Templates, (time, here));
        let mut given = self.all_that_fit((0..providers.len()).collect(), ask).await?;
        if busy_is_error && request_is_busy(&given) {
            let full = given.into_iter().find_map(|(_, given)| given.err());
            return Err(full.map_or(Fault::Cancelled, |failure| failure.fault(&self.deps.slots)));
        }
        given.sort_by_key(|(at, _)| *at);
        let mut all = Vec::new();
        for (at, given) in given {
            let mut templates = match given {
                Ok(ProviderAnswer::Templates(templates)) => templates,
                Ok(_) => continue,
                Err(failure) => {
                    self.note_failure(request, &providers[at], &failure);
                    continue;
                }
            };
            let before = templates.len();
            templates.retain(|(template, _)| self.may_list_template(providers, at, template));
            if templates.len() < before {
                log_uris_left_out(&providers[at], "template", before - templates.len());
            }
            self.deps
                .catalog
                .resources
                .note_templates(&providers[at], templates.iter().map(|(uri, _)| uri.as_str()));
            all.append(&mut templates);
        }
        Ok(all)
    }

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
        let mut providers = self.resource_providers();
        let read = || Retrieval::Read { uri: uri.to_owned() };
        let fetched = |served| match served {
            ProviderEnd::Done(ProviderAnswer::Contents(Some(contents))) => Some(FetchReply::Done(contents)),
            ProviderEnd::InputRequired(input) => Some(FetchReply::InputRequired(input)),
            ProviderEnd::Done(_) => None,
        };
        if let Some(claimant) = plugin_that_claims(&providers, uri) {
            let served = self.retrieve(&permit, &request, &providers[claimant], read()).await?;
            return fetched(served).ok_or_else(unknown);
        }
        // A plugin whose manifest names other URIs is not asked for this one.
        providers.retain(|provider| provider.spec().uris.is_none());
        if let Some(owner) = self.route(&permit, &request, &providers, uri).await? {
            let served = self.retrieve(&permit, &request, &providers[owner], read()).await?;
            return fetched(served).ok_or_else(unknown);
        }
        let (mut failed, last) = (None, providers.len().saturating_sub(1));
        let account = request.caller.account();
        for (at, provider) in providers.iter().enumerate() {
            // No plugin waits behind the last one.
            let time =
                self.deps.catalog.resources.time_budget(&account, &provider.spec().plugin, MAX_LIST_TIME);
            if at < last && time.is_none() {
                continue;
            }
            let time = time.filter(|_| at < last);
            let bound = RunBound { time, here: true };
            match self.retrieve_within(&permit, &request, provider, read(), bound).await {
                Ok(served) => match fetched(served) {
                    Some(fetched) => return Ok(fetched),
                    None => continue,
                },
                Err(ProviderFailure::Over(fault)) => return Err(fault),
                Err(failure) => {
                    if let ProviderFailure::Late(_) = failure {
                        self.note_failure(&request, provider, &failure);
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
        let may_exist = plugin_that_claims(&providers, uri).is_some()
            || providers.iter().any(|provider| provider.spec().uris.is_none());
        if may_exist { Ok(()) } else { Err(Fault::Answered(not_found(uri))) }
    }

    /// Finds the plugin that a URI belongs to, if any. Asks plugins whose lists are not known for all
    /// that they list.
    async fn route(
        self: &Arc<Self>,
        permit: &AskPermit,
        request: &ProviderRequest<'_>,
        providers: &[Arc<dyn Provider>],
        uri: &str,
    ) -> Result<Option<usize>, Fault> {
        if providers.len() < 2 {
            return Ok(None);
        }
        if let Some(lister) = self.deps.catalog.resources.plugin_that_lists(providers, uri) {
            return Ok(Some(lister));
        }
        let unknown: Vec<usize> = (0..providers.len())
            .filter(|at| !self.deps.catalog.resources.is_fresh(&providers[*at]))
            .collect();
        if !unknown.is_empty() {
            let learn = |at: &usize| self.learn(permit, request, &providers[*at]);
            let learnt = self.all_that_fit(unknown, learn).await?;
            for (at, learnt) in learnt {
                match learnt {
                    Ok(mut learnt) => {
                        learnt.uris.retain(|uri| self.may_list(providers, Some(at), uri));
                        self.deps.catalog.resources.note_learnt(&providers[at], &learnt);
                    }
                    Err(failure) => self.note_failure(request, &providers[at], &failure),
                }
            }
        }
        let lister = self.deps.catalog.resources.plugin_that_lists(providers, uri);
        Ok(lister.or_else(|| self.deps.catalog.resources.best_template_match(providers, uri)))
    }

    /// All that a plugin lists within its time.
    async fn learn(
        self: &Arc<Self>,
        permit: &AskPermit,
        request: &ProviderRequest<'_>,
        provider: &Arc<dyn Provider>,
    ) -> Result<PluginResources, ProviderFailure> {
        let until = Instant::now() + MAX_LIST_TIME;
        let left = || until.saturating_duration_since(Instant::now());
        let mut learnt = PluginResources::default();
        match self.ask_one(permit, request, provider, Retrieval::Templates, (left(), false)).await {
            Ok(ProviderAnswer::Templates(templates)) => {
                learnt.templates = Some(templates.into_iter().map(|(template, _)| template).collect());
            }
            Ok(_) | Err(ProviderFailure::Failed(_)) => {}
            Err(failure) => return Err(failure),
        }
        let mut cursor = None;
        for _ in 0..MAX_RUNS {
            let asked = cursor.clone();
            let retrieval = Retrieval::Resources { cursor };
            match self.ask_one(permit, request, provider, retrieval, (left(), false)).await {
                Ok(ProviderAnswer::Resources { entries, next }) => {
                    learnt.uris.extend(entries.iter().filter_map(uri_of));
                    if next.is_none() || next == asked {
                        learnt.is_whole = next.is_none();
                        break;
                    }
                    cursor = next;
                }
                Ok(_) => break,
                // Its templates are known, and some of its URIs.
                Err(failure @ (ProviderFailure::Failed(_) | ProviderFailure::Late(_))) => {
                    self.note_failure(request, provider, &failure);
                    break;
                }
                Err(failure) => return Err(failure),
            }
        }
        Ok(learnt)
    }

    /// The plugin that lists this template.
    pub(crate) async fn provider_of_template(
        self: &Arc<Self>,
        permit: &AskPermit,
        request: &ProviderRequest<'_>,
        template: &str,
    ) -> Result<Option<Arc<dyn Provider>>, Fault> {
        let providers = self.resource_providers();
        let mut known = self.deps.catalog.resources.plugin_that_lists_template(&providers, template);
        if known.is_none() {
            self.all_templates(permit, request, &providers, true).await?;
            known = self.deps.catalog.resources.plugin_that_lists_template(&providers, template);
        }
        Ok(known.map(|at| providers[at].clone()))
    }

    /// Runs a plugin for a request that asks several. A plugin that was late gets less time, or is skipped.
    async fn ask_one(
        self: &Arc<Self>,
        permit: &AskPermit,
        request: &ProviderRequest<'_>,
        provider: &Arc<dyn Provider>,
        retrieval: Retrieval,
        (time, here): (Duration, bool),
    ) -> Result<ProviderAnswer, ProviderFailure> {
        let plugin = &provider.spec().plugin;
        let account = request.caller.account();
        let Some(time) = self.deps.catalog.resources.time_budget(&account, plugin, time) else {
            return Err(ProviderFailure::PassedOver);
        };
        let bound = RunBound { time: Some(time), here };
        match self.retrieve_within(permit, request, provider, retrieval, bound).await? {
            ProviderEnd::Done(retrieved) => {
                self.deps.catalog.resources.mark_in_time(&account, plugin);
                Ok(retrieved)
            }
            // A list asks its client nothing.
            ProviderEnd::InputRequired(_) => Err(ProviderFailure::Over(Fault::Cancelled)),
        }
    }

    /// Asks all concurrently. Plugins for which the host or the caller had no slot are asked again when
    /// others are done, so that a list takes only the slots that are free.
    async fn all_that_fit<T, R, F: Future<Output = Result<R, ProviderFailure>>>(
        &self,
        mut waiting: Vec<T>,
        ask: impl Fn(&T) -> F,
    ) -> Result<Vec<(T, Result<R, ProviderFailure>)>, Fault> {
        let mut done = Vec::with_capacity(waiting.len());
        while !waiting.is_empty() {
            let results = join_all(waiting.iter().map(&ask)).await;
            let (mut again, mut full, before) = (Vec::new(), None, done.len());
            for (asked, result) in std::mem::take(&mut waiting).into_iter().zip(results) {
                match result {
                    Err(ProviderFailure::Full(why @ (LimitReached::Host | LimitReached::Principal))) => {
                        full = Some(why);
                        again.push(asked);
                    }
                    Err(ProviderFailure::Over(fault)) => return Err(fault),
                    result => done.push((asked, result)),
                }
            }
            if let Some(full) = full.filter(|_| done.len() == before) {
                return Err(self.deps.slots.busy(full));
            }
            waiting = again;
        }
        Ok(done)
    }

    /// Logs why a plugin is left out.
    fn note_failure(
        &self,
        request: &ProviderRequest<'_>,
        provider: &Arc<dyn Provider>,
        failure: &ProviderFailure,
    ) {
        let plugin = &provider.spec().plugin;
        match failure {
            ProviderFailure::Late(time) => {
                let why = format!("it took longer than {time:?}");
                self.note_late(request, provider, &why);
            }
            // This was logged when it was late.
            ProviderFailure::PassedOver | ProviderFailure::Over(_) => {}
            ProviderFailure::Full(full) => {
                log_plugin_left_out(plugin, &self.deps.slots.busy(*full), None);
            }
            ProviderFailure::Failed(error) => {
                log_plugin_left_out(plugin, error, None);
            }
        }
    }

    fn note_late(&self, request: &ProviderRequest<'_>, provider: &Arc<dyn Provider>, why: &str) {
        let plugin = &provider.spec().plugin;
        let pause = self.deps.catalog.resources.mark_late(&request.caller.account(), plugin);
        log_plugin_left_out(plugin, &why, Some(pause));
    }

    fn resource_providers(&self) -> Vec<Arc<dyn Provider>> {
        let catalog = self.deps.catalog.current();
        let providers = catalog.providers().iter().filter(|provider| provider.spec().has_resources);
        providers.cloned().collect()
    }
}

/// Whether every plugin is busy, so that an empty list would be wrong.
fn request_is_busy<T, R>(given: &[(T, Result<R, ProviderFailure>)]) -> bool {
    !given.is_empty() && given.iter().all(|(_, given)| matches!(given, Err(ProviderFailure::Full(_))))
}
