//! Estimates the total number of live tasks. Counting them for each creation would cost more than
//! the creation, and far from the quota the exact number is not needed.

use super::connections::Readers;
use super::rows::count;
use parking_lot::Mutex;
use std::time::{Duration, Instant};
use toolyard_task::StoreError;

const COUNT: &str = "SELECT count(*) FROM task WHERE status <= 2";

/// How long a count is trusted.
const FRESH: Duration = Duration::from_secs(1);
/// As long as this many more tasks fit, they are not counted. Hosts that create this many within
/// [`FRESH`] may exceed the quota by the tasks that they create in that time.
const AMPLE: u64 = 2_000;

/// The last count of live tasks, and when it was taken.
#[derive(Default)]
pub(super) struct LiveQuota(Mutex<Option<(Instant, u64)>>);

impl LiveQuota {
    /// The quota, if the transaction that creates a task must check it.
    pub(super) async fn to_check(&self, readers: &Readers, quota: u32) -> Result<Option<u32>, StoreError> {
        if u64::from(quota) <= AMPLE {
            return Ok(Some(quota));
        }
        let known = *self.0.lock();
        let live = match known.filter(|(at, _)| at.elapsed() < FRESH) {
            Some((_, live)) => live,
            None => {
                let live = count(&readers.rows(COUNT, &[]).await?)?;
                *self.0.lock() = Some((Instant::now(), live));
                live
            }
        };
        Ok((live + AMPLE >= u64::from(quota)).then_some(quota))
    }

    /// Records that one more was created here.
    pub(super) fn add_one(&self) {
        if let Some((_, live)) = &mut *self.0.lock() {
            *live += 1;
        }
    }
}
