//! Quantiles and medians.

use hdrhistogram::Histogram;
use std::time::Duration;

/// Durations from a nanosecond to a minute, with three significant digits.
#[derive(Debug, Clone)]
pub struct Latencies(Histogram<u64>);

impl Latencies {
    /// No durations.
    #[must_use]
    pub fn new() -> Self {
        const MINUTE: u64 = 60_000_000_000;
        Self(Histogram::new_with_bounds(1, MINUTE, 3).expect("these bounds are valid"))
    }

    /// Adds a duration; a longer one counts as a minute.
    pub fn record(&mut self, took: Duration) {
        self.0.saturating_record(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Adds the durations of another set.
    pub fn add(&mut self, other: &Self) {
        self.0.add(&other.0).expect("all have the same bounds");
    }

    /// The number of durations.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// A quantile in milliseconds.
    pub fn ms(&self, quantile: f64) -> f64 {
        self.0.value_at_quantile(quantile) as f64 / 1e6
    }
}

/// The median; with an even count, the mean of the middle two.
pub fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        count if count % 2 == 1 => values[count / 2],
        count => f64::midpoint(values[count / 2 - 1], values[count / 2]),
    }
}

/// A number with as many digits as a reader needs.
pub fn shown(value: f64) -> String {
    match value.abs() {
        large if large >= 1_000.0 => grouped(value),
        middle if middle >= 100.0 => format!("{value:.0}"),
        small if small >= 10.0 => format!("{value:.1}"),
        tiny if tiny >= 0.1 || tiny == 0.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

fn grouped(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}
