//! The end: let runs finish, stop those that do not, leave no task behind that
//! claims to be running.

use crate::change::Changed;
use crate::runs::RunKey;
use crate::{Dispatch, Fault};
use futures_util::StreamExt as _;
use std::time::Duration;
use toolyard_task::audit::By;
use toolyard_task::{Event, TaskId};

/// How long stopped guests may take to let go. They are interrupted at once, so
/// this is a net.
const LET_GO: Duration = Duration::from_secs(5);

/// Tasks that are ended at once, so that they share commits.
const AT_ONCE: usize = 64;

impl Dispatch {
    /// Takes no more calls, lets what runs go on for `grace`, then stops it. Tasks
    /// that did not end are failed with a message that says why; tasks that wait
    /// for a slot are failed at once.
    pub async fn drain(&self, grace: Duration) {
        self.closing.set();
        self.tracker.close();
        let all = self.runs.all().into_iter();
        self.end_all(all.filter(|(_, waiting)| *waiting)).await;
        tokio::select! {
            biased;
            () = self.tracker.wait() => {}
            () = tokio::time::sleep(grace) => {}
        }
        self.end_all(self.runs.all().into_iter()).await;
        if tokio::time::timeout(LET_GO, self.tracker.wait()).await.is_err() {
            tracing::error!(runs = self.runs.all().len(), "guests did not let go in time");
        }
    }

    async fn end_all(&self, runs: impl Iterator<Item = (RunKey, bool)>) {
        futures_util::stream::iter(runs).for_each_concurrent(AT_ONCE, |(key, _)| self.end(key)).await;
    }

    async fn end(&self, key: RunKey) {
        if let RunKey::Task(id) = key
            && let Err(fault) = self.end_task(id).await
        {
            tracing::error!(task = %id, error = &fault as &dyn std::error::Error, "a task could not be ended; the next start ends it");
        }
        self.runs.stop_key(key);
    }

    async fn end_task(&self, id: TaskId) -> Result<(), Fault> {
        let incarnation = self.incarnation().await?;
        let orphaned = Event::Orphaned { incarnation };
        if let Changed::Done(task) = self.change(id, &orphaned, &By::host().because("host_stops")).await? {
            tracing::info!(task = %id, tool = task.tool, "task ended because the host stops");
        }
        Ok(())
    }
}
