//! What is known of a client once `initialize` is done, whatever the transport.

use crate::notices::Audience;
use arc_swap::ArcSwap;
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use toolyard_dispatch::{Caller, Dispatch, Fault, Offers, Outlet, Principal, Session, Stop};
use toolyard_protocol::{Id, LogLevel, Revision};

/// One client.
pub(crate) struct Conversation {
    /// Who it is, to the dispatcher, as of its latest request: what a token is good
    /// for may change from one to the next.
    caller: ArcSwap<Caller>,
    /// The revision that was agreed on.
    pub revision: Revision,
    /// What was declared to it besides tools (L-6).
    pub declared: Offers,
    /// What it wants to hear.
    pub audience: Arc<Audience>,
    /// What the store remembers of it. Held while it is written, so that the last
    /// to change it is the last to write.
    pub memory: tokio::sync::Mutex<Memory>,
    /// Where notices about its tasks go.
    pub task_outlet: Arc<dyn Outlet>,
    /// The requests under way that may be cancelled.
    inflight: Inflight,
}

/// URIs of the subscriptions of one client together, in bytes: they are kept with its
/// session, in memory and in the store.
const MAX_SUBSCRIPTION_BYTES: usize = 256 << 10;

/// What was agreed on with a client, or is known of it from before.
pub(crate) struct Agreed {
    pub revision: Revision,
    pub declared: Offers,
    pub audience: Arc<Audience>,
    pub memory: Memory,
}

/// What is remembered of a client beyond a restart.
#[derive(Default)]
pub(crate) struct Memory {
    /// The session in the store, where there is one.
    pub session: Option<Session>,
    /// The resources that it wants to hear about.
    pub subscriptions: BTreeSet<String>,
}

impl Conversation {
    /// What is known of a client that has just initialized, or has come back.
    pub fn new(caller: Caller, agreed: Agreed, task_outlet: Arc<dyn Outlet>, requests: usize) -> Self {
        let Agreed { revision, declared, audience, memory } = agreed;
        Self {
            caller: ArcSwap::from_pointee(caller),
            revision,
            declared,
            audience,
            memory: tokio::sync::Mutex::new(memory),
            task_outlet,
            inflight: Inflight { most: requests, by_id: Mutex::default() },
        }
    }

    /// Who it is, as of its latest request.
    pub fn caller(&self) -> Arc<Caller> {
        self.caller.load_full()
    }

    /// The client, as it shows itself in a request. Most requests come with the
    /// same token as the one before.
    pub fn caller_now(&self, principal: &Arc<Principal>) -> Arc<Caller> {
        let before = self.caller.load_full();
        if Arc::ptr_eq(&before.principal, principal) || *before.principal == **principal {
            return before;
        }
        let caller = Arc::new(Caller { principal: principal.clone(), ..(*before).clone() });
        self.caller.store(caller.clone());
        caller
    }

    /// The client sets the level of its log messages (G-1).
    pub async fn set_level(&self, dispatch: &Dispatch, level: LogLevel) -> Result<(), Fault> {
        let mut memory = self.memory.lock().await;
        if let Some(session) = &mut memory.session {
            session.log_level = Some(level.as_str().to_owned());
            dispatch.remember_session(session).await?;
        }
        self.audience.set_level(level);
        Ok(())
    }

    /// Looks at what another host may have changed of its session. False if it is closed.
    pub async fn look_again(&self, dispatch: &Dispatch) -> Result<bool, Fault> {
        // Held, so that what is set here meanwhile is not taken for what was set before.
        let mut memory = self.memory.lock().await;
        let Some(session) = &memory.session else { return Ok(true) };
        let Some(session) = dispatch.session(&session.id).await? else { return Ok(false) };
        self.audience.set_level(level_of(&session));
        memory.subscriptions.clone_from(&session.subscriptions);
        memory.session = Some(session);
        Ok(true)
    }

    /// Adds or takes away a subscription; false if there are too many.
    pub async fn subscribe(
        &self,
        dispatch: &Dispatch,
        uri: String,
        wanted: bool,
        most: usize,
    ) -> Result<bool, Fault> {
        let mut memory = self.memory.lock().await;
        let mut subscriptions = memory.subscriptions.clone();
        let changed = if wanted { subscriptions.insert(uri) } else { subscriptions.remove(&uri) };
        if !changed {
            return Ok(true);
        }
        let bytes: usize = subscriptions.iter().map(String::len).sum();
        if subscriptions.len() > most || (wanted && bytes > MAX_SUBSCRIPTION_BYTES) {
            return Ok(false);
        }
        if let Some(session) = &mut memory.session {
            session.subscriptions = subscriptions.clone();
            dispatch.remember_session(session).await?;
        }
        memory.subscriptions = subscriptions;
        Ok(true)
    }
}

/// The level from which the client of a session wants log messages.
pub(crate) fn level_of(session: &Session) -> LogLevel {
    session.log_level.as_deref().and_then(LogLevel::parse).unwrap_or(LogLevel::DEFAULT)
}

/// Requests under way, by id (C-1).
struct Inflight {
    most: usize,
    by_id: Mutex<HashMap<Id, Arc<Stop>>>,
}

/// Why a request is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotTaken {
    /// Its id belongs to a request that is under way (J-2).
    IdInUse,
    /// Too many are under way.
    TooMany,
}

/// Keeps a request among those under way.
pub(crate) struct Taken {
    conversation: Arc<Conversation>,
    id: Id,
    /// Set when the client cancels the request.
    pub stop: Arc<Stop>,
}

impl Inflight {
    fn lock(&self) -> MutexGuard<'_, HashMap<Id, Arc<Stop>>> {
        self.by_id.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Conversation {
    /// Takes a request in.
    pub fn take(self: &Arc<Self>, id: &Id) -> Result<Taken, NotTaken> {
        let mut by_id = self.inflight.lock();
        if by_id.contains_key(id) {
            return Err(NotTaken::IdInUse);
        }
        if by_id.len() >= self.inflight.most {
            return Err(NotTaken::TooMany);
        }
        let stop = Arc::new(Stop::default());
        by_id.insert(id.clone(), stop.clone());
        drop(by_id);
        Ok(Taken { conversation: self.clone(), id: id.clone(), stop })
    }

    /// The client cancels a request. Unknown ids are ignored: the answer may have
    /// crossed the cancellation.
    pub fn cancel(&self, id: &Id) {
        let stop = self.inflight.lock().get(id).cloned();
        if let Some(stop) = stop {
            stop.set();
        }
    }

    /// Cancels every request under way.
    pub fn cancel_all(&self) {
        let all: Vec<_> = self.inflight.lock().values().cloned().collect();
        for stop in all {
            stop.set();
        }
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.conversation.inflight.lock().remove(&self.id);
    }
}
