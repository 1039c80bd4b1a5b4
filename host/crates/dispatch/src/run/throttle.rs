//! What a guest reports and how fast it may leave: progress, status, logs.

use std::time::Duration;
use tokio::time::Instant;
use toolyard_task::tool::ReportBounds;
use toolyard_task::wire::Progress;

/// At most four status messages a second are stored (`host.status`).
const STATUS_EVERY: Duration = Duration::from_millis(250);

/// What the guest reported and what is still held back.
pub(crate) struct Reports {
    bounds: ReportBounds,
    /// The last progress that was accepted; the next must be greater (P-1).
    reached: Option<f64>,
    progress: Option<Progress>,
    progress_sent: Option<Instant>,
    status: Option<String>,
    status_stored: Option<Instant>,
    logged: u64,
    /// When the second began in which log messages are counted, and how many
    /// there were.
    log_second: Option<(Instant, u32)>,
}

/// Whether a log message still fits what may be logged (G-2).
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
    pub const fn new(bounds: ReportBounds) -> Self {
        Self {
            bounds,
            reached: None,
            progress: None,
            progress_sent: None,
            status: None,
            status_stored: None,
            logged: 0,
            log_second: None,
        }
    }

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
        let due = last_chance || self.progress_sent.is_none_or(|sent| sent + self.progress_every() <= now);
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

    /// The status message that is held, whatever the time: it is about to be stored
    /// with a new task.
    pub fn take_said(&mut self) -> Option<String> {
        let status = self.status.take();
        if status.is_some() {
            self.status_stored = Some(Instant::now());
        }
        status
    }

    /// The bounds that are kept.
    pub const fn bounds(&self) -> ReportBounds {
        self.bounds
    }

    fn progress_every(&self) -> Duration {
        Duration::from_secs(1) / self.bounds.progress_per_second.max(1)
    }

    /// Counts so many bytes for our own log, and says whether they may be written
    /// there.
    pub fn count_log(&mut self, bytes: usize) -> MayLog {
        let most = self.bounds.log_bytes;
        let fitted = self.logged <= most;
        self.logged = self.logged.saturating_add(bytes as u64);
        match (fitted, self.logged <= most) {
            (true, true) => MayLog::Yes,
            (true, false) => MayLog::NoMore,
            (false, _) => MayLog::No,
        }
    }

    /// Whether a log message may go to the client.
    pub fn may_log(&mut self, now: Instant) -> MayLog {
        let (began, count) = match self.log_second {
            Some((began, count)) if now.duration_since(began) < Duration::from_secs(1) => (began, count + 1),
            _ => (now, 1),
        };
        self.log_second = Some((began, count));
        match count {
            count if count <= self.bounds.logs_per_second => MayLog::Yes,
            count if count == self.bounds.logs_per_second.saturating_add(1) => MayLog::NoMore,
            _ => MayLog::No,
        }
    }

    /// When the next of what is held back may leave. A status message stays held where
    /// there is no task to store it with.
    pub fn due(&self, is_task: bool) -> Option<Instant> {
        let next = |last: Option<Instant>, every| last.map_or_else(Instant::now, |last| last + every);
        let progress = self.progress.as_ref().map(|_| next(self.progress_sent, self.progress_every()));
        let status = self.status.as_ref().filter(|_| is_task).map(|_| next(self.status_stored, STATUS_EVERY));
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
        let mut reports = Reports::new(ReportBounds::default());
        assert!(reports.progress(told(0.0)), "zero counts, too");
        assert!(!reports.progress(told(0.0)) && !reports.progress(told(-1.0)));
        assert!(reports.progress(told(1.0)) && reports.progress(told(1.5)));
        assert_eq!(reports.take_progress(true), Some(told(1.5)));
        assert_eq!(reports.take_progress(true), None);
        assert!(!reports.progress(told(1.5)), "what was told is not told again");
    }

    #[test]
    fn g_2_a_second_holds_so_many_log_messages_and_the_next_begins_anew() {
        let mut reports = Reports::new(ReportBounds::default());
        let now = Instant::now();
        for _ in 0..ReportBounds::default().logs_per_second {
            assert_eq!(reports.may_log(now), MayLog::Yes);
        }
        assert_eq!(reports.may_log(now), MayLog::NoMore);
        assert_eq!(reports.may_log(now + Duration::from_millis(999)), MayLog::No);
        assert_eq!(reports.may_log(now + Duration::from_secs(1)), MayLog::Yes);
    }
}
