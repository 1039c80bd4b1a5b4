//! Whose turn it is to be loaded. A component that takes long to compile leaves the lane of the
//! quick ones, so it never holds up the others.

use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

/// How long a load may keep a place of the quick lane. Most components compile in a second or two.
const QUICK_TIME: Duration = Duration::from_secs(10);

/// The places for loads. Each lane has as many as there may be loads at once, so twice that many
/// compilers run at most.
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

/// A place in a lane.
pub(crate) struct CompileTurn {
    /// `None` for a file that is loaded alone.
    place: Option<Place>,
}

struct Place {
    lanes: Arc<Lanes>,
    lane: Lane,
    permit: OwnedSemaphorePermit,
    began: Instant,
    cancelled: watch::Receiver<bool>,
}

impl Lanes {
    pub fn new(places: usize) -> Arc<Self> {
        Self::with(places, QUICK_TIME)
    }

    fn with(places: usize, quick_time: Duration) -> Arc<Self> {
        let lane = || Arc::new(Semaphore::new(places));
        Arc::new(Self { quick: lane(), slow: lane(), quick_time })
    }

    /// Waits for a place. `None` if the load is cancelled meanwhile.
    pub async fn turn(self: &Arc<Self>, lane: Lane, cancelled: watch::Receiver<bool>) -> Option<CompileTurn> {
        let places = match lane {
            Lane::Quick => &self.quick,
            Lane::Slow => &self.slow,
        };
        let mut until = cancelled.clone();
        let permit = tokio::select! {
            biased;
            _ = until.wait_for(|cancelled| *cancelled) => return None,
            permit = places.clone().acquire_owned() => permit.ok()?,
        };
        let place = Place { lanes: self.clone(), lane, permit, began: Instant::now(), cancelled };
        Some(CompileTurn { place: Some(place) })
    }
}

impl CompileTurn {
    /// The turn of a file that is loaded alone: it never ends.
    pub const fn alone() -> Self {
        Self { place: None }
    }

    /// Whether the load must give up: because it was cancelled, or because it took too long for the
    /// quick lane and there is no place in the slow one. If there is a place, it takes that.
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

    /// Whether the file has changed or is gone, or the host shuts down.
    pub fn is_cancelled(&self) -> bool {
        self.place.as_ref().is_some_and(|place| {
            // A sender that is gone wants nothing any more.
            *place.cancelled.borrow() || place.cancelled.has_changed().is_err()
        })
    }

    /// Ends when the load is cancelled.
    pub async fn cancelled(&self) {
        match &self.place {
            Some(place) => drop(place.cancelled.clone().wait_for(|cancelled| *cancelled).await),
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
        let (cancel, cancelled) = watch::channel(false);
        let turn = async |lane| lanes.turn(lane, cancelled.clone()).await.expect("a place");
        let mut first = turn(Lane::Quick).await;
        assert!(!first.must_end(), "it moves");
        let mut second = turn(Lane::Quick).await;
        assert!(second.must_end(), "there is one slow place only");
        drop((first, second));
        let mut slow = turn(Lane::Slow).await;
        assert!(!slow.must_end(), "it may take its time");
        cancel.send_replace(true);
        assert!(slow.must_end() && slow.is_cancelled());
        slow.cancelled().await;
        assert!(lanes.turn(Lane::Quick, cancelled.clone()).await.is_none());
        assert!(!CompileTurn::alone().must_end());
    }
}
