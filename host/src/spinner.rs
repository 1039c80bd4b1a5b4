//! A spinner on the terminal of a command that works for long.

use indicatif::{ProgressBar, ProgressStyle};
use std::time::Duration;
use toolyard_dispatch::visible;

/// How often a spinner turns.
const TURN: Duration = Duration::from_millis(120);

/// A spinner, which vanishes when it is dropped. Hidden where stderr is no terminal.
pub struct Spinner(pub ProgressBar);

impl Spinner {
    /// A spinner with a message.
    pub fn new(message: &str) -> Self {
        Self::with_position(message, "")
    }

    /// A spinner that also shows a position; `shown` is its part of the template, such as `: {bytes}`.
    pub fn with_position(message: &str, shown: &str) -> Self {
        let style = ProgressStyle::with_template(&format!("{{spinner}} {{msg}}{shown}"));
        let style = style.unwrap_or_else(|_| ProgressStyle::default_spinner());
        let bar = ProgressBar::new_spinner().with_style(style);
        bar.set_message(visible::line(message).into_owned());
        bar.enable_steady_tick(TURN);
        Self(bar)
    }
}

impl Drop for Spinner {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
