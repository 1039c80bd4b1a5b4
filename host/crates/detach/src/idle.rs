//! When a background host ends by itself.

use std::time::Duration;
use tokio::time::{Instant, MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;
use toolyard_transport::Server;

/// How often the host checks whether anything is left to do.
const LOOK: Duration = Duration::from_millis(250);

/// How long the host keeps running without a relay or a task. A restarted client finds it again; starting a
/// new host takes less than a second, because the plugins are already compiled.
const LINGER: Duration = Duration::from_secs(2);

/// Returns when no relay has been connected and no call has run for two seconds, or for `parked` if tasks are
/// parked; or when `stop` is cancelled.
pub async fn until_idle(server: &Server, parked: Duration, stop: CancellationToken) {
    let mut looks = interval(LOOK);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut busy = Instant::now();
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => {
                tracing::info!(event = "background.stopped", reason = "signal", "background host stops");
                return;
            }
            _ = looks.tick() => {}
        }
        if !server.is_idle() {
            busy = Instant::now();
            looks.reset();
            continue;
        }
        let idle = busy.elapsed();
        if idle < LINGER {
            continue;
        }
        // If the store fails, a task may be parked.
        if idle < parked && server.dispatch.has_parked().await.unwrap_or(true) {
            looks.reset_after(LINGER);
            continue;
        }
        tracing::info!(event = "background.stopped", reason = "idle", "background host stops");
        return;
    }
}
