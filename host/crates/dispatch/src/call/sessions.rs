//! Sessions of the revisions that have them (H-22 to H-26): rows of the store, so
//! that a restart loses none.

use crate::access::caller::Caller;
use crate::access::principal::Principal;
use crate::application::Dispatch;
use crate::error::Fault;
use std::sync::Arc;
use toolyard_protocol::{ClientCapabilities, RawJson, Revision};
use toolyard_task::audit::name_of;
use toolyard_task::search::{Page, Search};
use toolyard_task::session::Session;
use toolyard_task::wire::Timestamp;
use toolyard_task::{Owner, SessionId};

/// A session that is to be opened.
#[derive(Debug, Clone)]
pub struct NewSession {
    /// The principal. The tasks of an anonymous client belong to the session.
    pub principal: Arc<Principal>,
    /// The revision that was agreed on.
    pub revision: Revision,
    /// The capabilities of the client: an object.
    pub capabilities: RawJson,
    /// The client's name and version, for logs.
    pub client: String,
}

impl Dispatch {
    /// Opens a session.
    ///
    /// # Errors
    /// [`Fault::Store`].
    pub async fn open_session(&self, new: NewSession) -> Result<Session, Fault> {
        let id = SessionId::of(self.deps.ids.uuid());
        let session = Session {
            owner: new.principal.owner(Some(&id)).unwrap_or(Owner::Local),
            id,
            revision: new.revision.as_str().to_owned(),
            client_capabilities: new.capabilities,
            client: new.client,
            log_level: None,
            task_aware: false,
            subscriptions: std::collections::BTreeSet::new(),
            created_at: Timestamp(0),
            seen_at: Timestamp(0),
        };
        let session = self.sessions.open(session, self.deps.settings.sessions).await?;
        if self.may_log() {
            // The id opens the session, so the log has its digest.
            tracing::info!(
                event = "session.opened",
                session = %session.id.digest(),
                principal = name_of(&session.owner),
                client = session.client,
                revision = session.revision,
                "session opened"
            );
        }
        Ok(session)
    }

    /// Whether `log.rate` admits a line about a call or a session.
    pub(crate) fn may_log(&self) -> bool {
        self.deps.observers.call_log.admits()
    }

    /// The session of this id, if it is open.
    ///
    /// # Errors
    /// [`Fault::Store`].
    pub async fn session(&self, id: &SessionId) -> Result<Option<Session>, Fault> {
        Ok(self.sessions.session(id).await?)
    }

    /// The open sessions, the latest used first. For the operator only; no client request reaches this.
    ///
    /// # Errors
    /// [`Fault::Store`].
    pub async fn sessions(&self, limit: u32) -> Result<Vec<Session>, Fault> {
        Ok(self.sessions.sessions(limit).await?)
    }

    /// The client of this session has opened a stream: the open questions of its owner's tasks are sent on it.
    pub fn offer_open(&self, session: &Session) {
        let (deps, session) = (self.deps.clone(), session.clone());
        let offer = async move {
            if let Err(error) = deps.tasks.offer_open(&session).await {
                tracing::warn!(
                    event = "question.not_sent",
                    error = &error as &dyn std::error::Error,
                    "cannot send the open questions"
                );
            }
        };
        self.deps.slots.tracker.spawn_on(offer, &self.deps.slots.guests);
    }

    /// Whether long calls of this session's client are handed off, because it knows no tasks.
    #[must_use]
    pub fn is_bridged(&self, session: &Session) -> bool {
        let (name, capabilities) = (session.client_name(), &session.client_capabilities);
        let bridges = self.deps.settings.tasks && self.deps.settings.bridge.is_some();
        bridges && !self.knows_tasks(name, capabilities, session.task_aware)
    }

    /// Whether a client knows tasks: it has used them (`task_aware`), declares them, or is one of those that
    /// know them without saying so.
    #[must_use]
    pub fn knows_tasks(&self, name: &str, capabilities: &RawJson, task_aware: bool) -> bool {
        let bridge = self.deps.settings.bridge.as_ref().filter(|_| self.deps.settings.tasks);
        task_aware
            || ClientCapabilities::of(capabilities).tasks
            || bridge.is_some_and(|bridge| bridge.knows_tasks(name))
    }

    /// Ends the session of this digest for the operator, as its client could. Returns whether it was
    /// open.
    ///
    /// # Errors
    /// [`Fault::Store`].
    pub async fn end_session(&self, caller: &Caller, digest: &str) -> Result<bool, Fault> {
        let open = self.sessions(self.deps.settings.sessions).await?;
        let Some(session) = open.into_iter().find(|session| session.id.digest().to_string() == digest) else {
            return Ok(false);
        };
        let closed = self.close_session(&session).await?;
        if let Some(lookup) = self.deps.clients.lookup() {
            lookup.end(&session.id);
        }
        if closed {
            self.deps.access.note_session_ended(&caller.by(), &session);
        }
        Ok(closed)
    }

    /// Notes that a session is in use.
    ///
    /// # Errors
    /// [`Fault::Store`].
    pub async fn touch_session(&self, id: &SessionId) -> Result<(), Fault> {
        Ok(self.sessions.touch(id).await?)
    }

    /// Stores what the client set in a session: its log level and its
    /// subscriptions. Says whether the session is open.
    ///
    /// # Errors
    /// [`Fault::Store`].
    pub async fn remember_session(&self, session: &Session) -> Result<bool, Fault> {
        Ok(self.sessions.remember(session).await?)
    }

    /// Ends a session, and cancels the live tasks of an anonymous client, which can no longer ask
    /// for them. Returns whether the session was open.
    ///
    /// # Errors
    /// [`Fault::Store`].
    pub async fn close_session(&self, session: &Session) -> Result<bool, Fault> {
        let closed = self.sessions.close(&session.id).await?;
        if closed && self.may_log() {
            tracing::info!(
                event = "session.closed",
                session = %session.id.digest(),
                principal = name_of(&session.owner),
                client = session.client,
                "session closed"
            );
        }
        if closed && session.owner == Owner::Session(session.id.clone()) && self.deps.settings.tasks {
            self.cluster.recover_once().await?;
            self.cancel_all(session).await?;
        }
        Ok(closed)
    }

    async fn cancel_all(&self, session: &Session) -> Result<(), Fault> {
        let anonymous = Arc::new(Principal::Anonymous);
        let caller = Caller::new(anonymous, Some(session.id.clone()), RawJson::empty_object());
        let by = caller.by().because("session_ended");
        let mut search = Search::all(caller.owner.clone(), self.deps.settings.page);
        loop {
            let Page { tasks, next } = self.deps.tasks.store.search(&search).await?;
            for summary in tasks.iter().filter(|summary| !summary.status.is_terminal()) {
                match self.deps.tasks.cancel_by(&caller, &summary.id.to_string(), by.clone()).await {
                    // It has ended meanwhile, which is fine.
                    Ok(_) | Err(Fault::AlreadyOver(_) | Fault::UnknownTask) => {}
                    Err(fault) => return Err(fault),
                }
            }
            if next.is_none() {
                return Ok(());
            }
            search.after = next;
        }
    }
}
