//! A client that has initialized, over either transport: the state of its session.

use crate::inflight::Inflight;
use crate::notifications::NotificationFilter;
use crate::server::Server;
use arc_swap::ArcSwap;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use toolyard_dispatch::{BridgeTerms, Caller, ClientChannel, Dispatch, Fault, Offers, Principal, Session};
use toolyard_protocol::{LogLevel, Revision};

/// The session of a client.
pub(crate) struct ClientSession {
    /// The caller of its latest request. The scopes of its token may change from one
    /// request to the next.
    caller: ArcSwap<Caller>,
    /// The negotiated revision.
    pub revision: Revision,
    /// The offers that `initialize` declared to it, besides tools (L-6).
    pub declared: Offers,
    /// The notifications that it wants.
    pub notification_filter: Arc<NotificationFilter>,
    /// The part that is stored. Locked while it is written, so that the last change is also the last write.
    pub memory: tokio::sync::Mutex<DurableState>,
    /// Receives notifications about its tasks.
    pub task_channel: Arc<dyn ClientChannel>,
    /// The running requests that may be cancelled.
    pub inflight: Arc<Inflight>,
    /// How its long calls are handed off until it shows that it knows tasks.
    bridge: Option<BridgeTerms>,
    task_aware: AtomicBool,
}

/// The most bytes of all subscribed URIs of one client: its session keeps them in memory and in the store.
const MAX_SUBSCRIPTION_BYTES: usize = 256 << 10;

/// The terms that `initialize` agreed on, now or in a session from the store.
pub(crate) struct SessionTerms {
    pub revision: Revision,
    pub declared: Offers,
    pub notification_filter: Arc<NotificationFilter>,
    pub memory: DurableState,
    /// The name of the client.
    pub client: String,
}

/// The part of a session that outlives a restart.
#[derive(Default)]
pub(crate) struct DurableState {
    /// The stored session, if there is one.
    pub session: Option<Session>,
    /// The resources that it is subscribed to.
    pub subscriptions: BTreeSet<String>,
}

impl ClientSession {
    /// A client that has just initialized, or has returned.
    pub fn new(
        server: &Server,
        caller: Caller,
        agreed: SessionTerms,
        task_channel: Arc<dyn ClientChannel>,
    ) -> Self {
        let most = server.settings.requests_per_session;
        let SessionTerms { revision, declared, notification_filter, memory, client } = agreed;
        let bridge = server.dispatch.settings().bridge.as_ref().filter(|_| server.dispatch.settings().tasks);
        let remembered = memory.session.as_ref().is_some_and(|session| session.task_aware);
        let task_aware = server.dispatch.knows_tasks(&client, &caller.capabilities, remembered);
        Self {
            bridge: bridge.map(|bridge| bridge.terms(Some(&client))),
            task_aware: AtomicBool::new(task_aware),
            caller: ArcSwap::from_pointee(caller),
            revision,
            declared,
            notification_filter,
            memory: tokio::sync::Mutex::new(memory),
            task_channel,
            inflight: Inflight::new(most, "of this session"),
        }
    }

    /// The caller of its latest request.
    pub fn caller(&self) -> Arc<Caller> {
        self.caller.load_full()
    }

    /// How its long calls are handed off; `None` if it knows tasks, or nothing is handed off.
    pub fn bridge(&self) -> Option<BridgeTerms> {
        self.bridge.filter(|_| !self.task_aware.load(Ordering::Relaxed))
    }

    /// Records in the session that its client has shown that it knows tasks.
    pub async fn mark_task_aware(&self, dispatch: &Dispatch) -> Result<(), Fault> {
        if self.bridge.is_none() || self.task_aware.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        let mut memory = self.memory.lock().await;
        if let Some(session) = &mut memory.session {
            session.task_aware = true;
            dispatch.remember_session(session).await?;
        }
        Ok(())
    }

    /// The caller for a request of the client. Most requests have the same token as the previous one.
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
        self.notification_filter.set_level(level);
        Ok(())
    }

    /// Reads changes that another host made to the session. False if the session is closed.
    pub async fn look_again(&self, dispatch: &Dispatch) -> Result<bool, Fault> {
        // Held, so that what is set here meanwhile is not taken for what was set before.
        let mut memory = self.memory.lock().await;
        let Some(session) = &memory.session else { return Ok(true) };
        let Some(session) = dispatch.session(&session.id).await? else { return Ok(false) };
        self.notification_filter.set_level(level_of(&session));
        self.task_aware.fetch_or(session.task_aware, Ordering::Relaxed);
        memory.subscriptions.clone_from(&session.subscriptions);
        memory.session = Some(session);
        Ok(true)
    }

    /// Adds or removes a subscription; false if there are too many.
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
