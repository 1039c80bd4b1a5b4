//! Turns for loading components. A component that takes long to compile moves out of the quick
//! lane, so it never delays the others.

use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

/// How long a load may hold a slot of the quick lane. Most components compile in a second or two.
const QUICK_TIME: Duration = Duration::from_secs(10);

/// The slots for loads. Each lane has as many as there may be loads at once, so at most twice that
/// many compilers run.
pub(crate) struct Lanes {
    quick: Arc<Semaphore>,
    slow: Arc<Semaphore>,
    quick_time: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lane {
    Quick,
    Slow,
}

/// A slot in a lane.
pub(crate) struct CompileTurn {
    /// Whether the start of the host, or a command, waits for the component, so that no call is under way yet.
    pub is_awaited: bool,
    /// `None` for a file that is loaded alone.
    place: Option<LaneSlot>,
}

struct LaneSlot {
    lanes: Arc<Lanes>,
    lane: Lane,
    permit: OwnedSemaphorePermit,
    began: Instant,
    cancelled: CancellationToken,
}

impl Lanes {
    pub fn new(places: usize) -> Arc<Self> {
        Self::with(places, QUICK_TIME)
    }

    fn with(places: usize, quick_time: Duration) -> Arc<Self> {
        let lane = || Arc::new(Semaphore::new(places));
        Arc::new(Self { quick: lane(), slow: lane(), quick_time })
    }

    /// Waits for a slot. Returns `None` if the load is cancelled meanwhile.
    pub async fn turn(self: &Arc<Self>, lane: Lane, cancelled: CancellationToken) -> Option<CompileTurn> {
        let places = match lane {
            Lane::Quick => &self.quick,
            Lane::Slow => &self.slow,
        };
        let permit = tokio::select! {
            biased;
            () = cancelled.cancelled() => return None,
            permit = places.clone().acquire_owned() => permit.ok()?,
        };
        let place = LaneSlot { lanes: self.clone(), lane, permit, began: Instant::now(), cancelled };
        Some(CompileTurn { is_awaited: false, place: Some(place) })
    }
}

impl CompileTurn {
    /// The turn of a file that is loaded alone. It never ends early.
    pub const fn alone() -> Self {
        Self { is_awaited: true, place: None }
    }

    /// Whether the load must stop: it was cancelled, or it took too long for the quick lane and the
    /// slow lane has no free slot. If the slow lane has one, the load moves there.
    pub fn must_end(&mut self) -> bool {
        if self.is_cancelled() {
            return true;
        }
        let Some(place) = &mut self.place else { return false };
        if place.lane == Lane::Slow || place.began.elapsed() < place.lanes.quick_time {
            return false;
        }
        match place.lanes.slow.clone().try_acquire_owned() {
            Ok(permit) => {
                (place.permit, place.lane) = (permit, Lane::Slow);
                false
            }
            Err(_) => true,
        }
    }

    /// Whether the load was cancelled: the file changed or was removed, or the host is shutting
    /// down.
    pub fn is_cancelled(&self) -> bool {
        self.place.as_ref().is_some_and(|place| place.cancelled.is_cancelled())
    }

    /// Completes when the load is cancelled.
    pub async fn cancelled(&self) {
        match &self.place {
            Some(place) => place.cancelled.cancelled().await,
            None => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn slow_loads_leave_the_quick_lane_and_wait_in_one_of_their_own() {
        let lanes = Lanes::with(1, Duration::ZERO);
        let cancelled = CancellationToken::new();
        let turn = async |lane| lanes.turn(lane, cancelled.clone()).await.expect("a place");
        let mut first = turn(Lane::Quick).await;
        assert!(!first.must_end(), "it moves");
        let mut second = turn(Lane::Quick).await;
        assert!(second.must_end(), "there is one slow place only");
        drop((first, second));
        let mut slow = turn(Lane::Slow).await;
        assert!(!slow.must_end(), "it may take its time");
        cancelled.cancel();
        assert!(slow.must_end() && slow.is_cancelled());
        slow.cancelled().await;
        assert!(lanes.turn(Lane::Quick, cancelled.clone()).await.is_none());
        assert!(!CompileTurn::alone().must_end());
    }
}
