//! The clocks and the randomness that a guest sees.

use rand::SeedableRng as _;
use rand::rngs::SmallRng;
use std::time::{Duration, Instant};
use wasmtime_wasi::WasiCtxBuilder;
use wasmtime_wasi::clocks::{HostMonotonicClock, HostWallClock};

/// The step of coarse clocks: enough to measure work, too much to measure caches.
const STEP: Duration = Duration::from_micros(100);
/// What a monotonic clock begins at, frozen or not. Where it begins means nothing, but
/// runtimes take zero for a clock that is broken: Go's does not start.
const BEGINNING: Duration = Duration::from_secs(1);
/// Where fixed randomness begins: any number, the same for ever.
const SEED: u64 = 0x746f_6f6c_7961_7264;

/// How exact the clocks of a guest are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum ClockGrant {
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
pub(crate) enum RandomGrant {
    /// The same in every run.
    #[default]
    Fixed,
    /// From the machine.
    Secure,
}

impl ClockGrant {
    fn round(self, time: Duration) -> Duration {
        match self {
            Self::Frozen => Duration::ZERO,
            Self::Coarse => {
                let step = STEP.as_nanos();
                Duration::from_nanos(u64::try_from(time.as_nanos() / step * step).unwrap_or(u64::MAX))
            }
            Self::Exact => time,
        }
    }

    const fn resolution(self) -> Duration {
        match self {
            Self::Exact => Duration::from_nanos(1),
            Self::Coarse | Self::Frozen => STEP,
        }
    }
}

/// Sets both of them.
pub(crate) fn grant(wasi: &mut WasiCtxBuilder, clock: ClockGrant, random: RandomGrant) {
    wasi.wall_clock(Wall(clock)).monotonic_clock(Monotonic { grant: clock, origin: Instant::now() });
    if random == RandomGrant::Fixed {
        wasi.secure_random(SmallRng::seed_from_u64(SEED))
            .insecure_random(SmallRng::seed_from_u64(SEED))
            .insecure_random_seed(u128::from(SEED));
    }
}

struct Wall(ClockGrant);

impl HostWallClock for Wall {
    fn resolution(&self) -> Duration {
        self.0.resolution()
    }

    fn now(&self) -> Duration {
        self.0.round(std::time::UNIX_EPOCH.elapsed().unwrap_or_default())
    }
}

struct Monotonic {
    grant: ClockGrant,
    origin: Instant,
}

impl HostMonotonicClock for Monotonic {
    fn resolution(&self) -> u64 {
        u64::try_from(self.grant.resolution().as_nanos()).unwrap_or(u64::MAX)
    }

    fn now(&self) -> u64 {
        let now = BEGINNING + self.grant.round(self.origin.elapsed());
        u64::try_from(now.as_nanos()).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_move_as_exactly_as_they_may() {
        let time = Duration::from_nanos(1_234_567);
        assert_eq!(ClockGrant::Exact.round(time), time);
        assert_eq!(ClockGrant::Coarse.round(time), Duration::from_micros(1_200));
        assert_eq!(ClockGrant::Frozen.round(time), Duration::ZERO);
        assert_eq!(
            (Wall(ClockGrant::Frozen).now(), Wall(ClockGrant::Exact).now() > time),
            (Duration::ZERO, true)
        );
        let frozen = Monotonic { grant: ClockGrant::Frozen, origin: Instant::now() };
        assert!(frozen.now() > 0 && frozen.now() == frozen.now(), "it stands still, but not at zero");
        let coarse = Wall(ClockGrant::Coarse).now();
        assert_eq!(coarse.as_nanos() % STEP.as_nanos(), 0, "{coarse:?}");
    }
}
