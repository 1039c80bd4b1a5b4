//! What has changed in what is on offer, for those who tell clients (TL-1, R-6,
//! R-7, PR-5). Bursts become one notice: whoever follows looks at the latest.

use crate::{Catalog, Dispatch};
use std::sync::Arc;
use tokio::sync::{broadcast, watch};
pub use toolyard_protocol::initialize::Offers;
use toolyard_task::provider::ProviderSpec;
use toolyard_task::tool::Change;

/// URIs of changed resources that may wait to be told. Whoever falls behind tells
/// every subscriber of every resource, which is more than is needed, never less.
const UPDATES: usize = 1_024;

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

/// The two feeds.
pub(crate) struct Feeds {
    lists: watch::Sender<Lists>,
    updates: broadcast::Sender<Arc<str>>,
}

impl Default for Feeds {
    fn default() -> Self {
        Self { lists: watch::Sender::new(Lists::default()), updates: broadcast::Sender::new(UPDATES) }
    }
}

impl Feeds {
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

impl Dispatch {
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

    /// Follows the resources that changed, by URI.
    #[must_use]
    pub fn updates(&self) -> broadcast::Receiver<Arc<str>> {
        self.feeds.updates.subscribe()
    }

    /// A guest says that something has changed.
    pub(crate) fn announce(&self, change: Change) {
        let rise = |of: fn(&mut Lists) -> &mut u64| self.feeds.lists.send_modify(|lists| *of(lists) += 1);
        match change {
            Change::Tools => rise(|lists| &mut lists.tools),
            Change::Prompts => rise(|lists| &mut lists.prompts),
            Change::Resources => rise(|lists| &mut lists.resources),
            Change::Resource(uri) => {
                // Nobody may be listening.
                drop(self.feeds.updates.send(uri.into()));
            }
        }
    }
}
