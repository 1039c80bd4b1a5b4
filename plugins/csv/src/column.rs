//! Collects the statistics of one column.

use std::cmp::Reverse;
use std::collections::HashMap;

use crate::numbers::{Figures, figures};
use crate::value::{self, DateKey, Value};

/// The number of different values that a column counts exactly. Beyond it, the count is a lower bound; this
/// limits the memory that a column of all-different values takes.
pub const MOST_DISTINCT: usize = 10_000;

/// Longer values are shortened, in characters.
const LONGEST_SHOWN: usize = 100;

/// A column while it is being read.
#[derive(Default)]
pub struct Column {
    missing: u64,
    integers: u64,
    fractions: u64,
    booleans: u64,
    dates: u64,
    texts: u64,
    numbers: Vec<f64>,
    earliest: Option<(DateKey, String)>,
    latest: Option<(DateKey, String)>,
    lengths: Option<(usize, usize)>,
    counts: HashMap<String, u64>,
    overflowed: bool,
}

/// The statistics of a complete column.
#[derive(Debug, PartialEq)]
pub struct Summary {
    pub kind: Kind,
    pub missing: u64,
    pub distinct: usize,
    pub distinct_is_lower_bound: bool,
    /// The most frequent values, the most frequent first.
    pub top: Vec<(String, u64)>,
}

/// The type of the values, with the statistics for that type.
#[derive(Debug, PartialEq)]
pub enum Kind {
    Integer(Figures),
    Number(Figures),
    Boolean,
    Date { earliest: String, latest: String },
    Text { shortest: usize, longest: usize },
    Empty,
}

impl Kind {
    /// The name of the type in results.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Integer(_) => "integer",
            Self::Number(_) => "number",
            Self::Boolean => "boolean",
            Self::Date { .. } => "date",
            Self::Text { .. } => "text",
            Self::Empty => "empty",
        }
    }
}

impl Column {
    /// Adds one field.
    pub fn add(&mut self, field: &str) {
        let field = field.trim();
        match value::read(field) {
            Value::Missing => {
                self.missing += 1;
                return;
            }
            Value::Integer(number) => {
                self.integers += 1;
                self.numbers.push(number);
            }
            Value::Number(number) => {
                self.fractions += 1;
                self.numbers.push(number);
            }
            Value::Boolean => self.booleans += 1,
            Value::Date(key) => {
                self.dates += 1;
                if self.earliest.as_ref().is_none_or(|(earliest, _)| key < *earliest) {
                    self.earliest = Some((key, field.to_owned()));
                }
                if self.latest.as_ref().is_none_or(|(latest, _)| key > *latest) {
                    self.latest = Some((key, field.to_owned()));
                }
            }
            Value::Text(_) => self.texts += 1,
        }
        let length = field.chars().count();
        let (shortest, longest) = self.lengths.unwrap_or((length, length));
        self.lengths = Some((shortest.min(length), longest.max(length)));
        self.tally(field);
    }

    /// Adds a field that is absent from a short row.
    pub fn add_missing(&mut self) {
        self.missing += 1;
    }

    /// The statistics of the column, with the `top` most frequent values.
    pub fn finish(self, top: usize) -> Summary {
        let distinct = self.counts.len();
        let (missing, distinct_is_lower_bound) = (self.missing, self.overflowed);
        let mut counted: Vec<(String, u64)> =
            self.counts.iter().map(|(value, n)| (value.clone(), *n)).collect();
        // Equal counts are ordered by value, so that equal texts give equal results.
        counted.sort_unstable_by(|(left, a), (right, b)| (Reverse(a), left).cmp(&(Reverse(b), right)));
        counted.truncate(top);
        let top = counted.into_iter().map(|(value, count)| (cut(value), count)).collect();
        Summary { kind: self.into_kind(), missing, distinct, distinct_is_lower_bound, top }
    }

    fn tally(&mut self, field: &str) {
        if let Some(count) = self.counts.get_mut(field) {
            *count += 1;
        } else if self.counts.len() < MOST_DISTINCT {
            self.counts.insert(field.to_owned(), 1);
        } else {
            self.overflowed = true;
        }
    }

    /// A type holds for a column only if it holds for all present values.
    fn into_kind(self) -> Kind {
        let present = self.integers + self.fractions + self.booleans + self.dates + self.texts;
        let Some((shortest, longest)) = self.lengths else { return Kind::Empty };
        let text = Kind::Text { shortest, longest };
        if self.integers == present {
            figures(self.numbers).map_or(text, Kind::Integer)
        } else if self.integers + self.fractions == present {
            figures(self.numbers).map_or(text, Kind::Number)
        } else if self.booleans == present {
            Kind::Boolean
        } else if self.dates == present
            && let (Some((_, earliest)), Some((_, latest))) = (self.earliest, self.latest)
        {
            Kind::Date { earliest, latest }
        } else {
            text
        }
    }
}

fn cut(mut value: String) -> String {
    if let Some((end, _)) = value.char_indices().nth(LONGEST_SHOWN) {
        value.truncate(end);
        value.push('…');
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(fields: &[&str]) -> Summary {
        let mut column = Column::default();
        for field in fields {
            column.add(field);
        }
        column.finish(3)
    }

    #[test]
    fn integers_stay_integers() {
        let summary = column(&["1", "2", "", "2"]);
        assert_eq!((summary.missing, summary.distinct), (1, 2));
        assert_eq!(summary.top, [("2".to_owned(), 2), ("1".to_owned(), 1)]);
        let Kind::Integer(figures) = summary.kind else { panic!("integers") };
        assert_eq!((figures.min, figures.max), (1.0, 2.0));
    }

    #[test]
    fn the_type_is_the_narrowest_that_every_field_fits() {
        let text = |shortest, longest| Kind::Text { shortest, longest };
        let (earliest, latest) = ("15.12.2024".to_owned(), "01.02.2025".to_owned());
        for (fields, kind) in [
            (&["1", "2.5", "abc"][..], text(1, 3)),
            (&["true", "1"], text(1, 4)),
            (&["ä", "äöü"], text(1, 3)),
            (&["yes", "NO", "NA"], Kind::Boolean),
            (&["", "null"], Kind::Empty),
            (&[], Kind::Empty),
            // Ordered by time, not by text.
            (&["31.01.2025", "01.02.2025", "15.12.2024"], Kind::Date { earliest, latest }),
        ] {
            assert_eq!(column(fields).kind, kind, "{fields:?}");
        }
        assert!(matches!(column(&["1", "2.5"]).kind, Kind::Number(_)));
    }

    #[test]
    fn top_values_are_in_a_fixed_order_and_cut() {
        let long = "x".repeat(150);
        let summary = column(&["b", "a", "c", "b", "a", "d", &long, &long, &long]);
        let top: Vec<_> = summary.top.iter().map(|(value, count)| (value.chars().count(), *count)).collect();
        assert_eq!(top, [(LONGEST_SHOWN + 1, 3), (1, 2), (1, 2)]);
        assert_eq!(summary.top[1].0, "a");
    }

    #[test]
    fn distinct_values_are_bounded() {
        for (values, lower_bound) in [(MOST_DISTINCT, false), (MOST_DISTINCT + 1, true)] {
            let mut column = Column::default();
            for value in 0..values {
                column.add(&format!("v{value}"));
            }
            let summary = column.finish(0);
            assert_eq!((summary.distinct, summary.distinct_is_lower_bound), (MOST_DISTINCT, lower_bound));
            assert!(summary.top.is_empty());
        }
    }
}
