//! Numbers with units, for people.

use std::fmt;

const SECOND: u64 = 1_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// A number of milliseconds.
pub(super) struct Span(pub(super) u64);

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = self.0;
        match ms {
            0..SECOND => write!(f, "{ms} ms"),
            SECOND..MINUTE => write!(f, "{}.{} s", ms / SECOND, ms % SECOND / 100),
            MINUTE..HOUR => write!(f, "{} min {} s", ms / MINUTE, ms % MINUTE / SECOND),
            HOUR..DAY => write!(f, "{} h {} min", ms / HOUR, ms % HOUR / MINUTE),
            DAY.. => write!(f, "{} d {} h", ms / DAY, ms % DAY / HOUR),
        }
    }
}

/// A number of bytes.
pub(super) struct ByteCount(pub(super) u64);

impl fmt::Display for ByteCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const KIB: u64 = 1 << 10;
        const MIB: u64 = 1 << 20;
        // One digit after the point; a count of bytes leaves room for the factor.
        let tenths = |unit: u64| (self.0 / unit, self.0 % unit * 10 / unit);
        let ((whole, tenth), unit) = match self.0 {
            0..KIB => return write!(f, "{} B", self.0),
            KIB..MIB => (tenths(KIB), "KiB"),
            MIB.. => (tenths(MIB), "MiB"),
        };
        write!(f, "{whole}.{tenth} {unit}")
    }
}

/// A number of things.
pub(super) fn counted(count: u64, thing: &str) -> String {
    match (count, thing.strip_suffix('y')) {
        (1, _) => format!("1 {thing}"),
        (_, Some(stem)) => format!("{count} {stem}ies"),
        (_, None) => format!("{count} {thing}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_unit_that_people_read_best() {
        let spans = [0, 999, 3_100, 61_000, 3_600_000, 86_400_000 * 2 + 3 * 3_600_000];
        let shown = ["0 ms", "999 ms", "3.1 s", "1 min 1 s", "1 h 0 min", "2 d 3 h"];
        assert_eq!(spans.map(|ms| Span(ms).to_string()), shown);
        let counts = [0, 1_023, 1_024, 1_234, 5 << 20, u64::MAX];
        let shown = ["0 B", "1023 B", "1.0 KiB", "1.2 KiB", "5.0 MiB", "17592186044415.9 MiB"];
        assert_eq!(counts.map(|bytes| ByteCount(bytes).to_string()), shown);
        assert_eq!(counted(1, "entry"), "1 entry");
        assert_eq!(counted(0, "entry"), "0 entries");
        assert_eq!(counted(2, "request"), "2 requests");
    }
}
