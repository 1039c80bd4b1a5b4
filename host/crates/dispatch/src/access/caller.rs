//! The caller of a request, and the tasks that it may see.

use crate::access::principal::Principal;
use crate::error::Fault;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use toolyard_protocol::{ClientCapabilities, RawJson};
use toolyard_task::audit::By;
use toolyard_task::{Owner, SessionId};

/// The caller of one request: principal, session and connection.
#[derive(Debug, Clone)]
pub struct Caller {
    /// The authenticated principal.
    pub principal: Arc<Principal>,
    /// The owner of the tasks that the caller sees. `None` means all tasks: the operator at the
    /// command line.
    pub owner: Option<Owner>,
    /// The session that the request came in.
    pub session: Option<SessionId>,
    /// The capabilities of the client: an object.
    pub capabilities: RawJson,
    /// The address of an anonymous caller without a session.
    pub peer: Option<IpAddr>,
    /// Whether the host can send requests to its client, as it can to one that opened with
    /// `initialize`.
    pub takes_requests: bool,
    /// The login to the console that the request came from.
    pub console: Option<Arc<str>>,
    /// Whether its client has answered a question that its capabilities allow with "method not found", as a
    /// bridge does that passes on the capabilities of the client behind it.
    pub refuses_questions: Arc<AtomicBool>,
}

impl Caller {
    /// The caller of a request in this session, if there is one.
    #[must_use]
    pub fn new(principal: Arc<Principal>, session: Option<SessionId>, capabilities: RawJson) -> Self {
        let owner = principal.owner(session.as_ref());
        let capable = Self::stateless(principal, None, capabilities);
        Self { owner, session, takes_requests: true, ..capable }
    }

    /// The caller of a request without a session (26J-2), with the capabilities that the request
    /// declares. Everyone who knows the id of a task may ask about it if an anonymous caller
    /// created it (26T-25).
    #[must_use]
    pub fn stateless(principal: Arc<Principal>, peer: Option<IpAddr>, capabilities: RawJson) -> Self {
        let anyone = matches!(*principal, Principal::Anonymous).then_some(Owner::Anyone);
        let owner = anyone.or_else(|| principal.owner(None));
        Self {
            owner,
            principal,
            session: None,
            capabilities,
            peer,
            takes_requests: false,
            console: None,
            refuses_questions: Arc::default(),
        }
    }

    /// The account to which its runs are charged.
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

    /// The operator, by this login to the console.
    #[must_use]
    pub fn at_console(login: &str) -> Self {
        Self { console: Some(login.into()), ..Self::operator() }
    }

    /// The user of this machine.
    #[must_use]
    pub fn local(capabilities: RawJson) -> Self {
        Self::new(Arc::new(Principal::Local), None, capabilities)
    }

    /// The user of this machine, by this login to the console: the rules for that user apply.
    #[must_use]
    pub fn local_at_console(login: &str, capabilities: RawJson) -> Self {
        Self { console: Some(login.into()), ..Self::local(capabilities) }
    }

    /// The owner of tasks that the caller creates. The operator's tasks belong to the local user.
    /// An anonymous caller without a session creates none, since it could never find them again.
    pub(crate) fn creates_for(&self) -> Option<Owner> {
        match &*self.principal {
            Principal::Operator => Some(Owner::Local),
            Principal::Anonymous | Principal::Local | Principal::Subject(_) => self.owner.clone(),
        }
    }

    /// Whether the host can send its client a request to fill in a form.
    #[must_use]
    pub fn takes_forms(&self) -> bool {
        self.takes_requests && ClientCapabilities::of(&self.abilities()).form
    }

    /// The capabilities of its client, without those that it has refused.
    pub(crate) fn abilities(&self) -> RawJson {
        if !self.refuses_questions.load(Ordering::Relaxed) {
            return self.capabilities.clone();
        }
        let mut able: serde_json::Map<String, serde_json::Value> =
            self.capabilities.decode().unwrap_or_default();
        able.remove("elicitation");
        RawJson::of(&able)
    }

    /// Records that the client does not know the request with which it is asked.
    pub(crate) fn note_refusal(&self) {
        self.refuses_questions.store(true, Ordering::Relaxed);
    }

    /// The owner of the tasks that the caller's calls become if its client knows no tasks. Some such
    /// clients open a session for each call, so the tasks of an anonymous one belong to anyone who
    /// knows their ids.
    pub(crate) fn owns_bridged(&self) -> Option<Owner> {
        match self.creates_for() {
            Some(Owner::Session(_)) => Some(Owner::Anyone),
            owner => owner,
        }
    }

    /// The owner of the tasks that its equal calls join. `None` if these belong to anyone: an equal call
    /// may come from another client.
    pub(crate) fn rejoins_as(&self) -> Option<Owner> {
        self.owns_bridged().filter(|owner| *owner != Owner::Anyone)
    }

    /// The owner whose tasks a read may find. An anonymous caller without a session has none. Only
    /// for the operator, `None` means every owner.
    pub(crate) fn reads(&self) -> Result<Option<&Owner>, Fault> {
        match (&self.owner, &*self.principal) {
            (Some(owner), _) => Ok(Some(owner)),
            (None, Principal::Operator) => Ok(None),
            (None, Principal::Anonymous | Principal::Local | Principal::Subject(_)) => {
                Err(Fault::UnknownTask)
            }
        }
    }

    /// The owner of a call that goes on although its client has left. In an anonymous session only that session finds
    /// it. `None` for a caller who could not find it again.
    pub(crate) fn keeps_as(&self) -> Option<Owner> {
        let of_session = || self.creates_for().filter(|owner| matches!(owner, Owner::Session(_)));
        self.rejoins_as().or_else(of_session)
    }

    /// The caller, as the audit log names it.
    pub(crate) fn by(&self) -> By {
        self.principal.by(self.session.as_ref()).at_console(self.console.clone())
    }
}
