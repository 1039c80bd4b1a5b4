//! The port to the hosts that share a store.

use crate::id::Incarnation;
use crate::store::StoreError;
use async_trait::async_trait;

/// Which hosts live.
#[async_trait]
pub trait NodeStore: Send + Sync + 'static {
    /// Registers this process as a host that lives, for as long as the object
    /// does. A second call gives the same incarnation.
    async fn register(&self) -> Result<Incarnation, StoreError>;

    /// Incarnations that were registered and live no longer.
    async fn dead(&self) -> Result<Vec<Incarnation>, StoreError>;

    /// Forgets a dead incarnation whose tasks were seen to. One that lives, or
    /// still holds live tasks, stays known.
    async fn forget(&self, incarnation: Incarnation) -> Result<(), StoreError>;
}
