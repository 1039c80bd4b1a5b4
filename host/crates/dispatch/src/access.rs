//! Who may do what, how often, and what is written down of refusals.

pub(crate) mod audit;
pub(crate) mod caller;
pub(crate) mod fair_share;
pub(crate) mod grants;
pub(crate) mod permit;
pub(crate) mod principal;
pub(crate) mod rate_limit;
pub mod rules;

use crate::observe::Observers;
use arc_swap::ArcSwap;
use audit::Refusals;
use caller::Caller;
use fair_share::Weights;
use principal::{Principal, Subject};
use rate_limit::{Operation, Paces, RateKey, Rates, Used};
use std::sync::Arc;
use toolyard_task::audit::Entry;
use toolyard_task::grant::GrantStore;
use toolyard_task::tool::Share;
use toolyard_task::{AuditStore, Clock, Owner};

/// Who may do what, and how often.
#[derive(Debug, Default)]
pub struct Policy {
    authority: rules::Authority,
    paces: Paces,
    weights: Weights,
}

impl Policy {
    /// These rules, and these rates of each principal. Without rules everything is
    /// allowed.
    #[must_use]
    pub fn new(authority: rules::Authority, rates: &Rates) -> Self {
        Self { authority, paces: Paces::new(rates), weights: Weights::default() }
    }

    /// The same, with these weights of principals.
    #[must_use]
    pub fn weighing(self, weights: Weights) -> Self {
        Self { weights, ..self }
    }
}

/// Who may do what, how often, and what goes on record of it.
pub(crate) struct Access {
    policy: ArcSwap<Policy>,
    refusals: Refusals,
    /// What was used here of the rates since the other hosts were told.
    pub used: Used,
    /// Whether hosts on other machines count on the same rates.
    is_shared: bool,
    audit: Arc<dyn AuditStore>,
    pub grants: Arc<dyn GrantStore>,
    clock: Arc<dyn Clock>,
    observers: Arc<Observers>,
}

impl Access {
    /// Without a policy: everybody may do everything.
    pub fn new(
        audit: Arc<dyn AuditStore>,
        grants: Arc<dyn GrantStore>,
        is_shared: bool,
        clock: Arc<dyn Clock>,
        observers: Arc<Observers>,
    ) -> Self {
        Self {
            policy: ArcSwap::default(),
            refusals: Refusals::default(),
            used: Used::default(),
            is_shared,
            audit,
            grants,
            clock,
            observers,
        }
    }

    /// Puts this policy in force, before anybody is served. Until then everybody may
    /// do everything, as at the command line.
    pub fn enforce(&self, policy: Policy) {
        self.policy.store(Arc::new(policy));
    }

    /// The policy in force.
    pub fn policy(&self) -> arc_swap::Guard<Arc<Policy>> {
        self.policy.load()
    }

    /// On whose account a caller's runs compute.
    fn share(&self, caller: &Caller) -> Share {
        Share { account: caller.account(), weight: self.policy().weights.of(&caller.principal) }
    }

    /// On whose account the runs of this owner's tasks compute.
    fn share_of(&self, owner: &Owner) -> Share {
        let principal = match owner {
            Owner::Local => Principal::Local,
            Owner::Session(_) | Owner::Anyone => Principal::Anonymous,
            Owner::Subject { issuer, subject } => {
                Principal::Subject(Subject::named(issuer.clone(), subject.clone()))
            }
        };
        Share { account: owner.key().into(), weight: self.policy().weights.of(&principal) }
    }

    /// Counts what was done on another host.
    pub fn spend(&self, who: &RateKey, operation: Operation, count: u32) {
        self.policy().paces.spend(who, operation, count);
    }

    /// Forgets those whose counts have run out.
    pub fn tidy_rates(&self) {
        self.policy().paces.tidy();
    }

    /// Puts an entry on record that goes with no change.
    pub fn note_entry(&self, entry: Entry) {
        self.audit.note(entry);
    }
}
