//! `[wasi]`: what the clocks and the randomness of WASI are.

use super::Manifest;
use super::read::Section;
use crate::error::ManifestError;

/// How exact the clocks of a guest are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ClockGrant {
    /// They stand still, at the beginning of 1970.
    #[default]
    Frozen,
    /// They move in steps of 100 µs.
    Coarse,
    /// As exact as the machine's.
    Exact,
}

/// Where a guest's random numbers come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RandomGrant {
    /// The same in every run.
    #[default]
    Fixed,
    /// From the machine.
    Secure,
}

impl Manifest {
    /// Reads the section.
    pub(super) fn read_wasi(&mut self, section: &Section<'_>) -> Result<(), ManifestError> {
        const KEYS: &[&str] = &["clock", "random"];
        for entry in section.entries() {
            match entry.key() {
                "clock" => {
                    self.clock = match entry.text()? {
                        "exact" => ClockGrant::Exact,
                        "coarse" => ClockGrant::Coarse,
                        "frozen" => ClockGrant::Frozen,
                        _ => return Err(entry.expected("\"exact\", \"coarse\" or \"frozen\"")),
                    };
                }
                "random" => {
                    self.random = match entry.text()? {
                        "secure" => RandomGrant::Secure,
                        "fixed" => RandomGrant::Fixed,
                        _ => return Err(entry.expected("\"secure\" or \"fixed\"")),
                    };
                }
                _ => return Err(entry.unknown(KEYS)),
            }
        }
        Ok(())
    }
}
