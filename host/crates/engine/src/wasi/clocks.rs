//! The clocks and random numbers of guests.

use rand::SeedableRng as _;
use rand::rngs::SmallRng;
use std::time::{Duration, Instant};
use toolyard_manifest::{ClockGrant, RandomGrant};
use wasmtime_wasi::WasiCtxBuilder;
use wasmtime_wasi::clocks::{HostMonotonicClock, HostWallClock};

/// The step of coarse clocks: fine enough to measure work, too coarse to measure caches.
const STEP: Duration = Duration::from_micros(100);
/// The first value of a monotonic clock, frozen or not. The start has no meaning, but runtimes
/// consider a clock at zero broken: Go's does not start.
const BEGINNING: Duration = Duration::from_secs(1);
/// The seed of fixed randomness: an arbitrary number that never changes.
const SEED: u64 = 0x746f_6f6c_7961_7264;

/// The time that a guest with this grant sees.
fn rounded(grant: ClockGrant, time: Duration) -> Duration {
    match grant {
        ClockGrant::Frozen => Duration::ZERO,
        ClockGrant::Coarse => {
            let step = STEP.as_nanos();
            Duration::from_nanos(u64::try_from(time.as_nanos() / step * step).unwrap_or(u64::MAX))
        }
        ClockGrant::Exact => time,
    }
}

const fn resolution(grant: ClockGrant) -> Duration {
    match grant {
        ClockGrant::Exact => Duration::from_nanos(1),
        ClockGrant::Coarse | ClockGrant::Frozen => STEP,
    }
}

/// Configures the clocks and the random numbers.
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
        resolution(self.0)
    }

    fn now(&self) -> Duration {
        rounded(self.0, std::time::UNIX_EPOCH.elapsed().unwrap_or_default())
    }
}

struct Monotonic {
    grant: ClockGrant,
    origin: Instant,
}

impl HostMonotonicClock for Monotonic {
    fn resolution(&self) -> u64 {
        u64::try_from(resolution(self.grant).as_nanos()).unwrap_or(u64::MAX)
    }

    fn now(&self) -> u64 {
        let now = BEGINNING + rounded(self.grant, self.origin.elapsed());
        u64::try_from(now.as_nanos()).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_move_as_exactly_as_they_may() {
        let time = Duration::from_nanos(1_234_567);
        assert_eq!(rounded(ClockGrant::Exact, time), time);
        assert_eq!(rounded(ClockGrant::Coarse, time), Duration::from_micros(1_200));
        assert_eq!(rounded(ClockGrant::Frozen, time), Duration::ZERO);
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
