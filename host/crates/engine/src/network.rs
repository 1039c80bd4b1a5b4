//! The network: HTTP, raw sockets and name look-ups.
//!
//! The manifest names the granted hosts. `policy` holds the grants of one run and its refusals,
//! `permission` decides on one request, `name_lookup` finds addresses, `address` classifies them,
//! `connect` opens the connection, `exchange` handles one request and its response, `exchange_report` reports
//! both, and `body` counts the transferred bytes. `exchange_outcome` is what is
//! recorded of an exchange: `http_tape` answers and records requests for a client within this process, `recorded_exchange`
//! for a journal.
//!
//! A name is resolved once for each request, and the host connects to one of the addresses that it
//! has checked. Each request has its own connection, because a reused connection could outlive its
//! run and the decision that allowed it. The host follows neither redirects nor proxies; each hop
//! is a request of the guest.
//!
//! The futures of a request belong to its run: the run's resource table holds them, and they are
//! aborted with it.

pub(crate) mod address;
mod body;
mod connect;
pub(crate) mod error;
pub(crate) mod exchange;
mod exchange_outcome;
mod exchange_report;
pub(crate) mod http;
pub(crate) mod http_tape;
mod name_lookup;
mod permission;
pub(crate) mod policy;
pub(crate) mod recorded_exchange;
mod resolved_peers;
pub(crate) mod sockets;

use connect::Roots;
use name_lookup::{NameLookups, SystemResolver};
use std::sync::Arc;

/// The resolver and the certificates. The runs of all plugins share them.
pub(crate) struct Network {
    pub lookups: NameLookups,
    pub roots: Roots,
}

impl Network {
    /// Uses the resolver and the certificates of this machine.
    pub fn of_system() -> Self {
        Self { lookups: NameLookups::new(Arc::new(SystemResolver)), roots: Roots::default() }
    }
}
