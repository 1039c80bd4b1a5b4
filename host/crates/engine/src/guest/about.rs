//! What a run is of, and what it was given.

use crate::grant::Grants;
use crate::network::Network;
use std::sync::Arc;
use std::time::Instant;
use toolyard_manifest::Limits;
use toolyard_schema::Bounds;

/// What the run is of.
#[derive(Clone)]
pub(crate) struct About {
    pub plugin: Arc<str>,
    /// A tool, or a function of the contract.
    pub function: Arc<str>,
    pub is_tool: bool,
    pub grants: Arc<Grants>,
    pub limits: Arc<Limits>,
    /// How large the schemas of forms may be.
    pub schemas: Bounds,
    pub network: Arc<Network>,
    pub began: Instant,
}
