//! Throttles the reports of a guest: progress, status, logs.

use std::time::Duration;
use tokio::time::Instant;
use toolyard_task::tool::ReportBounds;
use toolyard_task::wire::Progress;

/// At most four status messages a second are stored (`host.status`).
const STATUS_EVERY: Duration = Duration::from_millis(250);

/// The reports of a guest, and those that are held back.
pub(crate) struct ReportThrottle {
    bounds: ReportBounds,
    /// `None` until the guest reports something, as most never do: a run is moved while it is set up.
    reports: Option<Box<Reports>>,
}

#[derive(Default)]
struct Reports {
    /// The last progress that was accepted; the next must be greater (P-1).
    reached: Option<f64>,
    /// The total that it named.
    total: Option<f64>,
    progress: Option<Progress>,
    progress_sent: Option<Instant>,
    status: Option<String>,
    status_stored: Option<Instant>,
    logged: u64,
    /// When the second began in which log messages are counted, and how many
    /// there were.
    log_second: Option<(Instant, u32)>,
}

/// Whether a log message is within the bounds (G-2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogDecision {
    /// The message is within the bounds.
    Yes,
    /// The message is the first that exceeds the bounds.
    NoMore,
    /// The message exceeds the bounds, as an earlier one did.
    No,
}

impl ReportThrottle {
    pub const fn new(bounds: ReportBounds) -> Self {
        Self { bounds, reports: None }
    }

    fn reports(&mut self) -> &mut Reports {
        self.reports.get_or_insert_default()
    }

    /// Accepts progress; progress that does not rise is dropped (P-1). Returns whether it was accepted.
    pub fn progress(&mut self, progress: Progress) -> bool {
        let reports = self.reports();
        let rises = reports.reached.is_none_or(|reached| progress.progress > reached);
        if rises {
            reports.reached = Some(progress.progress);
            reports.total = progress.total;
            reports.progress = Some(progress);
        }
        rises
    }

    /// Progress that only shows that the run goes on, if no other was sent for this long. It rises by
    /// so little that the guest's next report is greater.
    pub fn heartbeat(&mut self, silent_for: Duration, now: Instant) -> Option<Progress> {
        const STEP: f64 = 1e-6;
        let reports = self.reports();
        if reports.progress.is_some() || reports.progress_sent.is_some_and(|sent| sent + silent_for > now) {
            return None;
        }
        let reached = reports.reached.unwrap_or(0.0);
        let progress = reached + STEP * reached.abs().max(1.0);
        reports.reached = Some(progress);
        reports.progress_sent = Some(now);
        Some(Progress { progress, total: reports.total, message: None })
    }

    /// Accepts a status message; the last one wins.
    pub fn status(&mut self, message: String) {
        self.reports().status = Some(message);
    }

    /// The progress that may leave now; any that is held, if it is the last chance.
    pub fn take_progress(&mut self, last_chance: bool) -> Option<Progress> {
        let every = self.progress_every();
        let reports = self.reports.as_mut()?;
        let now = Instant::now();
        let due = last_chance || reports.progress_sent.is_none_or(|sent| sent + every <= now);
        let progress = reports.progress.take_if(|_| due)?;
        reports.progress_sent = Some(now);
        Some(progress)
    }

    /// The status message that may be stored now.
    pub fn take_due_status(&mut self) -> Option<String> {
        let reports = self.reports.as_mut()?;
        let now = Instant::now();
        let due = reports.status_stored.is_none_or(|stored| stored + STATUS_EVERY <= now);
        let status = reports.status.take_if(|_| due)?;
        reports.status_stored = Some(now);
        Some(status)
    }

    /// The status message that is held, whatever the time: it is about to be stored
    /// with a new task.
    pub fn take_held_status(&mut self) -> Option<String> {
        let reports = self.reports.as_mut()?;
        let status = reports.status.take()?;
        reports.status_stored = Some(Instant::now());
        Some(status)
    }

    /// The bounds in force.
    pub const fn bounds(&self) -> ReportBounds {
        self.bounds
    }

