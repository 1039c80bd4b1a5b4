//! Live pages: a stream tells a page that something has changed, and the page fetches itself again.

use crate::console::Console;
use futures_util::stream::{self, Stream};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::CancellationToken;

/// The shortest time between two events.
const PAUSE: Duration = Duration::from_millis(500);
/// A stream without changes sends something this often: times on a page grow old, and a browser that is
/// gone is noticed.
const BEAT: Duration = Duration::from_secs(10);

/// Events without content, at most two a second. Ends when the host stops, and frees its `permit` then.
pub(crate) fn events(
    console: &Arc<Console>,
    stop: CancellationToken,
    permit: OwnedSemaphorePermit,
) -> impl Stream<Item = &'static str> + Send + 'static {
    let changes = console.dispatch.task_changes();
    let begin = ("retry: 2000\n\n", changes, stop, permit);
    stream::unfold(Some(begin), |state| async move {
        let (event, mut changes, stop, permit) = state?;
        if !event.starts_with("retry") {
            tokio::time::sleep(PAUSE).await;
        }
        let next = tokio::select! {
            () = stop.cancelled() => None,
            changed = changes.changed() => changed.ok().map(|()| "data: changed\n\n"),
            () = tokio::time::sleep(BEAT) => Some("data: beat\n\n"),
        };
        Some((event, next.map(|next| (next, changes, stop, permit))))
    })
}
