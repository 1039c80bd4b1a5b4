//! The plugins of a folder: loading what changed, settling who serves which
//! name, and building the catalog.

use crate::engine::Engine;
use crate::error::{LoadError, Refusal};
use crate::folder::{self, Scan, Seen, manifest_name};
use crate::grant::{self, Pins};
use crate::metrics::Metrics;
use crate::name_file::{NameFile, Turn};
use crate::names::{self, Candidate, Kind, Name, Owners};
use crate::plugin::{self, Code, Plugin};
use crate::provider::GuestProvider;
use crate::snapshot::{PluginReport, PluginState, Snapshot};
use crate::tool::GuestTool;
use cap_std::fs::Dir;
use prometheus_client::registry::Registry;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use toolyard_manifest::{self as manifest, Manifest, ManifestError};
use toolyard_task::provider::ProviderSpec;
use toolyard_task::{Catalog, Provider, Tool};

/// The plugins of one folder.
pub struct Plugins {
    pub(crate) engine: Arc<Engine>,
    pub(crate) dir: PathBuf,
    pub(crate) files: BTreeMap<String, Arc<Held>>,
    serving: Serving,
    /// The file that records which plugin has which name.
    names: Option<NameFile>,
    owners: Owners,
    /// Files that were removed since the start.
    gone: BTreeSet<String>,
    snapshot: Snapshot,
    metrics: Metrics,
}

/// What is known of one file.
pub(crate) struct Held {
    pub seen: Seen,
    manifest_text: Option<String>,
    manifest: Result<Arc<Manifest>, Refusal>,
    /// The folders that the manifest was found to grant.
    pins: Pins,
    /// The last component under this name that was good.
    code: Option<Arc<Code>>,
    /// Why the component in the folder is not that one.
    fault: Option<Refusal>,
    /// The two together.
    built: Result<Arc<Plugin>, Refusal>,
}

impl Plugins {
    /// The plugins of the folder `dir`, which need not exist yet. Nothing is
    /// loaded so far.
    #[must_use]
    pub fn open(engine: Arc<Engine>, dir: impl Into<PathBuf>) -> Self {
        let dir = dir.into();
        let settings = &engine.settings;
        let names = settings.names.as_ref().map(|at| NameFile::new(at, &dir, settings.deals_names));
        Self {
            engine,
            dir,
            files: BTreeMap::new(),
            serving: Serving::new(),
            names,
            owners: Owners::new(),
            gone: BTreeSet::new(),
            snapshot: Snapshot { catalog: Arc::default(), plugins: Vec::new() },
            metrics: Metrics::default(),
        }
    }

    /// Registers what is counted here.
    pub fn register_metrics(&self, registry: &mut Registry) {
        self.metrics.register(registry);
    }

    /// Loads what has changed since the last time, in parallel and off the async
    /// threads, and says what is on offer.
    pub async fn load(&mut self) -> Snapshot {
        let Some(scan) = self.scan().await else {
            return self.snapshot();
        };
        let changed = |(name, seen): (&String, &Seen)| {
            (self.files.get(name).map(|held| held.seen) != Some(*seen)).then(|| name.clone())
        };
        let ready = scan.files.iter().filter_map(changed).collect();
        let gone = self.files.keys().filter(|name| !scan.files.contains_key(*name)).cloned().collect();
        self.update(&scan, ready, gone).await;
        self.snapshot()
    }

