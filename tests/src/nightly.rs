//! The nightly run (`make nightly`), which takes more of the same than each landing.

/// The seed of the nightly run, if this is part of one.
pub fn seed() -> Option<u64> {
    asked("NIGHTLY")
}

/// The number in this variable of the environment, by which a person asks for longer runs.
pub fn asked(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// Whether this is part of the nightly run.
pub fn is_on() -> bool {
    seed().is_some()
}
