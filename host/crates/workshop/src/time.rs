//! Durations for people.

use std::time::Duration;

/// A duration for people: `12 ms`, `1.5 s`.
pub fn shown_time(took: Duration) -> String {
    match took.as_millis() {
        ms @ ..1_000 => format!("{ms} ms"),
        _ => format!("{:.1} s", took.as_secs_f64()),
    }
}
