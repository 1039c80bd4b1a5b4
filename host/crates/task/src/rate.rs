//! How often something may happen, as operators write it: `600/min`.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

/// A number of operations in a span of time. After a pause, the same number may come at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// How many.
    pub count: NonZeroU32,
    /// In how much time.
    pub per: Per,
}

/// A unit of time in which rates are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Per {
    /// A second.
    Second,
    /// A minute.
    Minute,
    /// An hour.
    Hour,
}

impl Per {
    const ALL: [Self; 3] = [Self::Second, Self::Minute, Self::Hour];

    const fn unit(self) -> &'static str {
        match self {
            Self::Second => "s",
            Self::Minute => "min",
            Self::Hour => "h",
        }
    }
}

/// The text is not a rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected a rate such as 10/s, 600/min or 1000/h")]
pub struct NotARate;

impl FromStr for Rate {
    type Err = NotARate;

    fn from_str(text: &str) -> Result<Self, NotARate> {
        let (count, per) = text.trim().split_once('/').ok_or(NotARate)?;
        let count = count.trim_end().parse().map_err(|_| NotARate)?;
        let per = Per::ALL.into_iter().find(|known| known.unit() == per.trim_start());
        Ok(Self { count, per: per.ok_or(NotARate)? })
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.count, self.per.unit())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t_42_a_rate_is_a_number_and_a_unit() {
        for (text, shown) in [("10/s", "10/s"), (" 6 / min ", "6/min"), ("4294967295/h", "4294967295/h")] {
            assert_eq!(text.parse::<Rate>().expect(text).to_string(), shown);
        }
        for text in ["", "10", "/s", "0/s", "-1/s", "1.5/s", "10/m", "10/sec", "10/s/s", "4294967296/h"] {
            assert_eq!(text.parse::<Rate>(), Err(NotARate), "{text}");
        }
    }
}
