//! Moments, as the protocol writes them.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Milliseconds since 1970-01-01T00:00:00Z. Displayed in RFC 3339, in UTC
/// (T-12).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// The milliseconds around a moment in RFC 3339: the last one not after it and the first one not
    /// before it, which are the same unless it lies between two. `None` if the text does not have this
    /// form.
    #[must_use]
    pub fn around(text: &str) -> Option<(Self, Self)> {
        // The library accepts more than that: a space, a date by itself, a zone.
        let (date, rest) = text.split_at_checked(10)?;
        let time = rest.strip_prefix(['T', 't'])?;
        let clock = time.get(..8)?.bytes().enumerate().all(|(place, byte)| match place {
            2 | 5 => byte == b':',
            _ => byte.is_ascii_digit(),
        });
        let (fraction, offset) = time.get(8..)?.split_at(time.get(8..)?.find(['Z', 'z', '+', '-'])?);
        let fraction = fraction.is_empty()
            || fraction
                .strip_prefix('.')
                .is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()));
        let offset = matches!(offset, "Z" | "z") || (offset.len() == 6 && offset.as_bytes()[3] == b':');
        if !date.starts_with(|first: char| first.is_ascii_digit()) || !clock || !fraction || !offset {
            return None;
        }
        let nanoseconds = text.parse::<jiff::Timestamp>().ok()?.as_nanosecond();
        let before = i64::try_from(nanoseconds.div_euclid(1_000_000)).ok()?;
        let between = nanoseconds.rem_euclid(1_000_000) != 0;
        Some((Self(before), Self(before + i64::from(between))))
    }

    /// The moment `ms` milliseconds later; it stops at the end of time.
    #[must_use]
    pub const fn plus(self, ms: u64) -> Self {
        let ms = if ms > i64::MAX as u64 { i64::MAX } else { ms as i64 };
        Self(self.0.saturating_add(ms))
    }

    /// Milliseconds from `earlier` to this moment; 0 if it is not earlier.
    #[must_use]
    pub const fn since(self, earlier: Self) -> u64 {
        let ms = self.0.saturating_sub(earlier.0);
        if ms < 0 { 0 } else { ms as u64 }
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_millisecond(self.0) {
            Ok(moment) => write!(f, "{moment:.3}"),
            // Beyond the year 9999, which only a broken clock can give.
            Err(_) => f.write_str("9999-12-31T23:59:59.999Z"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Timestamp;

    #[test]
    fn shown_as_rfc_3339_in_utc() {
        assert_eq!(Timestamp(0).to_string(), "1970-01-01T00:00:00.000Z");
        assert_eq!(Timestamp(1_764_066_600_120).to_string(), "2025-11-25T10:30:00.120Z");
        assert_eq!(Timestamp(i64::MAX).to_string(), "9999-12-31T23:59:59.999Z");
    }

    #[test]
    fn f_5_a_moment_is_read_with_its_offset_or_not_at_all() {
        let at = |ms: i64| Some((Timestamp(ms), Timestamp(ms)));
        assert_eq!(Timestamp::around("1970-01-01T00:00:00Z"), at(0));
        assert_eq!(Timestamp::around("2025-11-25T10:30:00.120Z"), at(1_764_066_600_120));
        assert_eq!(Timestamp::around("2025-11-25t12:00:00.12+01:30"), at(1_764_066_600_120));
        assert_eq!(Timestamp::around("1969-12-31T23:59:59.999-00:00"), at(-1));
        assert_eq!(Timestamp::around("1969-12-31T23:59:59.9985Z"), Some((Timestamp(-2), Timestamp(-1))));
        assert_eq!(Timestamp::around("1970-01-01T00:00:00.000000001Z"), Some((Timestamp(0), Timestamp(1))));
        let malformed = "|2025-11-25|2025-11-25T10:30:00|2025-11-25T10:30Z|20251125T103000Z|2025-11-25T10:30:00,5Z\
                         |2025-11-25T10:30:00.Z|2025-11-25T10:30:00+01|2025-11-25T10:30:00+0100\
                         |2025-11-25T10:30:00Z[UTC]|2025-11-25T10:30:00+01:00[Europe/Berlin]|2025-11-31T10:30:00Z\
                         |2025-11-25T25:30:00Z|+002025-11-25T10:30:00Z|1764066600000|2025-11-25 10:30:00Z\
                         | 2025-11-25T10:30:00Z|2025-11-25T10:30:00Z |2025-11-2\u{e9}T10:30:00Z";
        for text in malformed.split('|') {
            assert_eq!(Timestamp::around(text), None, "{text}");
        }
    }

    proptest::proptest! {
        /// F-5: no text causes a panic, and every accepted text is a moment that this type can
        /// hold.
        #[test]
        fn f_5_any_text_is_a_moment_or_none(
            text in "([0-9]{4}-[01][0-9]-[0-3][0-9][Tt][0-2][0-9]:[0-5][0-9]:[0-6][0-9](\\.[0-9]{1,9})?([Zz]|[+-][0-2][0-9]:[0-5][0-9]))|.{0,30}"
        ) {
            if let Some((before, after)) = Timestamp::around(&text) {
                let shown = before.to_string();
                proptest::prop_assert_eq!(Timestamp::around(&shown), Some((before, before)));
                proptest::prop_assert!(after == before || after == before.plus(1));
            }
        }
    }

    #[test]
    fn differences_never_go_below_zero_and_sums_never_wrap() {
        assert_eq!(Timestamp(5).since(Timestamp(9)), 0);
        assert_eq!(Timestamp(9).since(Timestamp(5)), 4);
        assert_eq!(Timestamp(5).plus(u64::MAX), Timestamp(i64::MAX));
    }
}
