//! Timelines in PostgreSQL: not kept yet. Events are dropped, and every timeline is empty.

use super::PostgresStore;
use async_trait::async_trait;
use toolyard_task::TaskId;
use toolyard_task::store::StoreError;
use toolyard_task::timeline::{NewEvent, Timeline, TimelineStore};
use toolyard_task::tool::RunUsage;

#[async_trait]
impl TimelineStore for PostgresStore {
    fn append(&self, _task: TaskId, _event: NewEvent) {}

    fn append_usage(&self, _task: TaskId, _attempt: u32, _used: RunUsage) {}

    async fn timeline(
        &self,
        _task: TaskId,
        _after: Option<u64>,
        _limit: u32,
    ) -> Result<Timeline, StoreError> {
        Ok(Timeline::default())
    }

    async fn tidy_timeline(&self) -> Result<(), StoreError> {
        Ok(())
    }
}
