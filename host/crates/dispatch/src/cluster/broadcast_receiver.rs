//! What other hosts say in passing, and what is done about it.

use crate::client::client_channel::Notice;
use crate::cluster::Cluster;
use crate::node::broadcast::{Passed, Said, Word};
use toolyard_task::tool::Change;
use toolyard_task::wire::{LogLevel, Progress};
use toolyard_task::{SessionDigest, TaskId};

impl Cluster {
    /// Another host tells something.
    pub(crate) async fn on_word(&self, word: &str) {
        match serde_json::from_str(word) {
            Ok(Word::Notice { session, task, notice }) => self.deliver(&session, task, notice).await,
            Ok(Word::Changed { what }) => self.deps.catalog.announce_here(match what {
                Said::Tools => Change::Tools,
                Said::Prompts => Change::Prompts,
                Said::Resources => Change::Resources,
                Said::Resource(uri) => Change::Resource(uri),
            }),
            Ok(Word::Used { by }) => {
                for (who, operation, count) in by {
                    self.deps.access.spend(&who.into(), operation, count);
                }
            }
            Ok(Word::Running { host, round, of }) => {
                self.deps.slots.admission.runs_elsewhere(host, round, of)
            }
            // Of another release, most likely.
            Err(error) => {
                tracing::debug!(error = &error as &dyn std::error::Error, "a word is not understood")
            }
        }
    }

    async fn deliver(&self, session: &SessionDigest, task: Option<TaskId>, notice: Passed) {
        let Some(reach) = self.deps.clients.lookup() else { return };
        let Some(session) = reach.listening(session, task) else { return };
        let notice = match notice {
            Passed::Progress { token, progress, total, message } => {
                Notice::Progress { token, progress: Progress { progress, total, message } }
            }
            Passed::Log { level, logger, data } => {
                let Some(level) = LogLevel::parse(&level) else { return };
                Notice::Log { level, logger, data }
            }
            Passed::Status => {
                let Some(id) = task else { return };
                let Ok(Some(read)) = self.deps.tasks.store.read(id, None).await else { return };
                // A word names the session; the record says whose it is.
                if read.task.session.as_ref() != Some(&session) {
                    return;
                }
                Notice::Status(read.task.view())
            }
            Passed::ElicitationComplete { elicitation_id } => Notice::ElicitationComplete { elicitation_id },
        };
        reach.outlet(Some(&session)).notify(task, notice);
    }
}
