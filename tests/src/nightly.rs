//! The nightly run (`make nightly`), which takes more of the same than each landing.

/// The seed of the nightly run, if this is part of one.
pub fn seed() -> Option<u64> {
    std::env::var("NIGHTLY").ok()?.parse().ok()
}

/// Whether this is part of the nightly run.
pub fn is_on() -> bool {
    seed().is_some()
}
