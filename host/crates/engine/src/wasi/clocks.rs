//! The clocks, timers and random numbers of guests.

use crate::guest::state::GuestState;
use async_trait::async_trait;
use rand::SeedableRng as _;
use rand::rngs::SmallRng;
use std::sync::Arc;
use std::time::{Duration, Instant};
use toolyard_manifest::{ClockGrant, RandomGrant};
use toolyard_task::RunContext;
use toolyard_task::host_call::{HostAction, HostCall, MIN_WAIT};
use toolyard_task::tool::Report;
use wasmtime::StoreContextMut;
use wasmtime::component::{Linker, Resource};
use wasmtime_wasi::WasiCtxBuilder;
use wasmtime_wasi::clocks::{HostMonotonicClock, HostWallClock, WasiClocksView as _};
use wasmtime_wasi::p2::bindings::clocks::monotonic_clock::Host as _;
use wasmtime_wasi::p2::{DynPollable, Pollable, subscribe};

/// The step of coarse clocks: fine enough to measure work, too coarse to measure caches.
const STEP: Duration = Duration::from_micros(100);
/// The first value of a monotonic clock, frozen or not. The start has no meaning, but runtimes
/// consider a clock at zero broken: Go's does not start.
pub(crate) const BEGINNING: Duration = Duration::from_secs(1);
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

/// Reports that the guest has waited since `began`, unless that is not worth reporting.
pub(crate) fn report_sleep(context: &Arc<dyn RunContext>, began: Instant) {
    let took = began.elapsed();
    if took >= MIN_WAIT {
        context.report(Report::HostCall(Box::new(HostCall { took, what: HostAction::Sleep })));
    }
}

/// Guests may import another version of WASI 0.2; the linker matches them.
const MONOTONIC_CLOCK: &str = "wasi:clocks/monotonic-clock@0.2.12";

/// Replaces wasmtime's timers by those that report how long the guest has waited for them.
pub(crate) fn add_to_linker(linker: &mut Linker<GuestState>) -> wasmtime::Result<()> {
    let mut clock = linker.instance(MONOTONIC_CLOCK)?;
    clock
        .func_wrap("subscribe-duration", |mut store: StoreContextMut<'_, GuestState>, (nanos,): (u64,)| {
            Ok((timer(store.data_mut(), nanos)?,))
        })?;
    clock.func_wrap("subscribe-instant", |mut store: StoreContextMut<'_, GuestState>, (when,): (u64,)| {
        let run = store.data_mut();
        let now = run.clocks().now()?;
        Ok((timer(run, when.saturating_sub(now))?,))
    })
}

fn timer(run: &mut GuestState, nanos: u64) -> wasmtime::Result<Resource<DynPollable>> {
    let time = Duration::from_nanos(nanos);
    let until = tokio::time::Instant::now().checked_add(time).filter(|_| time >= MIN_WAIT);
    let Some(until) = until else { return run.clocks().subscribe_duration(nanos) };
    let timer = run.table.push(Timer { until, context: run.context.clone(), is_reported: false })?;
    subscribe(&mut run.table, timer)
}

/// A timer of a guest.
struct Timer {
    until: tokio::time::Instant,
    context: Arc<dyn RunContext>,
    is_reported: bool,
}

#[async_trait]
impl Pollable for Timer {
    async fn ready(&mut self) {
        let began = Instant::now();
        tokio::time::sleep_until(self.until).await;
        // Not reached if the guest waits for several things and another one is ready first.
        if !std::mem::replace(&mut self.is_reported, true) {
            report_sleep(&self.context, began);
        }
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
