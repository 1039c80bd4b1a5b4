//! A call's client that sits at a terminal: progress as a bar on stderr.

use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal as _;
use std::sync::Arc;
use std::time::Duration;
use toolyard_dispatch::{Line, Notice, Outlet, Place, TaskId};

/// The terminal, or none.
pub struct Terminal(Option<ProgressBar>);

impl Terminal {
    /// The terminal on stderr, if there is one, for a call of this tool.
    pub fn new(tool: &str) -> Arc<Self> {
        if !std::io::stderr().is_terminal() {
            return Arc::new(Self(None));
        }
        let bar = ProgressBar::new_spinner();
        bar.set_message(tool.to_owned());
        bar.enable_steady_tick(Duration::from_millis(120));
        Arc::new(Self(Some(bar)))
    }

    /// Takes the bar away.
    pub fn clear(&self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}

impl Outlet for Terminal {
    fn notify(&self, _task: Option<TaskId>, notice: Notice) {
        let (Some(bar), Notice::Progress { progress, .. }) = (&self.0, notice) else { return };
        if let Some(total) = progress.total.filter(|total| *total > 0.0) {
            // A bar has whole steps; a thousand are enough for any unit.
            bar.set_style(
                ProgressStyle::with_template("{wide_bar} {percent}% {elapsed} {msg}")
                    .unwrap_or_else(|_| ProgressStyle::default_bar()),
            );
            bar.set_length(1000);
            bar.set_position((progress.progress / total * 1000.0).clamp(0.0, 1000.0) as u64);
        }
        if let Some(message) = progress.message {
            bar.set_message(message);
        }
    }

    fn line(&self, _task: Option<TaskId>, _place: Place) -> Option<Arc<dyn Line>> {
        None
    }

    fn release(&self, _retry: Duration) {}
}
