//! Who may do what, how often, and what is written down of refusals.

pub(crate) mod audit;
pub(crate) mod caller;
pub(crate) mod fair_share;
pub(crate) mod grants;
pub(crate) mod permit;
pub(crate) mod principal;
pub(crate) mod rate_limit;
pub mod rules;