    fn progress_every(&self) -> Duration {
        Duration::from_secs(1) / self.bounds.progress_per_second.max(1)
    }

    /// Counts this many bytes for the host's own log. Returns whether they may be written there.
    pub fn count_log(&mut self, bytes: usize) -> LogDecision {
        let most = self.bounds.log_bytes;
        let reports = self.reports();
        let fitted = reports.logged <= most;
        reports.logged = reports.logged.saturating_add(bytes as u64);
        match (fitted, reports.logged <= most) {
            (true, true) => LogDecision::Yes,
            (true, false) => LogDecision::NoMore,
            (false, _) => LogDecision::No,
        }
    }

    /// Whether a log message may go to the client.
    pub fn admit_log(&mut self, now: Instant) -> LogDecision {
        let reports = self.reports();
        let (began, count) = match reports.log_second {
            Some((began, count)) if now.duration_since(began) < Duration::from_secs(1) => (began, count + 1),
            _ => (now, 1),
        };
        reports.log_second = Some((began, count));
        match count {
            count if count <= self.bounds.logs_per_second => LogDecision::Yes,
            count if count == self.bounds.logs_per_second.saturating_add(1) => LogDecision::NoMore,
            _ => LogDecision::No,
        }
    }

    /// When the next held report may leave. A status message stays held if there is no task to store it
    /// with.
    pub fn due(&self, is_task: bool) -> Option<Instant> {
        let next = |last: Option<Instant>, every| last.map_or_else(Instant::now, |last| last + every);
        let reports = self.reports.as_ref()?;
        let progress = reports.progress.as_ref().map(|_| next(reports.progress_sent, self.progress_every()));
        let status =
            reports.status.as_ref().filter(|_| is_task).map(|_| next(reports.status_stored, STATUS_EVERY));
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
        let mut reports = ReportThrottle::new(ReportBounds::default());
        assert!(reports.progress(told(0.0)), "zero counts, too");
        assert!(!reports.progress(told(0.0)) && !reports.progress(told(-1.0)));
        assert!(reports.progress(told(1.0)) && reports.progress(told(1.5)));
        assert_eq!(reports.take_progress(true), Some(told(1.5)));
        assert_eq!(reports.take_progress(true), None);
        assert!(!reports.progress(told(1.5)), "progress is sent once");
    }

    #[test]
    fn p_1_a_heartbeat_rises_and_comes_only_in_silence() {
        let (mut reports, silence) = (ReportThrottle::new(ReportBounds::default()), Duration::from_secs(10));
        let now = Instant::now();
        let beat = |reports: &mut ReportThrottle, after| reports.heartbeat(silence, now + silence * after);
        let first = beat(&mut reports, 0).expect("nothing was sent yet");
        assert!(first.progress > 0.0);
        assert_eq!(beat(&mut reports, 0), None, "not twice in one interval");
        let second = beat(&mut reports, 1).expect("silence");
        assert!(second.progress > first.progress);
        assert!(reports.progress(Progress { progress: 3.0, total: Some(10.0), message: None }));
        assert_eq!(beat(&mut reports, 2), None, "the guest's own progress comes first");
        assert!(reports.take_progress(true).is_some());
        let third = beat(&mut reports, 3).expect("silence");
        assert!(third.progress > 3.0 && third.progress < 3.1 && third.total == Some(10.0));
        assert!(reports.progress(told(4.0)), "the guest goes on");
    }

    #[test]
    fn g_2_a_second_holds_so_many_log_messages_and_the_next_begins_anew() {
        let mut reports = ReportThrottle::new(ReportBounds::default());
        let now = Instant::now();
        for _ in 0..ReportBounds::default().logs_per_second {
            assert_eq!(reports.admit_log(now), LogDecision::Yes);
        }
        assert_eq!(reports.admit_log(now), LogDecision::NoMore);
        assert_eq!(reports.admit_log(now + Duration::from_millis(999)), LogDecision::No);
        assert_eq!(reports.admit_log(now + Duration::from_secs(1)), LogDecision::Yes);
    }
}
