//! What a run may connect to: HTTP, raw sockets and the names of both.

pub(crate) mod address;
pub(crate) mod body;
pub(crate) mod connect;
pub(crate) mod exchange;
pub(crate) mod http;
pub(crate) mod name_lookup;
pub(crate) mod permission;
pub(crate) mod policy;
pub(crate) mod sockets;