    /// What is on offer.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        self.snapshot.clone()
    }

    /// Looks at the folder; `None` if it cannot be looked at, which may pass and
    /// changes nothing.
    pub(crate) async fn scan(&self) -> Option<Scan> {
        let path = self.dir.clone();
        let scan = tokio::task::spawn_blocking(move || folder::scan(&path)).await;
        match scan.map_err(std::io::Error::other).flatten() {
            Ok(scan) => Some(scan),
            Err(error) => {
                tracing::warn!(path = %self.dir.display(), "the plugin folder cannot be looked at: {error}");
                None
            }
        }
    }

    /// Loads the files of `ready`, forgets those of `gone`, and builds the
    /// catalog anew. Says whether anything is different now.
    pub(crate) async fn update(
        &mut self,
        scan: &Scan,
        ready: BTreeSet<String>,
        gone: BTreeSet<String>,
    ) -> bool {
        let loaded = match &scan.dir {
            Some(dir) => self.load_files(dir, scan, ready).await,
            None => Vec::new(),
        };
        for name in gone {
            tracing::info!(plugin = name, "removed");
            self.files.remove(&name);
            self.gone.insert(name);
        }
        for (name, held) in loaded {
            self.files.insert(name, Arc::new(held));
        }
        self.assemble().await
    }

    async fn load_files(&self, dir: &Arc<Dir>, scan: &Scan, ready: BTreeSet<String>) -> Vec<(String, Held)> {
        let turns = Arc::new(Semaphore::new(Engine::loads_at_once()));
        // A file that was renamed is not compiled again.
        let codes: HashMap<String, Arc<Code>> = self
            .files
            .values()
            .filter_map(|held| held.code.clone())
            .map(|code| (code.digest.0.clone(), code))
            .collect();
        let codes = Arc::new(codes);
        let mut loading = JoinSet::new();
        for name in ready {
            let Some(seen) = scan.files.get(&name).copied() else { continue };
            let file = File {
                engine: self.engine.clone(),
                runtime: Handle::current(),
                dir: dir.clone(),
                place: self.dir.clone(),
                former: self.files.get(&name).cloned(),
                codes: codes.clone(),
                name,
                seen,
            };
            let turns = turns.clone();
            loading.spawn(async move {
                let _turn = turns.acquire_owned().await;
                let name = file.name.clone();
                let former = file.former.clone();
                let held = tokio::task::spawn_blocking(move || file.load()).await;
                let held = held.unwrap_or_else(|error| Held::after_panic(seen, former, &error));
                (name, held)
            });
        }
        loading.join_all().await
    }

    /// Decides who serves which name, and builds the catalog if that is different.
    async fn assemble(&mut self) -> bool {
        let turn = self.recall().await;
        let (serving, reports, owners) = decide(&self.files, &self.serving, (&self.owners, &self.gone));
        if owners != self.owners {
            self.owners = owners;
            self.remember(turn).await;
        }
        let same_plugins = serving == self.serving;
        if same_plugins && reports == self.snapshot.plugins {
            return false;
        }
        for report in &reports {
            if !self.snapshot.plugins.contains(report) {
                log(report);
                self.metrics.loaded(report);
            }
        }
        self.metrics.stand(&reports);
        if !same_plugins {
            let tools =
                serving.values().flat_map(|served| served.tools()).map(|tool| tool.clone() as Arc<dyn Tool>);
            let providers = serving.values().filter_map(|served| served.provider.clone());
            let providers = providers.map(|provider| provider as Arc<dyn Provider>);
            match Catalog::new(tools).and_then(|catalog| catalog.with(providers)) {
                Ok(catalog) => self.snapshot.catalog = Arc::new(catalog),
                // `settle` gives each name to one plugin.
                Err(collision) => tracing::error!("the catalog stays as it was: {collision}"),
            }
            self.serving = serving;
        }
        self.snapshot.plugins = reports;
        true
    }

    /// Reads who has which name, as far as it is kept. Another process of the same data
    /// folder may have decided meanwhile.
    async fn recall(&mut self) -> Option<Turn> {
        let names = self.names.clone()?;
        match tokio::task::spawn_blocking(move || names.take()).await.map_err(std::io::Error::other).flatten()
        {
            Ok((turn, owners)) => {
                if let Some(owners) = owners {
                    self.owners = owners;
                }
                Some(turn)
            }
            Err(error) => {
                let path = self.names.as_ref().map(|names| names.path().display().to_string());
                tracing::warn!(
                    path,
                    "it cannot be read which plugin has which tool name, so new names go by file name; make \
                     the file readable, or remove it: {error}"
                );
                None
            }
        }
    }

    async fn remember(&self, turn: Option<Turn>) {
        let (Some(names), Some(turn)) = (self.names.clone(), turn) else { return };
        let owners = self.owners.clone();
        let path = names.path().display().to_string();
        let written = tokio::task::spawn_blocking(move || names.write(&owners, &turn)).await;
        if let Err(error) = written.map_err(std::io::Error::other).flatten() {
            tracing::warn!(
                path,
                "cannot write which plugin has which tool name; a restart may assign names again: {error}"
            );
        }
    }
}

impl std::fmt::Debug for Plugins {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Plugins")
            .field("dir", &self.dir)
            .field("snapshot", &self.snapshot)
            .finish_non_exhaustive()
    }
}

/// A plugin that serves, without the names that it does not get.
pub(crate) struct Served {
    plugin: Arc<Plugin>,
    left_out: BTreeSet<Name>,
    provider: Option<Arc<GuestProvider>>,
}

