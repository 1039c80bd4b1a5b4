//! The clocks and timers of runs with a journal. Both clocks follow from one reading, in steps of a millisecond.

use crate::guest::state::GuestState;
use crate::journal::{GuestJournal, now_ms};
use crate::wasi::clocks::{BEGINNING, report_sleep};
use async_trait::async_trait;
use std::sync::Arc;
use std::time::{Duration, Instant};
use toolyard_manifest::ClockGrant;
use toolyard_task::RunContext;
use wasmtime::StoreContextMut;
use wasmtime::component::{Linker, Resource};
use wasmtime_wasi::p2::bindings::clocks::wall_clock::Datetime;
use wasmtime_wasi::p2::{DynPollable, Pollable, subscribe};

/// Guests may import another version of WASI 0.2; the linker matches them.
const WALL_CLOCK: &str = "wasi:clocks/wall-clock@0.2.12";
const MONOTONIC_CLOCK: &str = "wasi:clocks/monotonic-clock@0.2.12";
/// The resolution of both clocks.
const RESOLUTION: Duration = Duration::from_millis(1);

type Store<'a> = StoreContextMut<'a, GuestState>;

pub(crate) fn add_to_linker(linker: &mut Linker<GuestState>) -> wasmtime::Result<()> {
    let mut wall = linker.instance(WALL_CLOCK)?;
    wall.func_wrap("now", |mut store: Store<'_>, (): ()| {
        let run = store.data_mut();
        let now = match run.about.grants.clock {
            ClockGrant::Frozen => Duration::ZERO,
            ClockGrant::Coarse | ClockGrant::Exact => Duration::from_millis(reading(run)?),
        };
        Ok((Datetime { seconds: now.as_secs(), nanoseconds: now.subsec_nanos() },))
    })?;
    wall.func_wrap("resolution", |_: Store<'_>, (): ()| {
        Ok((Datetime { seconds: 0, nanoseconds: RESOLUTION.subsec_nanos() },))
    })?;
    let mut monotonic = linker.instance(MONOTONIC_CLOCK)?;
    monotonic.func_wrap("now", |mut store: Store<'_>, (): ()| {
        let run = store.data_mut();
        Ok((match run.about.grants.clock {
            ClockGrant::Frozen => nanos(BEGINNING),
            ClockGrant::Coarse | ClockGrant::Exact => since_begin(run, reading(run)?)?,
        },))
    })?;
    monotonic.func_wrap("resolution", |_: Store<'_>, (): ()| Ok((nanos(RESOLUTION),)))?;
    monotonic.func_wrap("subscribe-duration", |mut store: Store<'_>, (time,): (u64,)| {
        let run = store.data_mut();
        let now = reading(run)?;
        // Rounded up, so that no wait is too short.
        Ok((timer(run, now.saturating_add(time.div_ceil(1_000_000)))?,))
    })?;
    monotonic.func_wrap("subscribe-instant", |mut store: Store<'_>, (when,): (u64,)| {
        let run = store.data_mut();
        let now = reading(run)?;
        // A frozen clock stands at its beginning.
        let at = match run.about.grants.clock {
            ClockGrant::Frozen => nanos(BEGINNING),
            ClockGrant::Coarse | ClockGrant::Exact => since_begin(run, now)?,
        };
        Ok((timer(run, now.saturating_add(when.saturating_sub(at).div_ceil(1_000_000)))?,))
    })
}

/// A reading of the clock, in milliseconds since 1970.
fn reading(run: &GuestState) -> wasmtime::Result<u64> {
    run.journal()?.with(|recorder| recorder.clock(now_ms()))
}

/// The monotonic clock at this reading, in nanoseconds.
fn since_begin(run: &GuestState, reading_ms: u64) -> wasmtime::Result<u64> {
    let elapsed = Duration::from_millis(reading_ms.saturating_sub(run.journal()?.base_time()));
    Ok(nanos(BEGINNING.saturating_add(elapsed)))
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn timer(run: &mut GuestState, until_ms: u64) -> wasmtime::Result<Resource<DynPollable>> {
    let timer =
        Timer { until_ms, journal: run.journal()?.clone(), context: run.context.clone(), is_reported: false };
    let timer = run.table.push(timer)?;
    let pollable = subscribe(&mut run.table, timer)?;
    run.timers.insert(pollable.rep(), until_ms);
    Ok(pollable)
}

/// A timer of a guest.
struct Timer {
    until_ms: u64,
    journal: Arc<GuestJournal>,
    context: Arc<dyn RunContext>,
    is_reported: bool,
}

#[async_trait]
impl Pollable for Timer {
    async fn ready(&mut self) {
        let began = Instant::now();
        sleep_until(self.until_ms).await;
        // Not reached if the guest waits for several things and another one is ready first.
        if self.journal.is_live() && !std::mem::replace(&mut self.is_reported, true) {
            report_sleep(&self.context, began);
        }
    }
}

/// Waits until this time, by the clock of this host.
pub(crate) async fn sleep_until(time_ms: u64) {
    loop {
        let left = time_ms.saturating_sub(now_ms());
        if left == 0 {
            return;
        }
        // The clock may be set meanwhile.
        tokio::time::sleep(Duration::from_millis(left)).await;
    }
}
