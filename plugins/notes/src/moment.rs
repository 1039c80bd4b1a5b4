//! Times in the format of RFC 3339.

use std::time::{SystemTime, UNIX_EPOCH};

const DAY: u64 = 86_400;

/// The time as `2026-11-21T12:00:00Z`; `None` before 1970 or after the year 9999.
pub fn written(moment: SystemTime) -> Option<String> {
    let seconds = moment.duration_since(UNIX_EPOCH).ok()?.as_secs();
    let (year, month, day) = date(seconds / DAY)?;
    let (hour, minute, second) = (seconds % DAY / 3_600, seconds % 3_600 / 60, seconds % 60);
    Some(format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z"))
}

/// The date that is `days` days after 1 January 1970.
fn date(mut days: u64) -> Option<(u64, u64, u64)> {
    let mut year = 1970;
    loop {
        let length = if is_leap(year) { 366 } else { 365 };
        if days < length {
            break;
        }
        days -= length;
        year += 1;
        if year > 9_999 {
            return None;
        }
    }
    let february = if is_leap(year) { 29 } else { 28 };
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    Some((year, month, days + 1))
}

fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && !year.is_multiple_of(100) || year.is_multiple_of(400)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (seconds, expected) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (951_868_800, "2000-03-01T00:00:00Z"),
            (1_735_689_599, "2024-12-31T23:59:59Z"),
            (1_795_262_400, "2026-11-21T12:00:00Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(written(UNIX_EPOCH + Duration::from_secs(seconds)).as_deref(), Some(expected));
        }
        assert_eq!(written(UNIX_EPOCH + Duration::from_secs(300_000_000_000)), None);
        assert_eq!(written(UNIX_EPOCH - Duration::from_secs(1)), None);
    }
}