impl PartialEq for Served {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.plugin, &other.plugin) && self.left_out == other.left_out
    }
}

impl Served {
    /// The former object, if it is the same.
    fn new(plugin: &Arc<Plugin>, left_out: BTreeSet<Name>, former: Option<&Arc<Self>>) -> Arc<Self> {
        let prompts: BTreeSet<&str> =
            left_out.iter().filter(|name| name.kind == Kind::Prompt).map(|name| name.name.as_str()).collect();
        let provider = plugin.provider.as_ref().map(|provider| match prompts.is_empty() {
            true => provider.clone(),
            false => Arc::new(provider.without(&prompts)),
        });
        let new = Self { plugin: plugin.clone(), provider, left_out };
        match former {
            Some(former) if **former == new => former.clone(),
            _ => Arc::new(new),
        }
    }

    fn tools(&self) -> impl Iterator<Item = &Arc<GuestTool>> {
        self.plugin.tools.iter().filter(|tool| !self.lacks(Kind::Tool, tool.spec.name()))
    }

    fn lacks(&self, kind: Kind, name: &str) -> bool {
        self.left_out.iter().any(|out| out.kind == kind && out.name == name)
    }
}

type Serving = BTreeMap<String, Arc<Served>>;

/// Decides which plugin serves which name.
fn decide(
    files: &BTreeMap<String, Arc<Held>>,
    before: &Serving,
    (owners, gone): (&Owners, &BTreeSet<String>),
) -> (Serving, Vec<PluginReport>, Owners) {
    // The manifests decide, not which plugin serves already, so the order makes no difference.
    let granted: Vec<_> = files
        .iter()
        .filter(|(_, held)| !held.is_disabled())
        .filter_map(|(file, held)| Some((file.as_str(), &*held.built.as_ref().ok()?.base.grants)))
        .collect();
    let faults = grant::faults(&granted);
    let former = |file: &str, held: &Held| {
        let former = &before.get(file)?.plugin;
        let is_other = held.built.as_ref().is_ok_and(|built| !Arc::ptr_eq(built, former));
        (is_other && held.has_manifest_of(former)).then_some(former)
    };
    let candidate = |(file, held): (&String, &Arc<Held>)| {
        let may_serve = !held.is_disabled() && !faults.contains_key(file.as_str());
        let listed = held.built.as_ref().ok().filter(|_| may_serve).map(|built| built.offer());
        let former = former(file, held).filter(|_| listed.is_some()).map(|former| former.offer());
        (file.clone(), Candidate { listed, former })
    };
    let candidates: BTreeMap<String, Candidate> = files.iter().map(candidate).collect();
    let (mut outcomes, owners) = names::settle(&candidates, owners, gone);
    let mut serving = Serving::new();
    let mut reports = Vec::with_capacity(files.len());
    for (file, held) in files {
        let says = |why: Refusal| LoadError { file: file.clone(), why }.to_string();
        let collision = |(name, holder): (&Name, &String)| Refusal::Collision {
            kind: name.kind.as_str(),
            name: name.name.clone(),
            first: holder.clone(),
            second: file.clone(),
        };
        let outcome = outcomes.remove(file).unwrap_or_default();
        let (plugin, state) = match &held.built {
            _ if held.is_disabled() => (None, PluginState::Disabled),
            Err(why) => (None, PluginState::Refused { why: says(why.clone()) }),
            Ok(_) if let Some(fault) = faults.get(file.as_str()) => {
                (None, PluginState::Refused { why: says(fault.clone().into()) })
            }
            Ok(built) => {
                let offer = built.offer();
                let first = outcome.left_out.iter().next().map(collision);
                match (outcome.contested.iter().next().map(collision), first) {
                    (Some(why), _) if outcome.is_former => {
                        (former(file, held), PluginState::Former { why: says(why) })
                    }
                    (_, Some(why)) if !offer.has_more && outcome.left_out.len() == offer.names.len() => {
                        (None, PluginState::Refused { why: says(why) })
                    }
                    _ => match &held.fault {
                        None => (Some(built), PluginState::Serving),
                        Some(why) => (Some(built), PluginState::Former { why: says(why.clone()) }),
                    },
                }
            }
        };
        let left_out = outcome.left_out.iter().filter(|_| plugin.is_some()).map(|lost| says(collision(lost)));
        let left_out: Vec<String> = left_out.collect();
        let served = plugin
            .map(|plugin| Served::new(plugin, outcome.left_out.into_keys().collect(), before.get(file)));
        reports.push(report(file, served.as_deref(), left_out, state));
        if let Some(served) = served {
            serving.insert(file.clone(), served);
        }
    }
    (serving, reports, owners)
}

