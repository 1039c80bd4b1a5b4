//! `[wasi]`: the clocks and the random numbers of guests.

use serde::Deserialize;

/// The resolution of a guest's clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ClockGrant {
    /// The clocks stand still, at the beginning of 1970.
    #[default]
    Frozen,
    /// The clocks advance in steps of 100 µs.
    Coarse,
    /// The machine's own resolution.
    Exact,
}

/// The source of a guest's random numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RandomGrant {
    /// The same numbers in every run.
    #[default]
    Fixed,
    /// The machine's secure source.
    Secure,
}

/// The section as in the text.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub(crate) struct WasiSection {
    pub clock: Option<ClockGrant>,
    pub random: Option<RandomGrant>,
}
