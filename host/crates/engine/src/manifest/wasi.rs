//! `[wasi]`: what the clocks and the randomness of WASI are.

use super::Manifest;
use super::read::Section;
use crate::clocks::{ClockGrant, RandomGrant};
use crate::error::ManifestError;

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