fn report(file: &str, served: Option<&Served>, left_out: Vec<String>, state: PluginState) -> PluginReport {
    let plugin = served.map(|served| &served.plugin);
    let tools = || served.into_iter().flat_map(Served::tools);
    let provider = served.and_then(|served| served.provider.as_ref());
    let offers = |what: fn(&ProviderSpec) -> bool| provider.is_some_and(|provider| what(&provider.spec));
    PluginReport {
        file: file.to_owned(),
        digest: plugin.map(|plugin| plugin.base.code.digest.clone()),
        tools: tools().map(|tool| tool.spec.name().to_owned()).collect(),
        limits: tools().map(|tool| tool.limits.clone()).collect(),
        concurrency: plugin.and_then(|plugin| plugin.base.manifest.concurrency),
        queue: plugin.and_then(|plugin| plugin.base.manifest.queue),
        prompts: provider
            .into_iter()
            .flat_map(|provider| &provider.spec.prompts)
            .map(|prompt| prompt.name.clone())
            .collect(),
        has_resources: offers(|spec| spec.has_resources),
        has_completion: offers(|spec| spec.has_completion),
        left_out,
        state,
        compiled_in: plugin.and_then(|plugin| plugin.base.code.compiled_in),
    }
}

fn log(report: &PluginReport) {
    let PluginReport { file, tools, prompts, has_resources, left_out, state, .. } = report;
    for why in left_out {
        tracing::warn!(plugin = file, "left out: {why}");
    }
    match state {
        PluginState::Serving => {
            let (tools, prompts) = (tools.len(), prompts.len());
            tracing::info!(plugin = file, tools, prompts, resources = has_resources, "serving");
        }
        PluginState::Former { why } => tracing::warn!(plugin = file, "the former version goes on: {why}"),
        PluginState::Refused { why } => tracing::warn!(plugin = file, "refused: {why}"),
        PluginState::Disabled => tracing::info!(plugin = file, "disabled by its manifest"),
    }
}

impl Held {
    /// Whether it is worth another look though the file seems unchanged.
    pub fn may_pass(&self) -> bool {
        // A folder that is granted, or the file of a secret, may be made yet.
        let lacks_file = matches!(
            (&self.manifest, &self.built),
            (Ok(manifest), Err(Refusal::Manifest(_)))
                if !manifest.folders.is_empty() || !manifest.secrets.is_empty()
        );
        // Or one that was granted may have been replaced.
        let lost_folder = self.built.as_ref().is_ok_and(|plugin| plugin.base.grants.are_stale());
        lacks_file || lost_folder || matches!(self.fault, Some(Refusal::Unreadable(_)))
    }

    fn is_disabled(&self) -> bool {
        self.manifest.as_ref().is_ok_and(|manifest| !manifest.enabled)
    }

    fn has_manifest_of(&self, plugin: &Plugin) -> bool {
        self.manifest.as_ref().is_ok_and(|manifest| Arc::ptr_eq(manifest, &plugin.base.manifest))
    }

    /// Loading it brought down the engine's code; what was there before stays.
    fn after_panic(seen: Seen, former: Option<Arc<Self>>, error: &tokio::task::JoinError) -> Self {
        let fault = Refusal::Internal(error.to_string());
        match former {
            Some(former) => Self {
                seen,
                manifest_text: former.manifest_text.clone(),
                manifest: former.manifest.clone(),
                pins: former.pins.clone(),
                code: former.code.clone(),
                fault: Some(fault),
                built: former.built.clone(),
            },
            None => Self {
                seen,
                manifest_text: None,
                manifest: Err(fault.clone()),
                pins: Pins::default(),
                code: None,
                fault: None,
                built: Err(fault),
            },
        }
    }
}

/// A file that is to be loaded, and what that needs.
pub(crate) struct File {
    pub engine: Arc<Engine>,
    pub runtime: Handle,
    pub dir: Arc<Dir>,
    /// Where that is.
    pub place: PathBuf,
    pub name: String,
    pub seen: Seen,
    pub former: Option<Arc<Held>>,
    pub codes: Arc<HashMap<String, Arc<Code>>>,
}

