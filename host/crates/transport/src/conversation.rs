//! The messages of a client with a session: its requests, batches, responses and notifications.

use crate::answer::{Answer, logged};
use crate::failure::Failure;
use crate::methods;
use crate::request::{Request, RequestMessage};
use crate::server::Server;
use crate::session::ClientSession;
use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, ready};
use std::sync::Arc;
use toolyard_dispatch::{Caller, ClientChannel, Dispatch, Fault, Notice, Operation, RateKey, StopCause};
use toolyard_protocol::notification::Cancellation;
use toolyard_protocol::{DecodeError, Id, Message, Method, RawJson, RpcError, notification, response};

/// The most messages in one batch. Only revision 2025-03-26 has batches, and its clients send a few messages
/// in each; every member counts as a request of its session.
const MAX_BATCH: usize = 100;

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
            return Err(RpcError::invalid_request("batches belong to 2025-03-26: send one message"));
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
            Method::Initialized => self.notification_filter.set_initialized(),
            // The task of a client may report its status, but the host polls it instead.
            _ => {}
        }
    }
}
