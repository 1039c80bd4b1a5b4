//! The network: HTTP, raw sockets and the look-up of names.
//!
//! The manifest says which hosts it grants. `policy` holds the grants of one run and what was
//! refused of them, `permission` decides on one request, `name_lookup` finds addresses, `address`
//! tells the public ones from others, `connect` opens the connection, `exchange` is one request and
//! its response, and `body` counts what passes.
//!
//! A name is resolved once for a request, and the host connects to one of the addresses that it
//! has checked. Each request has a connection of its own: one that is kept would outlive the
//! decision it was opened for, and its run. The host follows neither redirects nor proxies; each
//! hop is a request of the guest's.
//!
//! The futures of a request belong to its run: they are held in the run's table of resources, and
//! are aborted with it.

pub(crate) mod address;
mod body;
mod connect;
mod error;
mod exchange;
pub(crate) mod http;
mod name_lookup;
mod permission;
pub(crate) mod policy;
mod resolved_peers;
pub(crate) mod sockets;

use connect::Roots;
use name_lookup::{NameLookups, SystemResolver};
use std::sync::Arc;

/// The resolver and the certificates, which the runs of all plugins share.
pub(crate) struct Network {
    pub lookups: NameLookups,
    pub roots: Roots,
}

impl Network {
    /// Those of this machine.
    pub fn of_system() -> Self {
        Self { lookups: NameLookups::new(Arc::new(SystemResolver)), roots: Roots::default() }
    }
}
