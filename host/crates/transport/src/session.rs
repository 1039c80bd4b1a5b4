//! A client that has initialized, over either transport: the state of its session and the
//! handling of its messages.

use crate::Server;
use crate::answer::{Answer, Failure, logged};
use crate::inflight::Inflight;
use crate::methods;
use crate::notifications::Audience;
use crate::request::{Request, RequestMessage};
use arc_swap::ArcSwap;
use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, ready};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use toolyard_dispatch::{
    BridgeTerms, Caller, ClientChannel, Dispatch, Fault, Notice, Offers, Operation, Principal, RateKey,
    Session, StopCause,
};
use toolyard_protocol::notification::Cancellation;
use toolyard_protocol::{
    DecodeError, Id, LogLevel, Message, Method, RawJson, Revision, RpcError, notification, response,
};

/// One client.
pub(crate) struct ClientSession {
    /// The caller of its latest request. The scopes of its token may change from one
    /// request to the next.
    caller: ArcSwap<Caller>,
    /// The negotiated revision.
    pub revision: Revision,
    /// The offers that `initialize` declared to it, besides tools (L-6).
    pub declared: Offers,
    /// The notifications that it wants.
    pub audience: Arc<Audience>,
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

/// The most messages in one batch. Only revision 2025-03-26 has batches, and its clients send a few messages
/// in each; every member counts as a request of its session.
const MAX_BATCH: usize = 100;
/// The most bytes of all subscribed URIs of one client: its session keeps them in memory and in the store.
const MAX_SUBSCRIPTION_BYTES: usize = 256 << 10;

/// The terms that `initialize` agreed on, now or in a session from the store.
pub(crate) struct SessionTerms {
    pub revision: Revision,
    pub declared: Offers,
    pub audience: Arc<Audience>,
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
        let SessionTerms { revision, declared, audience, memory, client } = agreed;
        let bridge = server.dispatch.settings().bridge.as_ref().filter(|_| server.dispatch.settings().tasks);
        let remembered = memory.session.as_ref().is_some_and(|session| session.task_aware);
        let task_aware = server.dispatch.knows_tasks(&client, &caller.capabilities, remembered);
        Self {
            bridge: bridge.map(|bridge| bridge.terms(Some(&client))),
            task_aware: AtomicBool::new(task_aware),
            caller: ArcSwap::from_pointee(caller),
            revision,
            declared,
            audience,
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
        self.audience.set_level(level);
        Ok(())
    }