impl File {
    /// Loads it. Blocks.
    fn load(self) -> Held {
        let former = self.former.as_deref();
        let (manifest_text, manifest) = self.manifest();
        let mut held = Held {
            seen: self.seen,
            code: former.and_then(|former| former.code.clone()),
            fault: None,
            built: Err(Refusal::Toolless),
            pins: former.map(|former| former.pins.clone()).unwrap_or_default(),
            manifest_text,
            manifest,
        };
        let manifest = match &held.manifest {
            Ok(manifest) => manifest.clone(),
            Err(why) => {
                held.built = Err(why.clone());
                if held.manifest_text.is_none() {
                    held.fault = Some(Refusal::Unreadable(why.to_string()));
                }
                return held;
            }
        };
        // Only now: a manifest that cannot be read for a moment is no other one.
        held.pins = held.pins.of_manifest(held.manifest_text.as_deref());
        if !manifest.enabled {
            return held;
        }
        match self.code() {
            Ok(code) => held.code = Some(code),
            Err(fault) => held.fault = Some(fault),
        }
        held.built = match (&held.code, &held.fault) {
            (Some(code), _) => self.build(code, &manifest, &held.pins),
            (None, Some(fault)) => Err(fault.clone()),
            (None, None) => Err(Refusal::Toolless),
        };
        if let Ok(plugin) = &held.built {
            held.pins.hold(&plugin.base.grants.folders);
        }
        held
    }

    /// The manifest's text and meaning; the former object if the text is the same,
    /// unless it was touched so that its secrets are read anew.
    fn manifest(&self) -> (Option<String>, Result<Arc<Manifest>, Refusal>) {
        let text = match self.manifest_text() {
            Ok(text) => text,
            Err(error) => return (None, Err(error.into())),
        };
        if let Some(former) = &self.former
            && former.manifest_text == text
            && let Ok(manifest) = &former.manifest
            && (manifest.secrets.is_empty() || former.seen.manifest == self.seen.manifest)
        {
            return (text, former.manifest.clone());
        }
        let defaults = &self.engine.settings.limits;
        let manifest = match &text {
            None => Ok(Manifest::absent(defaults)),
            Some(text) => Manifest::parse(&manifest_name(&self.name), text, defaults),
        };
        (text, manifest.map(Arc::new).map_err(Refusal::from))
    }

    /// The manifest's text, if there is one.
    pub fn manifest_text(&self) -> Result<Option<String>, ManifestError> {
        let Some(seen) = self.seen.manifest else {
            return Ok(None);
        };
        let name = manifest_name(&self.name);
        let error = |what: String| ManifestError { file: name.clone(), line: None, what };
        let bytes = folder::read(
            &self.dir,
            &name,
            seen,
            (manifest::MAX_BYTES, self.engine.settings.others_may_write),
        )
        .map_err(|refusal| error(refusal.to_string()))?;
        String::from_utf8(bytes).map(Some).map_err(|_| error("is not UTF-8".to_owned()))
    }

    /// The component, from memory if its bytes are known.
    pub fn code(&self) -> Result<Arc<Code>, Refusal> {
        let settings = &self.engine.settings;
        let bounds = (settings.max_component_bytes, settings.others_may_write);
        let bytes = folder::read(&self.dir, &self.name, self.seen.component, bounds)?;
        let digest = plugin::digest(&bytes);
        if settings.require_digest.as_ref().is_some_and(|listed| !listed.contains(&digest.0)) {
            return Err(Refusal::Unlisted(digest.0));
        }
        if let Some(code) = self.codes.get(&digest.0) {
            return Ok(code.clone());
        }
        Code::load(&self.engine, &self.runtime, &self.name, &bytes, digest).map(Arc::new)
    }

    /// The two together; the former object if neither changed.
    fn build(&self, code: &Arc<Code>, manifest: &Arc<Manifest>, pins: &Pins) -> Result<Arc<Plugin>, Refusal> {
        if let Some(Ok(former)) = self.former.as_ref().map(|former| &former.built)
            && Arc::ptr_eq(&former.base.code, code)
            && Arc::ptr_eq(&former.base.manifest, manifest)
            && !former.base.grants.are_stale()
        {
            return Ok(former.clone());
        }
        let place = (&*self.place, self.name.as_str());
        Plugin::new(&self.engine, place, code.clone(), manifest.clone(), pins).map(Arc::new)
    }

    /// Loads it for a report on it alone.
    pub fn plugin(&self) -> Result<Plugin, Refusal> {
        let manifest = self.manifest().1?;
        let place = (&*self.place, self.name.as_str());
        Plugin::new(&self.engine, place, self.code()?, manifest, &Pins::default())
    }
}
