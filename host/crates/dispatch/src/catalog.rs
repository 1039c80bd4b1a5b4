//! The tools, resources and prompts that are offered now.

pub(crate) mod changes;
pub(crate) mod tools_list;

use crate::access::Access;
use crate::client::Clients;
use crate::node::Node;
use crate::observe::Observers;
use crate::observe::metrics::MeasuredTool;
use crate::settings::Settings;
use arc_swap::ArcSwap;
use changes::CatalogChanges;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::{SetOnce, watch};
use tools_list::CatalogSnapshot;
use toolyard_task::tool::ToolSpec;
use toolyard_task::{Catalog, Digest, Durability};

/// The catalog in force, and the followers of its changes.
pub struct LiveCatalog {
    snapshot: ArcSwap<CatalogSnapshot>,
    /// Set with the first catalog.
    loaded: SetOnce<()>,
    /// The transports follow these and notify their clients.
    changes: CatalogChanges,
    /// The files of plugins whose tools are not known yet, because they are being compiled.
    loading: watch::Sender<Vec<String>>,
    /// Whether there are any.
    is_loading: AtomicBool,
    /// Set when a catalog was put in place, because a task may have waited for one of its tools.
    published: AtomicBool,
    settings: Arc<Settings>,
    access: Arc<Access>,
    clients: Arc<Clients>,
    observers: Arc<Observers>,
    node: Arc<Node>,
}

impl LiveCatalog {
    /// An empty one.
    pub(crate) fn new(
        settings: Arc<Settings>,
        access: Arc<Access>,
        clients: Arc<Clients>,
        observers: Arc<Observers>,
        node: Arc<Node>,
    ) -> Self {
        Self {
            snapshot: ArcSwap::from_pointee(CatalogSnapshot::default()),
            loaded: SetOnce::new(),
            changes: CatalogChanges::default(),
            loading: watch::Sender::default(),
            is_loading: AtomicBool::new(false),
            published: AtomicBool::new(false),
            settings,
            access,
            clients,
            observers,
            node,
        }
    }

    /// Puts a new catalog in place of the old. Calls under way keep the tools
    /// that they resolved.
    pub fn publish(&self, catalog: Arc<Catalog>) {
        let measured = self.observers.metrics.measure(&self.current(), &catalog);
        let snapshot = CatalogSnapshot::of(
            catalog.clone(),
            measured,
            &self.snapshot.load(),
            self.settings.bridge.as_deref().filter(|_| self.settings.tasks),
        );
        let former = self.snapshot.swap(Arc::new(snapshot));
        // No client has read a list before the first catalog.
        if self.loaded.set(()).is_err() {
            self.changes.compare(&former.catalog, &catalog);
        }
        self.published.store(true, Ordering::Relaxed);
    }

    /// Says which files of plugins are still being compiled, after the catalog of the others was put in place.
    pub fn set_loading(&self, files: Vec<String>) {
        self.is_loading.store(!files.is_empty(), Ordering::Relaxed);
        self.loading.send_replace(files);
    }

    /// Whether files of plugins are still being compiled, so that tools may be missing.
    pub(crate) fn is_loading(&self) -> bool {
        self.is_loading.load(Ordering::Relaxed)
    }

    /// Follows the files of plugins that are still being compiled. It changes with the catalog, too.
    pub(crate) fn loading(&self) -> watch::Receiver<Vec<String>> {
        self.loading.subscribe()
    }

    /// Notifies clients that each list may show other entries than before, although the catalog is the same.
    pub(crate) fn announce_lists(&self) {
        if self.loaded.initialized() {
            self.changes.rise_all(&self.current());
        }
    }

    /// Waits for the first catalog. Until then every list is empty, and [`offers`](Self::offers) declares
    /// all lists.
    pub async fn loaded(&self) {
        self.loaded.wait().await;
    }

    /// Whether there was a catalog yet.
    #[must_use]
    pub fn is_loaded(&self) -> bool {
        self.loaded.initialized()
    }

    /// The catalog in force.
    #[must_use]
    pub fn current(&self) -> Arc<Catalog> {
        self.snapshot.load().catalog.clone()
    }

    /// The catalog in force, with the data derived from it for calls and lists.
    pub(crate) fn snapshot(&self) -> arc_swap::Guard<Arc<CatalogSnapshot>> {
        self.snapshot.load()
    }

    /// The tool of this name.
    pub(crate) fn tool(&self, name: &str) -> Option<Arc<MeasuredTool>> {
        self.snapshot.load().tool(name)
    }

    /// Whether a catalog was put in place since the last call of this function.
    pub(crate) fn take_published(&self) -> bool {
        self.published.swap(false, Ordering::Relaxed)
    }

    /// The components that tools of this host come from.
    pub(crate) fn components(&self) -> Vec<Digest> {
        self.components_of(|_| true)
    }

    /// The components of tools whose tasks resume.
    pub(crate) fn resuming_components(&self) -> Vec<Digest> {
        self.components_of(|spec| spec.durability == Durability::Resume)
    }

    fn components_of(&self, filter: impl Fn(&ToolSpec) -> bool) -> Vec<Digest> {
        let catalog = self.current();
        let specs = catalog.tools().map(|tool| tool.spec()).filter(|spec| filter(spec));
        let mut components: Vec<Digest> = specs.map(|spec| spec.digest.clone()).collect();
        components.sort_unstable_by(|one, other| one.0.cmp(&other.0));
        components.dedup();
        components
    }
}