    /// Reads changes that another host made to the session. False if the session is closed.
    pub async fn look_again(&self, dispatch: &Dispatch) -> Result<bool, Fault> {
        // Held, so that what is set here meanwhile is not taken for what was set before.
        let mut memory = self.memory.lock().await;
        let Some(session) = &memory.session else { return Ok(true) };
        let Some(session) = dispatch.session(&session.id).await? else { return Ok(false) };
        self.audience.set_level(level_of(&session));
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

impl ClientSession {
    /// The answer to a request of the client. There is none if the client cancels the request (C-1).
    ///
    /// # Errors
    /// The answer to a request that exceeds a rate limit.
    pub fn answer(
        &self,
        request: Box<Request>,
        channel: Arc<dyn ClientChannel>,
    ) -> Result<BoxFuture<'static, Option<Answer>>, Answer> {
        request.server.metrics.count_request(&request.method);
        if let Err(failure) = request.count() {
            return Err(request.refuse(failure));
        }
        let inflight = self.inflight.clone();
        Ok(async move {
            let kept = match inflight.add(&request.id) {
                Ok(kept) => kept,
                Err(failure) => return Some(request.refuse(failure)),
            };
            if let Err(failure) = request.check_method() {
                return Some(request.refuse(failure));
            }
            let stop = kept.stop.clone();
            if request.is_of_tasks() {
                let mut waits = request.server.shares.waiting.none(request.key.clone());
                if request.method == Method::TasksResult
                    && let Err(no_room) = waits.grow_to(1)
                {
                    return Some(request.refuse(Failure::Fault(no_room.fault())));
                }
                // C-4: a cancelled wait ends; the task continues.
                return tokio::select! {
                    biased;
                    () = kept.stop.wait() => None,
                    answer = Box::pin(methods::answer(request, channel, stop)) => answer,
                };
            }
            methods::answer(request, channel, stop).await
        }
        .boxed())
    }

    /// The answers to a batch; await them together (J-6).
    ///
    /// # Errors
    /// `-32600` if the revision has no batches, or this one is too long.
    pub fn batch(
        self: &Arc<Self>,
        server: &Arc<Server>,
        caller: &Arc<Caller>,
        key: &RateKey,
        members: Vec<Result<Message, DecodeError>>,
        channel: &Arc<dyn ClientChannel>,
    ) -> Result<Vec<BoxFuture<'static, Option<Bytes>>>, RpcError> {
        if !self.revision.has_batches() {
            return Err(RpcError::invalid_request(
                "batches are not part of this protocol revision: send one message",
            ));
        }
        if members.len() > MAX_BATCH {
            let error = format!("a batch has at most {MAX_BATCH} messages");
            return Err(RpcError::invalid_request(error));
        }
        let answered = |message: Bytes| ready(Some(message)).boxed();
        let mut answering = Vec::new();
        for member in members {
            match member {
                Ok(Message::Request { id, method: Method::Initialize, .. }) => {
                    let error = RpcError::invalid_request("initialize cannot be part of a batch");
                    answering.push(answered(response::error(Some(&id), &error)));
                }
                Ok(Message::Request { id, method, params }) => {
                    let message = RequestMessage { id, method, params, trace: None };
                    let request = Request::of_session(server, message, self, caller.clone(), key.clone());
                    let counted = request.count_as(Operation::Request).map_err(|why| request.refuse(why));
                    answering.push(match counted.and_then(|()| self.answer(request, channel.clone())) {
                        Ok(answer) => answer.map(|answer| answer.map(|answer| answer.message)).boxed(),
                        Err(answer) => answered(answer.message),
                    });
                }
                Ok(Message::Notification { method, params }) => {
                    self.take_notification(&method, params.as_ref())
                }
                Ok(Message::Response { id, outcome }) => {
                    let (client, server, caller) = (self.clone(), server.clone(), caller.clone());
                    let kept = async move {
                        // A batch cannot report that a response was not stored.
                        if let Err(fault) = client.take_response(&server.dispatch, &caller, id, outcome).await
                        {
                            logged(&fault);
                        }
                        None
                    };
                    answering.push(kept.boxed());
                }
                Err(fault) => answering.push(answered(response::error(fault.id.as_ref(), &fault.error))),
            }
        }
        Ok(answering)
    }

    /// Handles the client's response to a request of the host (IR-6).
    ///
    /// # Errors
    /// [`Fault::Store`].
    pub async fn take_response(
        &self,
        dispatch: &Dispatch,
        caller: &Caller,
        id: Id,
        outcome: Result<RawJson, RpcError>,
    ) -> Result<(), Fault> {
        // The ids of the host's requests are strings.
        let Id::Text(id) = id else { return Ok(()) };
        let took_forms = caller.takes_forms();
        dispatch.take_response(caller, &id, outcome).await?;
        if took_forms && !caller.takes_forms() {
            // From now on a tool of the host takes the answers.
            self.task_channel.notify(None, Notice::ToolsChanged);
        }
        Ok(())
    }

    /// Handles a notification. An unknown one is ignored.
    pub fn take_notification(&self, method: &Method, params: Option<&RawJson>) {
        match method {
            Method::Cancelled => {
                if let Some(Cancellation { request, reason }) = notification::cancellation(params) {
                    self.inflight.cancel(&request, StopCause::of_cancellation(reason.as_deref()));
                }
            }
            Method::Initialized => self.audience.set_initialized(),
            // The task of a client may report its status, but the host polls it instead.
            _ => {}
        }
    }
}
