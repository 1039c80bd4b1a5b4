//! Stateless requests over stdio (26S), with or without a session on the same pipe; the two do not affect
//! each other (26B-1, 26B-5).

use super::line_framing::{Outbox, Outgoing};
use crate::answer::Answer;
use crate::failure::Failure;
use crate::inflight::{Inflight, InflightRequest};
use crate::methods;
use crate::request::{Request, RequestMessage, Sender};
use crate::server::Server;
use crate::stateless::{RequestChannel, Subscription};
use bytes::Bytes;
use futures_util::FutureExt as _;
use std::sync::Arc;
use tokio::sync::oneshot;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;
use toolyard_dispatch::{Principal, RateKey};
use toolyard_protocol::Method;
use toolyard_protocol::method::Generation;
use toolyard_protocol::stateless::claim::ClaimedParams;

/// The stateless requests of one pipe.
pub(super) struct Stateless {
    server: Arc<Server>,
    sender: Sender,
    outbox: Outbox,
    /// The requests and subscriptions that may be cancelled.
    pub inflight: Arc<Inflight>,
    requests: TaskTracker,
    /// Ends the subscriptions.
    pub end: CancellationToken,
    /// Also ends them when the pipe is no longer served.
    _end_on_drop: DropGuard,
}

impl Stateless {
    /// The running requests and subscriptions are among `requests`.
    pub fn new(server: &Arc<Server>, outbox: Outbox, requests: &TaskTracker) -> Self {
        let principal = Arc::new(Principal::Local);
        let end = CancellationToken::new();
        Self {
            server: server.clone(),
            sender: Sender { principal, peer: None, key: RateKey::Local },
            outbox,
            inflight: Inflight::new(server.settings.requests_per_session, "on this pipe"),
            requests: requests.clone(),
            _end_on_drop: end.clone().drop_guard(),
            end,
        }
    }

    /// Handles a request. Returns an answer that is ready at once; any other answer is sent when it
    /// is ready.
    pub fn take(&self, message: RequestMessage, claimed: ClaimedParams) -> Option<Bytes> {
        let server = &self.server;
        server.metrics.count_request(&message.method);
        let id = message.id.clone();
        let (request, kept) = match self.checked(message, claimed) {
            Ok(both) => both,
            Err(failure) => {
                return Some(failure.answer(server, Generation::Stateless, Some(&id)).message);
            }
        };
        if request.method == Method::SubscriptionsListen {
            let subscribed = subscribe(request, self.end.child_token(), self.outbox.clone(), kept);
            self.requests.spawn(subscribed);
            return None;
        }
        if let Err(failure) = request.count() {
            return Some(request.refuse(failure).message);
        }
        let channel = RequestChannel::new(request.log_level(), {
            let (outbox, stop) = (self.outbox.clone(), kept.stop.clone());
            // A client that does not read loses notices, but gets every answer. After a cancellation it gets
            // nothing more (26S-2).
            move |message| {
                if !stop.is_set() {
                    drop(outbox.try_send(Outgoing::line(message)));
                }
            }
        });
        let mut answering = Box::pin(methods::answer(request, channel.clone(), kept.stop.clone()));
        let answer = match (&mut answering).now_or_never() {
            Some(Some(Answer { message, handover: None, .. })) => return Some(message),
            Some(answer) => Some(answer),
            None => None,
        };
        let outbox = self.outbox.clone();
        self.requests.spawn(async move {
            let answer = match answer {
                Some(answer) => answer,
                None => answering.await,
            };
            channel.close();
            deliver(&outbox, answer, kept).await;
        });
        None
    }

    fn checked(
        &self,
        message: RequestMessage,
        claimed: ClaimedParams,
    ) -> Result<(Box<Request>, InflightRequest), Failure> {
        let request = Request::stateless(&self.server, message, claimed, &self.sender, None)?;
        request.check_method()?;
        let kept = self.inflight.add(&request.id)?;
        Ok((request, kept))
    }
}

/// Sends an answer, unless its request was cancelled (26S-2). If the line with a new task cannot be written,
/// the task is cancelled.
async fn deliver(outbox: &Outbox, answer: Option<Answer>, kept: InflightRequest) {
    let Some(Answer { message, handover, .. }) = answer else { return };
    let (tell, told) = oneshot::channel();
    let Some(place) = place(outbox, &kept).await else { return };
    place.send(Outgoing { line: Outgoing::line(message).line, written: Some(tell) });
    // The id may be used again as soon as the answer can be read.
    drop(kept);
    if let Some(handover) = handover
        && told.await.is_ok()
    {
        handover.mark_delivered();
    }
}

/// A place for one line; `None` if the request is cancelled first, or the writer is gone.
async fn place<'a>(
    outbox: &'a Outbox,
    kept: &InflightRequest,
) -> Option<tokio::sync::mpsc::Permit<'a, Outgoing>> {
    tokio::select! {
        biased;
        () = kept.stop.wait() => None,
        place = outbox.reserve() => place.ok(),
    }
}

/// Serves a subscription, until its client cancels it or the server ends (26SUB-4).
async fn subscribe(request: Box<Request>, ending: CancellationToken, outbox: Outbox, kept: InflightRequest) {
    let mut subscription = match Subscription::open(request, ending).await {
        Ok(subscription) => subscription,
        Err(answer) => return deliver(&outbox, Some(answer), kept).await,
    };
    loop {
        let message = tokio::select! {
            biased;
            () = kept.stop.wait() => return,
            message = subscription.next() => message,
        };
        let Some(message) = message else { return };
        let Some(place) = place(&outbox, &kept).await else { return };
        place.send(Outgoing::line(message));
    }
}
