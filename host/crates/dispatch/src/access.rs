//! Access: the operator's rules, rate limits and shares, and the record of refusals.

pub(crate) mod audit;
pub(crate) mod caller;
pub(crate) mod fair_share;
pub(crate) mod grants;
pub(crate) mod permit;
pub(crate) mod principal;
pub(crate) mod rate_limit;
pub mod rules;
pub(crate) mod shares;

use crate::observe::Observers;
use arc_swap::ArcSwap;
use audit::RefusalCount;
use caller::Caller;
use fair_share::Weights;
use parking_lot::Mutex;
use principal::{Principal, Subject};
use rate_limit::{Operation, RateKey, RateLimits, RateUsage, Rates};
use std::sync::Arc;
use toolyard_task::audit::Entry;
use toolyard_task::grant::GrantStore;
use toolyard_task::tool::CpuShare;
use toolyard_task::{AuditStore, Clock, Owner};

/// The operator's policy: rules, rate limits and shares of principals.
#[derive(Debug, Default)]
pub struct Policy {
    rules: rules::AccessRules,
    rate_limits: Arc<RateLimits>,
    weights: Weights,
    /// Whether calls are the operator's own, and need no approval.
    is_operators_own: bool,
}

impl Policy {
    /// A policy with these rules and these rate limits for each principal. Without rules, everything is
    /// allowed.
    #[must_use]
    pub fn new(rules: rules::AccessRules, rates: &Rates) -> Self {
        let rate_limits = Arc::new(RateLimits::new(rates));
        Self { rules, rate_limits, weights: Weights::default(), is_operators_own: false }
    }

    /// The same policy for a process whose only caller is the operator, at the command line: no call is confirmed
    /// by another person.
    #[must_use]
    pub fn for_operator_alone(self) -> Self {
        Self { is_operators_own: true, ..self }
    }

    /// The same policy with these weights of principals.
    #[must_use]
    pub fn weighing(self, weights: Weights) -> Self {
        Self { weights, ..self }
    }
}

/// Applies the policy to requests and records refusals.
pub struct Access {
    policy: ArcSwap<Policy>,
    refusals: Mutex<RefusalCount>,
    /// The use of rate limits on this host since the last broadcast to the other hosts.
    pub(crate) used: RateUsage,
    /// Whether hosts on other machines count against the same rate limits.
    is_shared: bool,
    audit: Arc<dyn AuditStore>,
    pub(crate) grants: Arc<dyn GrantStore>,
    clock: Arc<dyn Clock>,
    observers: Arc<Observers>,
}

impl Access {
    /// Without a policy, every caller may do everything.
    pub(crate) fn new(
        audit: Arc<dyn AuditStore>,
        grants: Arc<dyn GrantStore>,
        is_shared: bool,
        clock: Arc<dyn Clock>,
        observers: Arc<Observers>,
    ) -> Self {
        Self {
            policy: ArcSwap::default(),
            refusals: Mutex::default(),
            used: RateUsage::default(),
            is_shared,
            audit,
            grants,
            clock,
            observers,
        }
    }

    /// Puts a policy in force. If its rates are those of the policy before, what callers have used still counts.
    pub(crate) fn enforce(&self, mut policy: Policy) {
        let former = self.policy.load();
        if former.rate_limits.rates == policy.rate_limits.rates {
            policy.rate_limits = former.rate_limits.clone();
        }
        self.policy.store(Arc::new(policy));
    }

    /// The policy in force.
    pub(crate) fn policy(&self) -> arc_swap::Guard<Arc<Policy>> {
        self.policy.load()
    }

    /// The account to which a caller's runs are charged.
    fn share(policy: &Policy, caller: &Caller) -> CpuShare {
        CpuShare { account: caller.account(), weight: policy.weights.of(&caller.principal) }
    }

    /// The account to which the runs of this owner's tasks are charged.
    fn share_of(&self, owner: &Owner) -> CpuShare {
        let principal = match owner {
            Owner::Local => Principal::Local,
            Owner::Session(_) | Owner::Anyone => Principal::Anonymous,
            Owner::Subject { issuer, subject } => {
                Principal::Subject(Subject::named(issuer.clone(), subject.clone()))
            }
        };
        CpuShare { account: owner.key().into(), weight: self.policy().weights.of(&principal) }
    }

    /// Counts operations of another host.
    pub(crate) fn spend(&self, who: &RateKey, operation: Operation, count: u32) {
        self.policy().rate_limits.spend(who, operation, count);
    }

    /// Forgets principals whose counts have expired.
    pub(crate) fn tidy_rates(&self) {
        self.policy().rate_limits.tidy();
    }

    /// Records an audit entry that belongs to no change of a task.
    pub(crate) fn note_entry(&self, entry: Entry) {
        self.audit.note(entry);
    }
}
