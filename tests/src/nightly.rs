//! The nightly run (`make nightly`), which takes more of the same than each landing.

/// Whether this is part of the nightly run.
#[must_use]
pub fn is_on() -> bool {
    std::env::var_os("NIGHTLY").is_some()
}
