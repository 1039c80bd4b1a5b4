//! Changes of the catalog, for the transports that notify clients (TL-1, R-6, R-7, PR-5). A burst
//! becomes one notification: a follower reads the latest state.

use crate::catalog::LiveCatalog;
use std::sync::Arc;
use tokio::sync::{broadcast, watch};
pub use toolyard_protocol::offers::Offers;
use toolyard_task::Catalog;
use toolyard_task::provider::ProviderSpec;
pub use toolyard_task::tool::OfferChange;

/// URIs of changed resources that may wait for a follower. A follower that falls behind notifies
/// every subscriber of every resource: more than needed, never less.
const MAX_UPDATES: usize = 1_024;

/// How often the lists have changed: each number rises by one or more.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ListVersions {
    /// The list of tools.
    pub tools: u64,
    /// The list of prompts.
    pub prompts: u64,
    /// The list of resources.
    pub resources: u64,
}

/// The feeds.
pub(crate) struct CatalogChanges {
    lists: watch::Sender<ListVersions>,
    updates: broadcast::Sender<Option<Arc<str>>>,
}

impl Default for CatalogChanges {
    fn default() -> Self {
        Self {
            lists: watch::Sender::new(ListVersions::default()),
            updates: broadcast::Sender::new(MAX_UPDATES),
        }
    }
}

impl CatalogChanges {
    fn rise(&self, of: fn(&mut ListVersions) -> &mut u64) {
        self.lists.send_modify(|lists| *of(lists) += 1);
    }

    /// Counts all lists that this catalog has: other rules may show other parts of them.
    pub fn rise_all(&self, catalog: &Catalog) {
        let offers = offers(catalog);
        self.lists.send_modify(|lists| {
            lists.tools += 1;
            lists.prompts += u64::from(offers.prompts);
            lists.resources += u64::from(offers.resources);
        });
    }

    /// Counts the lists that differ between two catalogs. A plugin that was optimised is another object with the same
    /// entries; one of another component counts as changed, since its resources may differ.
    pub fn compare(&self, old: &Catalog, new: &Catalog) {
        let same_tools =
            old.len() == new.len() && old.tools().zip(new.tools()).all(|(a, b)| a.spec() == b.spec());
        let same_providers = old.providers().len() == new.providers().len()
            && old.providers().iter().zip(new.providers()).all(|(a, b)| a.spec() == b.spec());
        let any = |of: fn(&Offers) -> bool| of(&offers(old)) || of(&offers(new));
        self.lists.send_modify(|lists| {
            lists.tools += u64::from(!same_tools);
            lists.prompts += u64::from(!same_providers && any(|offers| offers.prompts));
            lists.resources += u64::from(!same_providers && any(|offers| offers.resources));
        });
    }
}

/// The lists that a catalog offers besides tools.
fn offers(catalog: &Catalog) -> Offers {
    let any =
        |has: fn(&ProviderSpec) -> bool| catalog.providers().iter().any(|provider| has(provider.spec()));
    Offers {
        resources: any(|spec| spec.has_resources),
        prompts: any(|spec| spec.has_prompts),
        completions: any(|spec| spec.has_completion),
    }
}

impl LiveCatalog {
    /// The lists that plugins offer besides tools now. All of them while components are being compiled: a client asks
    /// for none that it was not told of.
    #[must_use]
    pub fn offers(&self) -> Offers {
        if !self.is_loaded() || self.is_loading() {
            return Offers::ALL;
        }
        offers(&self.snapshot.load().catalog)
    }

    /// Follows the changes of the lists.
    #[must_use]
    pub fn lists(&self) -> watch::Receiver<ListVersions> {
        self.changes.lists.subscribe()
    }

    /// Follows the resources that changed, by URI; `None` if it is not known which, so that it may be
    /// any.
    #[must_use]
    pub fn updates(&self) -> broadcast::Receiver<Option<Arc<str>>> {
        self.changes.updates.subscribe()
    }

    /// A guest says that something has changed, here or in another process of this machine.
    pub fn announce(&self, change: OfferChange) {
        self.node.send_change(&change);
        self.announce_here(change);
    }

    /// A guest, on any host, says that something has changed; clients of this host learn of it.
    pub(crate) fn announce_here(&self, change: OfferChange) {
        // There may be no receiver.
        match change {
            OfferChange::Tools => self.changes.rise(|lists| &mut lists.tools),
            OfferChange::Prompts => self.changes.rise(|lists| &mut lists.prompts),
            OfferChange::Resources => self.changes.rise(|lists| &mut lists.resources),
            OfferChange::Resource(uri) => drop(self.changes.updates.send(Some(uri.into()))),
        }
    }
}
