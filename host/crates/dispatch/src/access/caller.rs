//! Who calls, and whose tasks the caller sees.

use crate::{Fault, Principal};
use std::net::IpAddr;
use std::sync::Arc;
use toolyard_protocol::RawJson;
use toolyard_task::audit::By;
use toolyard_task::{Owner, SessionId};

/// Who asks.
#[derive(Debug, Clone)]
pub struct Caller {
    /// Who it is.
    pub principal: Arc<Principal>,
    /// Whose tasks the caller sees; all of them if absent, which is the operator
    /// at the command line.
    pub owner: Option<Owner>,
    /// The session that the request came in.
    pub session: Option<SessionId>,
    /// What the client can do: an object.
    pub capabilities: RawJson,
    /// Where an anonymous caller without a session calls from.
    pub peer: Option<IpAddr>,
}

impl Caller {
    /// Who calls in this session, if in any.
    #[must_use]
    pub fn new(principal: Arc<Principal>, session: Option<SessionId>, capabilities: RawJson) -> Self {
        Self { owner: principal.owner(session.as_ref()), principal, session, capabilities, peer: None }
    }

    /// Who makes a request that stands alone (26J-2), with the capabilities that it
    /// declares. What an anonymous caller creates is anybody's who knows its id
    /// (26T-25).
    #[must_use]
    pub fn stateless(principal: Arc<Principal>, peer: Option<IpAddr>, capabilities: RawJson) -> Self {
        let anyone = matches!(*principal, Principal::Anonymous).then_some(Owner::Anyone);
        let owner = anyone.or_else(|| principal.owner(None));
        Self { owner, principal, session: None, capabilities, peer }
    }

    /// On whose account its runs compute.
    pub(crate) fn account(&self) -> Arc<str> {
        match (&self.owner, self.peer) {
            (Some(Owner::Anyone), Some(peer)) => format!("anyone:{peer}").into(),
            (owner, _) => owner.as_ref().unwrap_or(&Owner::Local).key().into(),
        }
    }

    /// The operator, at the command line.
    #[must_use]
    pub fn operator() -> Self {
        Self::new(Arc::new(Principal::Operator), None, RawJson::empty_object())
    }

    /// The user of this machine.
    #[must_use]
    pub fn local(capabilities: RawJson) -> Self {
        Self::new(Arc::new(Principal::Local), None, capabilities)
    }

    /// Whose the tasks are that the caller creates. The operator's are the local
    /// user's; an anonymous caller without a session could never find them again.
    pub(crate) fn creates_for(&self) -> Option<Owner> {
        match &*self.principal {
            Principal::Operator => Some(Owner::Local),
            Principal::Anonymous | Principal::Local | Principal::Subject(_) => self.owner.clone(),
        }
    }

    /// Whose tasks a read may find. An anonymous caller without a session has
    /// none; that nobody is named means everybody for the operator only.
    pub(crate) fn reads(&self) -> Result<Option<&Owner>, Fault> {
        match (&self.owner, &*self.principal) {
            (Some(owner), _) => Ok(Some(owner)),
            (None, Principal::Operator) => Ok(None),
            (None, Principal::Anonymous | Principal::Local | Principal::Subject(_)) => {
                Err(Fault::UnknownTask)
            }
        }
    }

    /// The caller, as the audit log names it.
    pub(crate) fn by(&self) -> By {
        let session = match &*self.principal {
            Principal::Operator | Principal::Local => None,
            Principal::Anonymous | Principal::Subject(_) => self.session.clone(),
        };
        By::principal(&self.principal.to_string(), session)
    }
}
