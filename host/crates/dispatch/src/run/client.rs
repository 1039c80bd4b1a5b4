//! The client of a run.

use crate::access::caller::Caller;
use crate::client::client_channel::ClientChannel;
use std::sync::Arc;
use toolyard_protocol::RawJson;
use toolyard_task::audit::By;
use toolyard_task::tool::Share;
use toolyard_task::{Owner, SessionId};

/// The client of a run.
pub(crate) struct Client {
    /// The channel for notices and questions.
    pub channel: Arc<dyn ClientChannel>,
    /// On whose account it computes.
    pub share: Share,
    /// The session that may answer them.
    pub session: Option<SessionId>,
    /// The owner that permissions of the user count for; `None` for a client that the host could
    /// not recognize again.
    pub owner: Option<Owner>,
    /// The actor in the audit log.
    pub by: By,
    /// The same, as a short text.
    pub name: String,
    /// The capabilities of the client: an object.
    pub capabilities: RawJson,
    /// The token that it wants progress under.
    pub progress_token: Option<RawJson>,
}

impl Client {
    /// The client of a run, from who calls.
    pub fn of(
        caller: &Caller,
        share: Share,
        channel: Arc<dyn ClientChannel>,
        progress_token: Option<RawJson>,
    ) -> Self {
        Self {
            share,
            channel,
            session: caller.session.clone(),
            // The host cannot recognize an anonymous client again.
            owner: caller.creates_for().filter(|owner| *owner != Owner::Anyone),
            by: caller.by(),
            name: caller.principal.to_string(),
            capabilities: caller.capabilities.clone(),
            // For as long as it runs or waits; what it was cut from is not kept for it.
            progress_token: progress_token.map(|token| token.detached()),
        }
    }
}
