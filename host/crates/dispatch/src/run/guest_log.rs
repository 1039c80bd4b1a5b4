//! Log messages of a guest.

use crate::client::client_channel::Notice;
use crate::run::run::Run;
use crate::run::throttle::LogDecision;
use tokio::time::Instant;
use toolyard_task::wire::{LogLevel, RawJson};

impl Run {
    /// Logs a message of the guest: to the client and, within bounds, to the host's own log.
    pub(crate) fn log(&self, level: LogLevel, logger: Option<String>, data: RawJson) {
        let shown = logger.as_deref().unwrap_or_default();
        let (ours, theirs, bounds) = {
            let mut reports = self.reports.lock();
            let ours = reports.count_log(data.as_bytes().len() + shown.len() + 1);
            (ours, reports.admit_log(Instant::now()), reports.bounds())
        };
        match ours {
            LogDecision::Yes => {
                tracing::info!(
                    target: "guest", event = "guest.log", plugin = self.work.plugin(),
                    tool = self.work.tool_name(), log_level = level.as_str(), logger = shown,
                    "{}", data.as_str()
                );
            }
            LogDecision::NoMore => tracing::warn!(
                target: "guest", event = "guest.log_limit_reached", plugin = self.work.plugin(),
                tool = self.work.tool_name(), setting = "limits.log", limit = bounds.log_bytes,
                "run logs more than its limit; the rest is dropped"
            ),
            LogDecision::No => {}
        }
        match theirs {
            LogDecision::Yes => self.notify(Notice::Log { level, logger, data }),
            LogDecision::NoMore => self.notify(Notice::Log {
                level: LogLevel::Warning,
                logger: Some("toolyard".to_owned()),
                data: RawJson::of(&format!(
                    "The tool logs more than {} messages a second (`limits.log-rate`); the rest of this second \
                     is left out.",
                    bounds.logs_per_second
                )),
            }),
            LogDecision::No => {}
        }
    }
}
