//! What has changed in what is on offer, for those who tell clients (TL-1, R-6,
//! R-7, PR-5). Bursts become one notice: whoever follows looks at the latest.

use crate::Catalog;
use crate::catalog::LiveCatalog;
use std::sync::Arc;
use tokio::sync::{broadcast, watch};
pub use toolyard_protocol::initialize::Offers;
use toolyard_task::provider::ProviderSpec;
pub use toolyard_task::tool::Change;

/// URIs of changed resources that may wait to be told. Whoever falls behind tells
/// every subscriber of every resource, which is more than is needed, never less.
const UPDATES: usize = 1_024;
/// The same for what guests announce, to be told to other processes.
const ANNOUNCEMENTS: usize = 1_024;

/// How often the lists have changed: each number rises by one or more.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Lists {
    /// The list of tools.
    pub tools: u64,
    /// The list of prompts.
    pub prompts: u64,
    /// The list of resources.
    pub resources: u64,
}

/// The feeds.
pub(crate) struct Feeds {
    lists: watch::Sender<Lists>,
    updates: broadcast::Sender<Option<Arc<str>>>,
    announcements: broadcast::Sender<Change>,
}

impl Default for Feeds {
    fn default() -> Self {
        Self {
            lists: watch::Sender::new(Lists::default()),
            updates: broadcast::Sender::new(UPDATES),
            announcements: broadcast::Sender::new(ANNOUNCEMENTS),
        }
    }
}

impl Feeds {
    fn rise(&self, of: fn(&mut Lists) -> &mut u64) {
        self.lists.send_modify(|lists| *of(lists) += 1);
    }

    /// Says which lists differ between two catalogs. Objects that are the same are
    /// the same offer; a plugin that was loaded anew is a new one.
    pub fn compare(&self, old: &Catalog, new: &Catalog) {
        let same_tools =
            old.len() == new.len() && old.tools().zip(new.tools()).all(|(a, b)| Arc::ptr_eq(a, b));
        let same_providers = old.providers().len() == new.providers().len()
            && old.providers().iter().zip(new.providers()).all(|(a, b)| Arc::ptr_eq(a, b));
        let any = |of: fn(&Offers) -> bool| of(&offers(old)) || of(&offers(new));
        self.lists.send_modify(|lists| {
            lists.tools += u64::from(!same_tools);
            lists.prompts += u64::from(!same_providers && any(|offers| offers.prompts));
            lists.resources += u64::from(!same_providers && any(|offers| offers.resources));
        });
    }
}

/// What a catalog offers besides tools.
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
    /// What plugins offer besides tools now.
    #[must_use]
    pub fn offers(&self) -> Offers {
        offers(&self.offer.load().catalog)
    }

    /// Follows the changes of the lists.
    #[must_use]
    pub fn lists(&self) -> watch::Receiver<Lists> {
        self.feeds.lists.subscribe()
    }

    /// Follows the resources that changed, by URI; none where it is not known which,
    /// so that it may be any.
    #[must_use]
    pub fn updates(&self) -> broadcast::Receiver<Option<Arc<str>>> {
        self.feeds.updates.subscribe()
    }

    /// Follows what guests say has changed. What has changed in the plugin folder is
    /// not among it: every process sees that for itself.
    #[must_use]
    pub fn announcements(&self) -> broadcast::Receiver<Change> {
        self.feeds.announcements.subscribe()
    }

    /// A guest says that something has changed, here or in another process of this machine.
    pub fn announce(&self, change: Change) {
        self.node.tell_change(&change);
        self.announce_here(change);
    }

    /// A guest says that something has changed, wherever it is; clients of this host hear it.
    pub fn announce_here(&self, change: Change) {
        // Nobody may be listening, here and below.
        drop(self.feeds.announcements.send(change.clone()));
        match change {
            Change::Tools => self.feeds.rise(|lists| &mut lists.tools),
            Change::Prompts => self.feeds.rise(|lists| &mut lists.prompts),
            Change::Resources => self.feeds.rise(|lists| &mut lists.resources),
            Change::Resource(uri) => drop(self.feeds.updates.send(Some(uri.into()))),
        }
    }

    /// Guests in another process have said that things changed, and what is not known
    /// any more.
    pub fn announce_anything(&self) {
        self.resources.changed(None);
        for change in [Change::Tools, Change::Prompts, Change::Resources] {
            self.announce(change);
        }
        drop(self.feeds.updates.send(None));
    }
}
