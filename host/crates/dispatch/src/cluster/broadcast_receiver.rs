//! Receives the broadcasts of other hosts.

use crate::client::client_channel::Notice;
use crate::cluster::Cluster;
use crate::node::broadcast::{BroadcastMessage, ChangedList, ForwardedNotice};
use toolyard_task::tool::OfferChange;
use toolyard_task::wire::{LogLevel, Progress};
use toolyard_task::{SessionDigest, TaskId};

impl Cluster {
    /// Handles a message from another host.
    pub(crate) async fn on_broadcast(&self, message: &str) {
        match serde_json::from_str(message) {
            Ok(BroadcastMessage::Notice { session, task, notice }) => {
                self.deliver(&session, task, notice).await
            }
            Ok(BroadcastMessage::Changed { what }) => self.deps.catalog.announce_here(match what {
                ChangedList::Tools => OfferChange::Tools,
                ChangedList::Prompts => OfferChange::Prompts,
                ChangedList::Resources => OfferChange::Resources,
                ChangedList::Resource(uri) => OfferChange::Resource(uri),
            }),
            Ok(BroadcastMessage::Used { by }) => {
                for (who, operation, count) in by {
                    self.deps.access.spend(&who.into(), operation, count);
                }
            }
            Ok(BroadcastMessage::Running { host, round, of }) => {
                self.deps.slots.admission.set_remote_runs(host, round, of)
            }
            Ok(BroadcastMessage::Kept { task, key }) => {
                self.deps.tasks.rejoin.add(task, key, None);
            }
            Ok(BroadcastMessage::Delivered { task }) => {
                self.deps.tasks.rejoin.forget(task);
            }
            // Most likely from another release.
            Err(error) => {
                tracing::debug!(error = &error as &dyn std::error::Error, "a broadcast is not understood")
            }
        }
    }

    async fn deliver(&self, session: &SessionDigest, task: Option<TaskId>, notice: ForwardedNotice) {
        let Some(lookup) = self.deps.clients.lookup() else { return };
        let Some(session) = lookup.listening(session, task) else { return };
        let notice = match notice {
            ForwardedNotice::Progress { token, progress, total, message } => {
                Notice::Progress { token, progress: Progress { progress, total, message } }
            }
            ForwardedNotice::Log { level, logger, data } => {
                let Some(level) = LogLevel::parse(&level) else { return };
                Notice::Log { level, logger, data }
            }
            ForwardedNotice::Status => {
                let Some(id) = task else { return };
                let Ok(Some(read)) = self.deps.tasks.store.read(id, None).await else { return };
                // The message names the session; the record has the owner.
                if read.task.session.as_ref() != Some(&session) {
                    return;
                }
                Notice::Status(read.task.view())
            }
            ForwardedNotice::ElicitationComplete { elicitation_id } => {
                Notice::ElicitationComplete { elicitation_id }
            }
        };
        lookup.channel(Some(&session)).notify(task, notice);
    }
}
