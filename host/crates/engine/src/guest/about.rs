//! The plugin and the function of a run, and what its manifest grants.

use crate::grant::Grants;
use crate::network::Network;
use std::sync::Arc;
use std::time::Instant;
use toolyard_manifest::Limits;
use toolyard_schema::Bounds;

#[derive(Clone)]
pub(crate) struct About {
    pub plugin: Arc<str>,
    /// The name of a tool or of a function of the contract.
    pub function: Arc<str>,
    pub is_tool: bool,
    pub grants: Arc<Grants>,
    pub limits: Arc<Limits>,
    /// The bounds of form schemas.
    pub schemas: Bounds,
    pub network: Arc<Network>,
    pub began: Instant,
}
