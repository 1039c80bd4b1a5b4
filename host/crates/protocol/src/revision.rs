//! The supported revisions of MCP, and the differences between them.

use std::fmt;

/// A protocol revision that opens with `initialize`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Revision {
    /// 2024-11-05: on stdio only, because its HTTP transport was a different one.
    V2024_11_05,
    /// 2025-03-26: the only one with batches.
    V2025_03_26,
    /// 2025-06-18.
    V2025_06_18,
    /// 2025-11-25: tasks.
    V2025_11_25,
}

/// The way a client reaches us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// Streamable HTTP.
    Http,
    /// Standard input and output.
    Stdio,
}

impl Revision {
    /// The newest.
    pub const LATEST: Self = Self::V2025_11_25;
    /// All, the newest first.
    pub const ALL: [Self; 4] = [Self::V2025_11_25, Self::V2025_06_18, Self::V2025_03_26, Self::V2024_11_05];

    /// The revision of this name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|revision| revision.as_str() == name)
    }

    /// The name on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::V2024_11_05 => "2024-11-05",
            Self::V2025_03_26 => "2025-03-26",
            Self::V2025_06_18 => "2025-06-18",
            Self::V2025_11_25 => "2025-11-25",
        }
    }

    /// Whether it is supported over this transport.
    #[must_use]
    pub const fn spoken_over(self, transport: Transport) -> bool {
        match transport {
            Transport::Stdio => true,
            Transport::Http => !matches!(self, Self::V2024_11_05),
        }
    }

    /// The answer to a client that asks for `requested` (L-2): the same revision if it is supported
    /// here, otherwise the newest revision of this host.
    #[must_use]
    pub fn negotiate(requested: &str, transport: Transport) -> Self {
        Self::parse(requested).filter(|revision| revision.spoken_over(transport)).unwrap_or(Self::LATEST)
    }

    /// The names of the revisions supported over a transport, the newest first.
    pub fn names(transport: Transport) -> impl Iterator<Item = &'static str> {
        Self::ALL.into_iter().filter(move |r| r.spoken_over(transport)).map(Self::as_str)
    }

    /// Whether the revision has tasks (T-2).
    #[must_use]
    pub const fn has_tasks(self) -> bool {
        matches!(self, Self::V2025_11_25)
    }

    /// Whether a JSON array of messages may be sent (J-6).
    #[must_use]
    pub const fn has_batches(self) -> bool {
        matches!(self, Self::V2025_03_26)
    }

    /// Whether clients cope with an event whose data is empty (H-13).
    #[must_use]
    pub const fn has_priming_event(self) -> bool {
        matches!(self, Self::V2025_11_25)
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// L-8: so there is always a revision to offer.
    #[test]
    fn l_2_a_known_revision_is_answered_in_kind_and_any_other_with_our_newest() {
        for (requested, transport, expected) in [
            ("2025-11-25", Transport::Http, Revision::V2025_11_25),
            ("2025-06-18", Transport::Http, Revision::V2025_06_18),
            ("2025-03-26", Transport::Http, Revision::V2025_03_26),
            ("2024-11-05", Transport::Http, Revision::V2025_11_25),
            ("2024-11-05", Transport::Stdio, Revision::V2024_11_05),
            ("2026-07-28", Transport::Http, Revision::V2025_11_25),
            ("", Transport::Stdio, Revision::V2025_11_25),
        ] {
            assert_eq!(Revision::negotiate(requested, transport), expected, "{requested} {transport:?}");
        }
    }
}
