//! The log lines of requests that are refused with 401, 403 or 406. Each status has at most one line a second, which
//! says how many were left out before: strangers cause these lines, and must not fill the disk.

use super::reply::{RefusalReason, Reply};
use http::StatusCode;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// The least time between two lines of a status.
const EVERY: Duration = Duration::from_secs(1);

/// The last line of each status, and how many refusals had none since.
#[derive(Default)]
pub(crate) struct RefusalLog(Mutex<HashMap<StatusCode, (Instant, u64)>>);

impl RefusalLog {
    pub fn note(&self, reply: &Reply, peer: Option<IpAddr>) {
        let status = reply.status();
        if !matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::NOT_ACCEPTABLE) {
            return;
        }
        // A call that lacks a scope has its own event.
        let Some(RefusalReason(reason)) = reply.extensions().get() else { return };
        if let Some(left_out) = self.admit(status, Instant::now()) {
            tracing::info!(
                event = "http.refused",
                status = status.as_u16(),
                reason,
                peer = peer.map(tracing::field::display),
                left_out,
                "request refused"
            );
        }
    }

    /// How many refusals were left out since the last line; `None` if this one is left out, too.
    fn admit(&self, status: StatusCode, now: Instant) -> Option<u64> {
        let mut lines = self.0.lock();
        match lines.get_mut(&status) {
            Some((last, left_out)) if now.duration_since(*last) < EVERY => {
                *left_out += 1;
                None
            }
            _ => Some(lines.insert(status, (now, 0)).map_or(0, |(_, left_out)| left_out)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_status_has_one_line_a_second_which_counts_the_others() {
        let (log, start) = (RefusalLog::default(), Instant::now());
        let admitted = |status, ms| log.admit(status, start + Duration::from_millis(ms));
        let (unknown, forbidden) = (StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN);
        assert_eq!([0, 1, 999].map(|ms| admitted(unknown, ms)), [Some(0), None, None]);
        assert_eq!(admitted(forbidden, 999), Some(0));
        assert_eq!([1_000, 2_000].map(|ms| admitted(unknown, ms)), [Some(2), Some(0)]);
    }
}
