//! The plugins of a folder: loads the files that changed, gives each name to one plugin, and builds
//! the catalog.

use crate::error::{LoadError, Refusal};
use crate::folder::loader::{FileLoader, LoadedFile};
use crate::folder::loads::Loads;
use crate::folder::metrics::Metrics;
use crate::folder::name_file::{NameFile, NamesLock};
use crate::folder::names::{self, Owners};
use crate::folder::outsiders::Outsiders;
use crate::folder::pending::{KnownDefinitions, PendingPlugin};
use crate::folder::report;
use crate::folder::scan::{Excess, Folder, Precedence, Scan, ScanError};
use crate::folder::serving::{FileOutcome, Files, Serving};
use crate::folder::snapshot::{PluginReport, PluginState, Snapshot};
use crate::run::engine::Engine;
use parking_lot::Mutex;
use prometheus_client::registry::Registry;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tokio::sync::{Notify, mpsc};
use toolyard_task::{Catalog, Provider, Tool};

/// The plugins of one folder.
pub struct Plugins {
    pub(crate) engine: Arc<Engine>,
    pub(crate) dir: PathBuf,
    folder: Arc<Mutex<Folder>>,
    pub(crate) files: BTreeMap<String, Arc<LoadedFile>>,
    pub(crate) loads: Loads,
    /// When the files first differed from those that the catalog was built from.
    pub(crate) unsettled: Option<Instant>,
    excess: Excess,
    /// The manifests without a component, as last seen.
    unused_manifests: BTreeSet<String>,
    serving: Serving,
    /// The file that records which plugin owns each name.
    names: Option<NameFile>,
    owners: Owners,
    /// Asks to read the secrets of all plugins again.
    pub(crate) refresh: Arc<Notify>,
    /// Files whose secrets are to be read again.
    pub(crate) stale: BTreeSet<String>,
    /// The files that are being compiled and whose definitions are known.
    pending: BTreeMap<String, PendingPlugin>,
    /// Definitions that the loads tell.
    pub(crate) known: mpsc::UnboundedReceiver<KnownDefinitions>,
    tell_known: mpsc::UnboundedSender<KnownDefinitions>,
    /// Whether the first load has ended.
    serves: bool,
    /// When the last load ended.
    loaded: Option<Instant>,
    /// Files that were removed since the start.
    gone: BTreeSet<String>,
    /// Why the last scan of the folder failed.
    fault: Option<String>,
    outsiders: Option<Outsiders>,
    snapshot: Snapshot,
    metrics: Metrics,
}

impl Plugins {
    /// Creates the plugins of the folder `dir`, which need not exist yet. Loads nothing.
    #[must_use]
    pub fn open(engine: Arc<Engine>, dir: impl Into<PathBuf>) -> Self {
        let dir = dir.into();
        let settings = &engine.settings;
        let names = settings.names.as_ref().map(|at| NameFile::new(at, &dir, settings.deals_names));
        let folder = Folder::new(&dir, settings.max_files, settings.others_may_write, settings.lock.clone());
        let (tell_known, known) = mpsc::unbounded_channel();
        Self {
            engine,
            dir,
            pending: BTreeMap::new(),
            serves: false,
            known,
            tell_known,
            folder: Arc::new(Mutex::new(folder)),
            files: BTreeMap::new(),
            loads: Loads::new(Engine::loads_at_once()),
            unsettled: None,
            excess: Excess::default(),
            unused_manifests: BTreeSet::new(),
            serving: Serving::new(),
            names,
            owners: Owners::new(),
            refresh: Arc::default(),
            stale: BTreeSet::new(),
            loaded: None,
            gone: BTreeSet::new(),
            fault: None,
            outsiders: None,
            snapshot: Snapshot { catalog: Arc::default(), plugins: Vec::new(), loading: Vec::new() },
            metrics: Metrics::default(),
        }
    }

