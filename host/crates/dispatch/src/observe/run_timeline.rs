//! The events that a run adds to the timeline of its task.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;
use toolyard_task::timeline::NewEvent;
use toolyard_task::tool::Report;
use toolyard_task::wire::Progress;

/// Progress is stored at most this often: a timeline of nothing but progress tells a person nothing.
const PROGRESS: Duration = Duration::from_secs(1);

/// Makes events of the reports of one run. It is used only once the run is that of a task.
#[derive(Default)]
pub(crate) struct RunTimeline(Mutex<MergedProgress>);

#[derive(Default)]
struct MergedProgress {
    /// When progress was last stored.
    stored: Option<Instant>,
    /// The latest progress since then.
    held: Option<Progress>,
}

impl RunTimeline {
    /// The event of this report, if it is one that is stored now. Status messages come with the commit
    /// that stores them.
    pub fn event(&self, attempt: u32, report: &Report) -> Option<NewEvent> {
        match report {
            Report::Progress(progress) => {
                let mut merged = self.lock();
                let now = Instant::now();
                if merged.stored.is_some_and(|stored| now < stored + PROGRESS) {
                    merged.held = Some(progress.clone());
                    return None;
                }
                *merged = MergedProgress { stored: Some(now), held: None };
                Some(NewEvent::progress(attempt, progress))
            }
            Report::Log { level, logger, data } => {
                Some(NewEvent::log(attempt, *level, logger.as_deref(), data))
            }
            Report::Status(_)
            | Report::Changed(_)
            | Report::ElicitationComplete { .. }
            | Report::Usage(_)
            | Report::ReleaseStream { .. } => None,
        }
    }

    /// The last progress of the run, if it is not stored yet.
    pub fn last(&self, attempt: u32) -> Option<NewEvent> {
        let held = self.lock().held.take();
        held.map(|progress| NewEvent::progress(attempt, &progress))
    }

    fn lock(&self) -> MutexGuard<'_, MergedProgress> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
