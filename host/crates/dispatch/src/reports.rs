//! What a guest reports and how fast it may leave: progress, status, logs.

use std::time::Duration;
use tokio::time::Instant;
use toolyard_task::wire::Progress;

/// At most 20 progress messages a second leave the host (`host.progress`).
const PROGRESS_EVERY: Duration = Duration::from_millis(50);
/// At most four status messages a second are stored (`host.status`).
const STATUS_EVERY: Duration = Duration::from_millis(250);
/// What one run may write to the host's log by `host.log`, in bytes.
pub(crate) const LOG_BYTES: usize = 64 << 10;
/// What one run may log to its client.
pub(crate) const LOGS_A_SECOND: u32 = 50;

/// What the guest reported and what is still held back.
#[derive(Default)]
pub(crate) struct Reports {
    /// The last progress that was accepted; the next must be greater (P-1).
    reached: Option<f64>,
    progress: Option<Progress>,
    progress_sent: Option<Instant>,
    status: Option<String>,
    status_stored: Option<Instant>,
    logged: usize,
    /// When the second began in which log messages are counted, and how many
    /// there were.
    log_second: Option<(Instant, u32)>,
}

/// Whether a log message still fits the second that it falls into (G-2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MayLog {
    /// It does.
    Yes,
    /// It is the first that does not.
    NoMore,
    /// It does not.
    No,
}

impl Reports {
    /// Takes progress in; what does not rise is dropped (P-1). Says whether it was
    /// taken.
    pub fn progress(&mut self, progress: Progress) -> bool {
        let rises = self.reached.is_none_or(|reached| progress.progress > reached);
        if rises {
            self.reached = Some(progress.progress);
            self.progress = Some(progress);
        }
        rises
    }

    /// Takes a status message in; the last wins.
    pub fn status(&mut self, message: String) {
        self.status = Some(message);
    }

    /// The progress that may leave now; any that is held, if it is the last chance.
    pub fn take_progress(&mut self, last_chance: bool) -> Option<Progress> {
        let now = Instant::now();
        let due = last_chance || self.progress_sent.is_none_or(|sent| sent + PROGRESS_EVERY <= now);
        let progress = if due { self.progress.take() } else { None };
        if progress.is_some() {
            self.progress_sent = Some(now);
        }
        progress
    }

    /// The status message that may be stored now.
    pub fn take_status(&mut self) -> Option<String> {
        let now = Instant::now();
        let due = self.status_stored.is_none_or(|stored| stored + STATUS_EVERY <= now);
        let status = if due { self.status.take() } else { None };
        if status.is_some() {
            self.status_stored = Some(now);
        }
        status
    }

    /// Counts so many bytes for our own log; gives how many there were before.
    pub fn count_log(&mut self, bytes: usize) -> usize {
        let before = self.logged;
        self.logged = before.saturating_add(bytes);
        before
    }

    /// Whether a log message may go to the client.
    pub fn may_log(&mut self, now: Instant) -> MayLog {
        let (began, count) = match self.log_second {
            Some((began, count)) if now.duration_since(began) < Duration::from_secs(1) => (began, count + 1),
            _ => (now, 1),
        };
        self.log_second = Some((began, count));
        match count {
            count if count <= LOGS_A_SECOND => MayLog::Yes,
            count if count == LOGS_A_SECOND + 1 => MayLog::NoMore,
            _ => MayLog::No,
        }
    }

    /// When the next of what is held back may leave.
    pub fn due(&self) -> Option<Instant> {
        let next = |last: Option<Instant>, every| last.map_or_else(Instant::now, |last| last + every);
        let progress = self.progress.as_ref().map(|_| next(self.progress_sent, PROGRESS_EVERY));
        let status = self.status.as_ref().map(|_| next(self.status_stored, STATUS_EVERY));
        [progress, status].into_iter().flatten().min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(progress: f64) -> Progress {
        Progress { progress, total: None, message: None }
    }

    #[test]
    fn p_1_what_does_not_rise_is_dropped_and_the_latest_wins() {
        let mut reports = Reports::default();
        assert!(reports.progress(told(0.0)), "zero counts, too");
        assert!(!reports.progress(told(0.0)) && !reports.progress(told(-1.0)));
        assert!(reports.progress(told(1.0)) && reports.progress(told(1.5)));
        assert_eq!(reports.take_progress(true), Some(told(1.5)));
        assert_eq!(reports.take_progress(true), None);
        assert!(!reports.progress(told(1.5)), "what was told is not told again");
    }

    #[test]
    fn g_2_a_second_holds_so_many_log_messages_and_the_next_begins_anew() {
        let mut reports = Reports::default();
        let now = Instant::now();
        for _ in 0..LOGS_A_SECOND {
            assert_eq!(reports.may_log(now), MayLog::Yes);
        }
        assert_eq!(reports.may_log(now), MayLog::NoMore);
        assert_eq!(reports.may_log(now + Duration::from_millis(999)), MayLog::No);
        assert_eq!(reports.may_log(now + Duration::from_secs(1)), MayLog::Yes);
    }
}
