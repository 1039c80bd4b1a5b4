//! The way to clients: what is sent to them, and requests that wait for their responses.

pub(crate) mod client_channel;
pub(crate) mod pending_requests;
pub(crate) mod signed_token;
