//! The plugins of a folder: loading what changed, settling who serves which
//! name, and building the catalog.

use crate::engine::Engine;
use crate::error::{LoadError, ManifestError, Refusal};
use crate::folder::{self, Scan, Seen, manifest_name};
use crate::grant::{self, Pins};
use crate::manifest::{self, Manifest};
use crate::metrics::Metrics;
use crate::plugin::{self, Code, Plugin};
use crate::snapshot::{PluginReport, PluginState, Snapshot};
use cap_std::fs::Dir;
use prometheus_client::registry::Registry;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use toolyard_task::provider::ProviderSpec;
use toolyard_task::{Catalog, Provider, Tool};

/// The plugins of one folder.
pub struct Plugins {
    pub(crate) engine: Arc<Engine>,
    pub(crate) dir: PathBuf,
    pub(crate) files: BTreeMap<String, Arc<Held>>,
    serving: BTreeMap<String, Arc<Plugin>>,
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
        Self {
            engine,
            dir: dir.into(),
            files: BTreeMap::new(),
            serving: BTreeMap::new(),
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
        }
        for (name, held) in loaded {
            self.files.insert(name, Arc::new(held));
        }
        self.assemble()
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

    /// Decides who serves, and builds the catalog if that is different.
    fn assemble(&mut self) -> bool {
        let (serving, reports) = decide(&self.files, &self.serving);
        let same_plugins = serving.len() == self.serving.len()
            && serving.iter().all(|(name, plugin)| {
                self.serving.get(name).is_some_and(|former| Arc::ptr_eq(former, plugin))
            });
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
                serving.values().flat_map(|plugin| &plugin.tools).map(|tool| tool.clone() as Arc<dyn Tool>);
            let providers = serving.values().filter_map(|plugin| plugin.provider.clone());
            let providers = providers.map(|provider| provider as Arc<dyn Provider>);
            match Catalog::new(tools).and_then(|catalog| catalog.with(providers)) {
                Ok(catalog) => self.snapshot.catalog = Arc::new(catalog),
                // `decide` lets nobody serve a name twice.
                Err(collision) => tracing::error!("the catalog stays as it was: {collision}"),
            }
            self.serving = serving;
        }
        self.snapshot.plugins = reports;
        true
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

/// Who serves. Whoever serves a name already keeps it; among newcomers the first
/// by the alphabet gets it.
fn decide(
    files: &BTreeMap<String, Arc<Held>>,
    before: &BTreeMap<String, Arc<Plugin>>,
) -> (BTreeMap<String, Arc<Plugin>>, Vec<PluginReport>) {
    let mut serving: BTreeMap<String, Arc<Plugin>> = BTreeMap::new();
    let mut reports: BTreeMap<String, PluginReport> = BTreeMap::new();
    // By what the manifests say, whoever serves already: so the order makes no difference.
    let granted: Vec<_> = files
        .iter()
        .filter(|(_, held)| !held.is_disabled())
        .filter_map(|(file, held)| Some((file.as_str(), &*held.built.as_ref().ok()?.base.grants)))
        .collect();
    let faults = grant::faults(&granted);
    // Tools and prompts are named apart from each other.
    let mut taken: HashMap<(&'static str, String), String> = HashMap::new();
    // Names that are held from before by plugins that still want them.
    let mut kept: HashMap<(&'static str, &str), &str> = HashMap::new();
    for (file, plugin) in before {
        let Some(Ok(built)) = files.get(file).map(|held| &held.built) else { continue };
        if faults.contains_key(file.as_str()) {
            continue;
        }
        for name in plugin.names() {
            if built.names().any(|still| still == name) {
                kept.insert(name, file);
            }
        }
    }
    let (old, new): (Vec<_>, Vec<_>) = files.iter().partition(|(file, _)| before.contains_key(*file));
    for (file, held) in old.into_iter().chain(new) {
        let collision = |plugin: &Plugin, taken: &HashMap<(&'static str, String), String>| {
            plugin.names().find_map(|(kind, name)| {
                let holder = taken.get(&(kind, name.to_owned())).map(String::as_str);
                let holder = holder.or_else(|| kept.get(&(kind, name)).copied())?;
                (holder != file).then(|| Refusal::Collision {
                    kind,
                    name: name.to_owned(),
                    first: holder.to_owned(),
                    second: file.clone(),
                })
            })
        };
        let says = |why: &Refusal| LoadError { file: file.clone(), why: why.clone() }.to_string();
        let (plugin, state) = match &held.built {
            _ if held.is_disabled() => (None, PluginState::Disabled),
            Err(why) => (None, PluginState::Refused { why: says(why) }),
            Ok(_) if let Some(fault) = faults.get(file.as_str()) => {
                (None, PluginState::Refused { why: says(&fault.clone().into()) })
            }
            Ok(built) => match (collision(built, &taken), before.get(file)) {
                (None, _) => {
                    let state = match &held.fault {
                        None => PluginState::Serving,
                        Some(why) => PluginState::Former { why: says(why) },
                    };
                    (Some(built), state)
                }
                (Some(why), Some(former))
                    if held.has_manifest_of(former) && collision(former, &taken).is_none() =>
                {
                    (Some(former), PluginState::Former { why: says(&why) })
                }
                (Some(why), _) => (None, PluginState::Refused { why: says(&why) }),
            },
        };
        let names = |wanted: &str| {
            let names = plugin.iter().flat_map(|plugin| plugin.names());
            names.filter(|(kind, _)| *kind == wanted).map(|(_, name)| name.to_owned()).collect()
        };
        let offers = |what: fn(&ProviderSpec) -> bool| {
            let provider = plugin.and_then(|plugin| plugin.provider.as_ref());
            provider.is_some_and(|provider| what(&provider.spec))
        };
        let report = PluginReport {
            file: file.clone(),
            digest: plugin.map(|plugin| plugin.base.code.digest.clone()),
            tools: names("tool"),
            limits: plugin.iter().flat_map(|plugin| &plugin.tools).map(|tool| tool.limits.clone()).collect(),
            concurrency: plugin.and_then(|plugin| plugin.base.manifest.concurrency),
            queue: plugin.and_then(|plugin| plugin.base.manifest.queue),
            prompts: names("prompt"),
            has_resources: offers(|spec| spec.has_resources),
            has_completion: offers(|spec| spec.has_completion),
            state,
            compiled_in: plugin.and_then(|plugin| plugin.base.code.compiled_in),
        };
        if let Some(plugin) = plugin {
            taken.extend(plugin.names().map(|(kind, name)| ((kind, name.to_owned()), file.clone())));
            serving.insert(file.clone(), plugin.clone());
        }
        reports.insert(file.clone(), report);
    }
    (serving, reports.into_values().collect())
}

fn log(report: &PluginReport) {
    let PluginReport { file, tools, prompts, has_resources, state, .. } = report;
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
