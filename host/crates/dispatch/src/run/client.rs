//! The client of a run.

use crate::access::caller::Caller;
use crate::access::principal::Principal;
use crate::client::client_channel::ClientChannel;
use std::sync::Arc;
use toolyard_protocol::RawJson;
use toolyard_task::audit::{By, name_of};
use toolyard_task::tool::CpuShare;
use toolyard_task::{Owner, SessionId};

/// The client of a run.
pub(crate) struct Client {
    /// The channel for notices and questions.
    pub channel: Arc<dyn ClientChannel>,
    /// The account to which its run is charged.
    pub share: CpuShare,
    /// The session that may answer them.
    pub session: Option<SessionId>,
    /// The owner that permissions of the user count for; `None` for a client that the host could
    /// not recognize again.
    pub owner: Option<Owner>,
    /// The principal of its request; `None` for the client of a task that was taken over.
    pub principal: Option<Arc<Principal>>,
    /// The capabilities of the client: an object.
    pub capabilities: RawJson,
    /// The token of the request for progress notifications.
    pub progress_token: Option<RawJson>,
}

impl Client {
    /// The client of a run, from its caller.
    pub fn of(
        caller: &Caller,
        share: CpuShare,
        channel: Arc<dyn ClientChannel>,
        progress_token: Option<RawJson>,
    ) -> Self {
        Self {
            share,
            channel,
            session: caller.session.clone(),
            // The host cannot recognize an anonymous client again.
            owner: caller.creates_for().filter(|owner| *owner != Owner::Anyone),
            principal: Some(caller.principal.clone()),
            capabilities: caller.abilities(),
            // For as long as it runs or waits; what it was cut from is not kept for it.
            progress_token: progress_token.map(|token| token.detached()),
        }
    }

    /// The actor in the audit log.
    pub fn by(&self) -> By {
        match &self.principal {
            Some(principal) => principal.by(self.session.as_ref()),
            None => By::client(),
        }
    }

    /// The name of the user who gave a permission that counts for `owner`.
    pub fn name(&self, owner: &Owner) -> String {
        self.principal.as_ref().map_or_else(|| name_of(owner), |principal| principal.to_string())
    }
}