    /// The path of the folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.dir
    }

    /// Tells [`watch`](Self::watch) to read the secrets of all plugins again. They come from outside the folder, so
    /// no change of a file reveals that they changed.
    #[must_use]
    pub fn refresher(&self) -> Arc<Notify> {
        self.refresh.clone()
    }

    /// Marks the plugins that have secrets.
    pub(crate) fn mark_stale(&mut self) {
        let has_secrets =
            |file: &LoadedFile| file.manifest.as_ref().is_ok_and(|manifest| !manifest.secrets.is_empty());
        let stale = self.files.iter().filter(|(_, file)| has_secrets(file)).map(|(name, _)| name.clone());
        self.stale = stale.collect();
    }

    /// Registers the folder's metrics.
    pub fn register_metrics(&self, registry: &mut Registry) {
        self.metrics.register(registry);
    }

    /// Loads the files that changed since the last call, in parallel and off the async threads, and
    /// returns the offer.
    pub async fn load(&mut self) -> Snapshot {
        self.load_for(None).await
    }

    /// As [`load`](Self::load), but returns after `wait`, or later once a plugin serves. Longer loads continue, and
    /// [`watch`](Self::watch) publishes their plugins.
    pub async fn load_within(&mut self, wait: Duration) -> Snapshot {
        self.load_for(Some(wait)).await
    }

    async fn load_for(&mut self, wait: Option<Duration>) -> Snapshot {
        let until = wait.map(|wait| Instant::now() + wait);
        // Files that own a name take precedence, even if the folder has too many files.
        drop(self.recall().await);
        let Some(scan) = self.scan().await else {
            return self.snapshot();
        };
        for (name, seen) in &scan.files {
            if self.files.get(name).map(|file| file.seen) != Some(*seen) {
                self.start(&scan, name);
            }
        }
        let gone: Vec<_> =
            self.files.keys().filter(|name| !scan.files.contains_key(*name)).cloned().collect();
        gone.iter().for_each(|name| self.remove(name));
        let late = async {
            match until {
                Some(until) => tokio::time::sleep_until(until.into()).await,
                None => std::future::pending().await,
            }
        };
        tokio::pin!(late);
        loop {
            tokio::select! {
                biased;
                loaded = self.loads.next() => match loaded {
                    Some((name, file)) => self.take(name, file),
                    None => break,
                },
                Some(known) = self.known.recv() => self.take_known(known),
                // A client that lists once would otherwise never see a tool.
                () = &mut late, if self.files.values().any(|file| file.built.is_ok()) => break,
            }
            let is_known = |name| self.files.contains_key(name) || self.pending.contains_key(name);
            if until.is_some() && self.loads.names().all(is_known) {
                break;
            }
        }
        self.serves = true;
        self.settle().await;
        self.snapshot()
    }

    /// Cancels the loads in progress and waits until they end. The plugins have no other background
    /// work.
    pub async fn end(&mut self) {
        self.loads.end().await;
    }

    /// The current offer.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        self.snapshot.clone()
    }

    /// Scans the folder. Returns `None` if the scan fails, which may be temporary and changes
    /// nothing.
    pub(crate) async fn scan(&mut self) -> Option<Scan> {
        let folder = self.folder.clone();
        let first = Precedence {
            loaded: self.files.keys().chain(self.loads.names()).cloned().collect(),
            owners: self.owners.values().map(|owner| owner.file.clone()).collect(),
        };
        let look = move || folder.lock().scan(&first);
        let scan = tokio::task::spawn_blocking(look).await;
        let dir = self.dir.clone();
        let path = dir.display();
        if let Some(lock) = &self.engine.settings.lock {
            self.metrics.hold(lock.held());
        }
        match scan.map_err(|error| ScanError::Io(std::io::Error::other(error))).flatten() {
            Ok(scan) => {
                if self.fault.take().is_some() {
                    tracing::info!(
                        event = "plugin.folder_recovered", %path,
                        "plugin folder can be read again"
                    );
                }
                // The command that starts the host has already checked the first scan.
                if let Some(outsiders) = scan.outsiders
                    && scan.outsiders != self.outsiders
                    && !self.files.is_empty()
                {
                    tracing::warn!(
                        event = "plugin.folder_not_protected", %path, reason = %outsiders,
                        "others can write to the plugin folder, add tools and grant them anything"
                    );
                }
                self.outsiders = scan.outsiders;
                for manifest in scan.unused_manifests.difference(&self.unused_manifests) {
                    tracing::warn!(
                        event = "plugin.manifest_unused", %path, manifest,
                        "manifest has no component of its name beside it and applies to nothing"
                    );
                }
                self.unused_manifests.clone_from(&scan.unused_manifests);
                if self.excess != scan.excess {
                    self.change();
                    self.excess = scan.excess.clone();
                    let (count, limit) = (self.excess.count, self.engine.settings.max_files);
                    if count > 0 {
                        tracing::warn!(
                            event = "plugin.too_many_files", %path, count, limit,
                            "components over the limit are not loaded"
                        );
                    }
                }
                Some(scan)
            }
            Err(error) => {
                let fault = error.to_string();
                if self.fault.as_ref() != Some(&fault) {
                    tracing::warn!(
                        event = "plugin.folder_not_read", %path, error = %fault,
                        "cannot read the plugin folder; loaded plugins stay"
                    );
                    self.fault = Some(fault);
                }
                None
            }
        }
    }

    /// Starts to load a file.
    pub(crate) fn start(&mut self, scan: &Scan, name: &str) {
        self.start_load(scan, name, false);
    }

    /// Starts to optimise a component that serves with quick code, once nothing has been loaded for a while. One at a
    /// time, because a client may wait for a file that comes meanwhile, and those that compile soonest first.
    pub(crate) fn optimize_next(&mut self, scan: &Scan) {
        let pause = self.engine.settings.optimize_after;
        if !self.loads.is_empty() || self.loaded.is_some_and(|at| at.elapsed() < pause) {
            return;
        }
        let quick = self
            .files
            .iter()
            .filter(|(name, file)| file.is_quick && scan.files.get(*name) == Some(&file.seen));
        let next = quick.min_by_key(|(_, file)| {
            file.built.as_ref().map_or(None, |plugin| plugin.base.component.compiled_in)
        });
        if let Some((name, _)) = next {
            self.start_load(scan, &name.clone(), true);
        }
    }

    fn start_load(&mut self, scan: &Scan, name: &str, optimizes: bool) {
        let (Some(dir), Some(seen)) = (&scan.dir, scan.files.get(name)) else { return };
        self.loads.start(FileLoader {
            engine: self.engine.clone(),
            runtime: Handle::current(),
            dir: dir.clone(),
            place: self.dir.clone(),
            former: self.files.get(name).cloned(),
            components: self.loads.components.clone(),
            name: name.to_owned(),
            reads_secrets: self.stale.remove(name),
            seen: *seen,
            is_awaited: !self.serves,
            optimizes,
            known: Some(self.tell_known.clone()),
            lock: scan.lock.clone(),
        });
    }

    /// Stores the outcome of a load; the next [`settle`](Self::settle) applies it.
    pub(crate) fn take(&mut self, name: String, file: Option<Arc<LoadedFile>>) {
        if let Some(file) = file {
            self.change();
            let was_quick = |former: &Arc<LoadedFile>| former.is_quick && former.seen == file.seen;
            if !self.files.get(&name).is_some_and(was_quick) {
                self.loaded = Some(Instant::now());
            }
            self.files.insert(name, file);
        }
    }

    /// Holds definitions that are known before their component is compiled; the next [`settle`](Self::settle) applies
    /// them.
    pub(crate) fn take_known(&mut self, known: KnownDefinitions) {
        let is_loading = self.loads.names().any(|name| *name == known.file);
        if is_loading && !self.files.contains_key(&known.file) {
            self.change();
            self.pending.insert(known.file, PendingPlugin::new(known.tools));
        }
    }

    /// Drops the state of a removed file.
    pub(crate) fn remove(&mut self, name: &str) {
        self.loads.cancel(name);
        if self.pending.remove(name).is_some() {
            self.change();
        }
        if self.files.remove(name).is_some() {
            tracing::info!(event = "plugin.removed", plugin = name, "plugin removed");
            self.gone.insert(name.to_owned());
            self.change();
        }
    }

    fn change(&mut self) {
        self.unsettled.get_or_insert_with(Instant::now);
    }

    /// Decides which plugin serves each name, and builds the catalog if that changed.
    pub(crate) async fn settle(&mut self) -> bool {
        self.unsettled = None;
        let turn = self.recall().await;
        let loading: Vec<String> =
            self.loads.names().filter(|name| !self.files.contains_key(*name)).cloned().collect();
        let files = Files::new(&self.files, &self.serving);
        let candidates = files.candidates(&loading);
        let (names, owners) = names::resolve(&candidates, &self.owners, &self.gone);
        let outcomes = files.serve(&candidates, names);
        let served = |(file, outcome): (&String, &FileOutcome)| Some((file.clone(), outcome.served.clone()?));
        let serving: Serving = outcomes.iter().filter_map(served).collect();
        let reports = outcomes.into_iter().map(|(file, outcome)| report::of(&file, outcome));
        let mut reports: Vec<PluginReport> = reports.collect();
        self.snapshot.loading = loading;
        self.report_excess(&mut reports);
        if owners != self.owners {
            self.owners = owners;
            self.remember(turn).await;
        }
        let was_pending = self.settle_pending(&serving);
        let pending: Vec<Arc<dyn Tool>> =
            self.pending.values().flat_map(|plugin| plugin.tools.clone()).collect();
        let same_plugins = serving == self.serving && !was_pending && self.is_listed(&pending);
        if same_plugins && reports == self.snapshot.plugins {
            return false;
        }
        let before: BTreeMap<&str, &PluginReport> =
            self.snapshot.plugins.iter().map(|report| (report.file.as_str(), report)).collect();
        for report in &reports {
            if before.get(report.file.as_str()).is_none_or(|before| *before != report) {
                report::log(report);
                self.metrics.loaded(report);
            }
        }
        self.metrics.stand(&reports);
        if !same_plugins {
            let tools =
                serving.values().flat_map(|served| served.tools()).map(|tool| tool.clone() as Arc<dyn Tool>);
            // Until all are compiled, a name belongs to the first that has it.
            let mut names = BTreeSet::new();
            let tools = tools.chain(pending).filter(|tool| names.insert(tool.spec().name().to_owned()));
            let providers = serving.values().filter_map(|served| served.provider.clone());
            let providers = providers.map(|provider| provider as Arc<dyn Provider>);
            match Catalog::new(tools).and_then(|catalog| catalog.with(providers)) {
                Ok(catalog) => self.snapshot.catalog = Arc::new(catalog),
                // This cannot happen, because `names::resolve` gives each name to one plugin.
                Err(collision) => tracing::error!(
                    event = "plugin.catalog_rejected", error = %collision,
                    "catalog not changed"
                ),
            }
            self.serving = serving;
        }
        self.snapshot.plugins = reports;
        true
    }

    /// Lets calls go on that wait for a plugin which is compiled by now. Returns whether there was one.
    fn settle_pending(&mut self, serving: &Serving) -> bool {
        let (settled, pending) = std::mem::take(&mut self.pending)
            .into_iter()
            .partition(|(file, _)| self.files.contains_key(file));
        self.pending = pending;
        let settled: BTreeMap<String, PendingPlugin> = settled;
        let any = !settled.is_empty();
        for (file, plugin) in settled {
            plugin.settle(serving.get(&file).map(|served| served.plugin.clone()));
        }
        any
    }

    /// Whether the catalog has all these tools.
    fn is_listed(&self, tools: &[Arc<dyn Tool>]) -> bool {
        let listed = |tool: &Arc<dyn Tool>| self.snapshot.catalog.get(tool.spec().name());
        tools.iter().all(|tool| listed(tool).is_some_and(|listed| Arc::ptr_eq(listed, tool)))
    }

    /// Adds the files that are not loaded because there are too many.
    fn report_excess(&self, reports: &mut Vec<PluginReport>) {
        let (limit, excess) = (self.engine.settings.max_files, self.excess.count);
        for file in &self.excess.named {
            let why = LoadError { file: file.clone(), why: Refusal::TooManyFiles { limit, excess } };
            let state = PluginState::Refused { why: why.to_string() };
            reports.push(report::of(file, FileOutcome { served: None, left_out: Vec::new(), state }));
        }
        if !self.excess.named.is_empty() {
            reports.sort_by(|one, other| one.file.cmp(&other.file));
        }
    }

    /// Reads the recorded owners of names. Another process of the same data folder may have changed
    /// them meanwhile.
    async fn recall(&mut self) -> Option<NamesLock> {
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
                    event = "plugin.names_not_read", path, %error,
                    "cannot read the owners of tool names; new names go by file name"
                );
                None
            }
        }
    }

    async fn remember(&self, turn: Option<NamesLock>) {
        let (Some(names), Some(turn)) = (self.names.clone(), turn) else { return };
        let owners = self.owners.clone();
        let path = names.path().display().to_string();
        let written = tokio::task::spawn_blocking(move || names.write(&owners, &turn)).await;
        if let Err(error) = written.map_err(std::io::Error::other).flatten() {
            tracing::warn!(
                event = "plugin.names_not_written", path, %error,
                "cannot write the owners of tool names; a restart may assign them again"
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
