//! Encodes the notifications of runs, and filters them for each client.

use bytes::Bytes;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::{Duration, Instant};
use toolyard_dispatch::{Notice, TaskId};
use toolyard_protocol::{LogLevel, Method, notification};

/// The log level of a client, and whether it is ready for questions.
#[derive(Debug)]
pub(crate) struct NotificationFilter {
    /// The least serious level of log messages, as its position in the order.
    min_level: AtomicU8,
    initialized: AtomicBool,
    began: Instant,
}

/// How long the host waits for `notifications/initialized`.
const INITIALIZED_TIMEOUT: Duration = Duration::from_secs(2);

impl NotificationFilter {
    /// A client with this level. A session that was read from the store was initialized long ago.
    pub fn new(level: LogLevel, initialized: bool) -> Self {
        Self {
            min_level: AtomicU8::new(level as u8),
            initialized: AtomicBool::new(initialized),
            began: Instant::now(),
        }
    }

    /// The client sets the level of its log messages (G-2).
    pub fn set_level(&self, level: LogLevel) {
        self.min_level.store(level as u8, Ordering::Relaxed);
    }

    /// `notifications/initialized` has arrived.
    pub fn set_initialized(&self) {
        self.initialized.store(true, Ordering::Relaxed);
    }

    /// Whether the host may send it requests, and notices that belong to none of its requests (L-4). A client
    /// that makes calls but has not sent `notifications/initialized` within `INITIALIZED_TIMEOUT` never will. If the
    /// host insisted on it, the client's calls would wait for questions that it never receives.
    pub fn is_initialized(&self) -> bool {
        self.initialized.load(Ordering::Relaxed) || self.began.elapsed() >= INITIALIZED_TIMEOUT
    }

    /// The notification for a notice, if the client wants it.
    pub fn message(&self, task: Option<TaskId>, notice: &Notice) -> Option<Bytes> {
        let task = task.map(|task| task.to_string());
        let task = task.as_deref();
        Some(match notice {
            Notice::Progress { token, progress } => {
                toolyard_protocol::progress::progress(token, task, progress)
            }
            Notice::Log { level, .. } if (*level as u8) < self.min_level.load(Ordering::Relaxed) => {
                return None;
            }
            Notice::Log { level, logger, data } => {
                notification::log_message(*level, logger.as_deref(), data, task)
            }
            Notice::Status(view) => notification::task_status(view),
            Notice::ToolsChanged => notification::list_changed(&Method::ToolsListChanged),
            Notice::ElicitationComplete { elicitation_id } => {
                notification::elicitation_complete(elicitation_id, task)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use toolyard_protocol::RawJson;

    #[test]
    fn g_2_a_client_gets_its_level_and_what_is_more_serious() {
        let filter = NotificationFilter::new(LogLevel::DEFAULT, true);
        let passes = |filter: &NotificationFilter, level| {
            let notice = Notice::Log { level, logger: None, data: RawJson::trusted("1") };
            filter.message(None, &notice).is_some()
        };
        assert!(!passes(&filter, LogLevel::Debug));
        assert!(passes(&filter, LogLevel::Info));
        filter.set_level(LogLevel::Error);
        assert!(!passes(&filter, LogLevel::Warning));
        assert!(passes(&filter, LogLevel::Error) && passes(&filter, LogLevel::Emergency));
        filter.set_level(LogLevel::Debug);
        assert!(LogLevel::ALL.into_iter().all(|level| passes(&filter, level)));
    }
}
