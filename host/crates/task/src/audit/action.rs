//! The actions that the audit log records.

use serde::Serialize;

/// The action that an entry records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
pub enum Action {
    /// A task was created.
    #[serde(rename = "task.created")]
    Created,
    /// A task's run ended by itself.
    #[serde(rename = "task.ended")]
    Ended,
    /// A task was cancelled.
    #[serde(rename = "task.cancelled")]
    Cancelled,
    /// A task was ended by its ttl.
    #[serde(rename = "task.expired")]
    Expired,
    /// A task was ended because its host stopped.
    #[serde(rename = "task.orphaned")]
    Orphaned,
    /// A task was taken over from a host that is gone.
    #[serde(rename = "task.claimed")]
    Claimed,
    /// A host that was shut down left a task to the next one.
    #[serde(rename = "task.released")]
    Released,
    /// The operator had a task continued that had failed.
    #[serde(rename = "task.resumed")]
    Resumed,
    /// A request of a task was under way when its host stopped, and it was decided what happens to it.
    #[serde(rename = "task.doubt")]
    Doubt,
    /// An ended task was removed before its time, to make room.
    #[serde(rename = "task.discarded")]
    Discarded,
    /// The outcome of a task was handed out.
    #[serde(rename = "task.retrieved")]
    Retrieved,
    /// A backup of the store was written.
    #[serde(rename = "backup.written")]
    BackupWritten,
    /// The store was made from a backup.
    #[serde(rename = "backup.restored")]
    BackupRestored,
    /// The principal asked for a task that it does not have.
    #[serde(rename = "task.unknown")]
    Unknown,
    /// A task asked its client something.
    #[serde(rename = "question.asked")]
    Asked,
    /// A question of a task is no longer open.
    #[serde(rename = "question.answered")]
    Answered,
    /// A call waits for an approval.
    #[serde(rename = "approval.asked")]
    ApprovalAsked,
    /// A call was approved.
    #[serde(rename = "approval.given")]
    ApprovalGiven,
    /// A call was denied.
    #[serde(rename = "approval.refused")]
    ApprovalRefused,
    /// There was no approval of a call in time.
    #[serde(rename = "approval.expired")]
    ApprovalExpired,
    /// A person permitted a plugin something.
    #[serde(rename = "permission.given")]
    Permitted,
    /// A person did not permit it, or could not be asked.
    #[serde(rename = "permission.refused")]
    NotPermitted,
    /// A permanent permission was revoked.
    #[serde(rename = "permission.revoked")]
    Revoked,
    /// The rules did not allow the request.
    #[serde(rename = "denied.rule")]
    DeniedByRule,
    /// The token lacks a scope.
    #[serde(rename = "denied.scope")]
    DeniedByScope,
    /// A request had invalid credentials, or none.
    #[serde(rename = "denied.authentication")]
    Unauthenticated,
    /// Too many requests.
    #[serde(rename = "limited.requests")]
    LimitedRequests,
    /// Too many questions about tasks.
    #[serde(rename = "limited.polling")]
    LimitedPolling,
    /// Too many look-ups of tasks that the principal does not have.
    #[serde(rename = "limited.lookups")]
    LimitedLookups,
    /// A login to the console began.
    #[serde(rename = "console.login")]
    ConsoleLogin,
    /// A login to the console was ended by its person.
    #[serde(rename = "console.logout")]
    ConsoleLogout,
    /// The console refused a login or an action.
    #[serde(rename = "console.refused")]
    ConsoleRefused,
    /// The operator ended a session.
    #[serde(rename = "session.ended")]
    SessionEnded,
    /// A version of a plugin was taken into the plugin folder, or pinned there.
    #[serde(rename = "plugin.accepted")]
    PluginAccepted,
    /// A new version of a plugin waits for a person, because it changes what the plugin says or reaches.
    #[serde(rename = "plugin.held")]
    PluginHeld,
    /// A plugin was taken out of the plugin folder.
    #[serde(rename = "plugin.removed")]
    PluginRemoved,
    /// Rows of a principal were erased from the store.
    #[serde(rename = "principal.erased")]
    PrincipalErased,
    /// Entries were not written, or dropped before they were exported.
    #[serde(rename = "audit.lost")]
    Lost,
}
