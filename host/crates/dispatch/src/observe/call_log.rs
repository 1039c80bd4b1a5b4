//! The log lines of calls and sessions. `log.rate` bounds them: a client that makes many calls neither fills the disk
//! nor makes calls dearer.

use crate::observe::call_end::CallEnd;
use crate::observe::event::{EventSink, RunEvent, RunFacts};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Writes the lines, and counts those of the current second.
pub(crate) struct CallLog {
    /// The most lines in a second.
    rate: u32,
    start: Instant,
    /// The second since the start, in the upper half, and the lines of it, admitted or not, in the lower.
    window: AtomicU64,
}

impl Default for CallLog {
    fn default() -> Self {
        Self::new(0)
    }
}

impl CallLog {
    pub fn new(rate: u32) -> Self {
        Self { rate, start: Instant::now(), window: AtomicU64::new(0) }
    }

    /// Whether a line may be logged now. Logs how many were left out before.
    pub fn admits(&self) -> bool {
        if self.rate == 0 || !tracing::enabled!(tracing::Level::INFO) {
            return false;
        }
        let (admitted, left_out) = self.count(self.start.elapsed().as_secs());
        if left_out > 0 {
            tracing::info!(
                event = "call.not_logged",
                count = left_out,
                setting = "log.rate",
                "more calls than are logged"
            );
        }
        admitted
    }

    /// Whether the line is one of the first `rate` in this second, and how many exceeded that in the last second that
    /// had a line.
    fn count(&self, second: u64) -> (bool, u64) {
        let rate = u64::from(self.rate);
        let split = |window: u64| (window >> 32, window & u64::from(u32::MAX));
        let next = |window: u64| {
            let (current, lines) = split(window);
            // A thread that read the time before another one began the second counts for that second.
            let lines = if second > current { 1 } else { (lines + 1).min(u64::from(u32::MAX)) };
            (second.max(current) << 32) | lines
        };
        // Relaxed: the counter orders nothing else.
        let before =
            self.window.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |window| Some(next(window)));
        // The update never fails.
        let (Ok(before) | Err(before)) = before;
        let ((was, lines), (now, admitted)) = (split(before), split(next(before)));
        let left_out = if now > was { lines.saturating_sub(rate) } else { 0 };
        (admitted <= rate, left_out)
    }
}

impl EventSink for CallLog {
    fn receive(&self, run: &RunFacts<'_>, event: RunEvent<'_>) {
        let RunEvent::Ended { called, cause, .. } = event else { return };
        if !self.admits() {
            return;
        }
        let code = match called {
            CallEnd::Error(code) => Some(code),
            _ => None,
        };
        tracing::info!(
            event = "call.ended",
            tool = run.tool,
            principal = run.principal.map(tracing::field::display),
            outcome = called.name(),
            code,
            cause,
            ms = run.usage.map(|used| milliseconds(used.wall)),
            cpu_ms = run.usage.map(|used| milliseconds(used.cpu)),
            task = run.task.map(|(task, _)| tracing::field::display(task)),
            "call ended"
        );
    }
}

/// With microseconds, for people who compare calls.
fn milliseconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e3
}

impl CallEnd {
    /// The name of the outcome, as the metric `toolyard_calls` has it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::ToolError => "tool_error",
            Self::Error(_) => "error",
            Self::InputRequired => "input_required",
            Self::Stopped => "stopped",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_above_the_rate_are_counted_and_told_with_the_next_second() {
        let log = CallLog::new(2);
        let told: Vec<_> = [0, 0, 0, 0, 1, 1, 0, 1, 5].map(|second| log.count(second)).into();
        let (yes, no) = ((true, 0), (false, 0));
        // The third of second 1 is one that began in second 0.
        assert_eq!(told, [yes, yes, no, no, (true, 2), yes, no, no, (true, 2)]);
    }
}
