//! This process as one of several hosts.

pub(crate) mod broadcast;
pub(crate) mod membership;
