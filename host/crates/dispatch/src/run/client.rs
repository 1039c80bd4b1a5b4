//! For whom a run is.

use crate::access::caller::Caller;
use crate::client::client_channel::Outlet;
use std::sync::Arc;
use toolyard_protocol::RawJson;
use toolyard_task::audit::By;
use toolyard_task::tool::Share;
use toolyard_task::{Owner, SessionId};

/// For whom a run is.
pub(crate) struct Client {
    /// Where notices and questions go.
    pub outlet: Arc<dyn Outlet>,
    /// On whose account it computes.
    pub share: Share,
    /// The session that may answer them.
    pub session: Option<SessionId>,
    /// For whose calls it counts what the client is asked to permit; nobody whom
    /// one would know again, if absent.
    pub owner: Option<Owner>,
    /// Who it is, for the audit log.
    pub by: By,
    /// The same, in a word.
    pub name: String,
    /// What the client can do: an object.
    pub capabilities: RawJson,
    /// The token that it wants progress under.
    pub progress_token: Option<RawJson>,
}

impl Client {
    /// The client of a run, from who calls.
    pub fn of(
        caller: &Caller,
        share: Share,
        outlet: Arc<dyn Outlet>,
        progress_token: Option<RawJson>,
    ) -> Self {
        Self {
            share,
            outlet,
            session: caller.session.clone(),
            // Nobody would know an anonymous client again.
            owner: caller.creates_for().filter(|owner| *owner != Owner::Anyone),
            by: caller.by(),
            name: caller.principal.to_string(),
            capabilities: caller.capabilities.clone(),
            // For as long as it runs or waits; what it was cut from is not kept for it.
            progress_token: progress_token.map(|token| token.detached()),
        }
    }
}
