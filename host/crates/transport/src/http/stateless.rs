//! POST of a stateless request (26H): the order of the checks, and an answer that ends with its connection.
//!
//! Nothing is kept for a client that returns: hanging up cancels the request, unless the answer is about a
//! task that the client already knows (26H-13). There is no session, so running requests are bounded by the
//! number of connections, the principal's rate limits, and its slots.

use super::endpoint::Endpoint;
use super::reply::{self, Reply};
use super::{header_check, sse};
use crate::answer::{Answer, Status};
use crate::failure::Failure;
use crate::methods;
use crate::request::{Request, RequestMessage, Sender};
use crate::stateless::{RequestChannel, Subscription};
use crate::stream::{LogBounds, ReadStep, Stream, StreamReader};
use bytes::Bytes;
use futures_util::{FutureExt as _, Stream as FutureStream, stream};
use http::header::USER_AGENT;
use http::{HeaderMap, StatusCode};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use toolyard_dispatch::{Handover, Stop, StopCause};
use toolyard_protocol::method::Generation;
use toolyard_protocol::stateless::claim::{ClaimedParams, VersionClaim};
use toolyard_protocol::stateless::envelope::Envelope;
use toolyard_protocol::stateless::error::header_mismatch;
use toolyard_protocol::{Id, Method, RawJson, RpcError};

impl Endpoint {
    /// Answers a request that claims to be of this revision (26H-14).
    pub(super) async fn stateless(
        &self,
        headers: &HeaderMap,
        message: RequestMessage,
        claimed: ClaimedParams,
        by: &Sender,
    ) -> Reply {
        self.server.metrics.count_request(&message.method);
        let id = message.id.clone();
        let request = match self.checked(headers, message, claimed, by) {
            Ok(request) => request,
            Err(failure) => return self.refuse(failure, Generation::Stateless, Some(&id)),
        };
        if request.method == Method::SubscriptionsListen {
            return Box::pin(self.listen(request)).await;
        }
        let stop = Arc::new(Stop::default());
        let gone = match by.peer {
            Some(_) => StopCause::Disconnected,
            None => {
                self.relayed.add(headers, &id, &stop);
                StopCause::Detached
            }
        };
        self.call(request, stop, gone).await
    }

    /// All checks before a request is carried out, in this order.
    fn checked(
        &self,
        headers: &HeaderMap,
        message: RequestMessage,
        claimed: ClaimedParams,
        by: &Sender,
    ) -> Result<Box<Request>, Failure> {
        let server = &self.server;
        // No proxy that reads headers stands between this process and its user's relay.
        let is_mirrored = by.peer.is_some();
        if is_mirrored {
            header_check::check_version(headers, &claimed.claim).map_err(Failure::BadRequest)?;
        }
        let agent = headers.get(USER_AGENT).and_then(|agent| agent.to_str().ok());
        let request = Request::stateless(server, message, claimed, by, agent)?;
        if is_mirrored {
            header_check::check_method(headers, &request.method, || request.name())
                .map_err(Failure::BadRequest)?;
        }
        request.check_method()?;
        // The parser of the arguments reports those that it cannot parse.
        if let Some(Ok((call, _))) = &request.call
            && is_mirrored
        {
            let wanted =
                server.dispatch.catalog().param_headers(&request.caller, &call.name, request.has_tasks());
            header_check::check_params(headers, &wanted, &call.arguments).map_err(Failure::BadRequest)?;
        }
        request.count()?;
        Ok(request)
    }

    /// Refuses a request without an envelope whose headers require one (26B).
    pub(super) fn without_envelope(&self, id: &Id, method: &Method, params: Option<&RawJson>) -> Reply {
        self.server.metrics.count_request(method);
        let error = match Envelope::decode(params) {
            _ if *method == Method::Initialize => {
                header_mismatch("the header mcp-protocol-version names a version that has no initialize")
            }
            Err(error) => error,
            Ok(_) => RpcError::invalid_params("`_meta` names no version"),
        };
        self.refuse(Failure::BadRequest(error), Generation::Stateless, Some(id))
    }

    /// Accepts a notification. None has a meaning here, because hanging up cancels a request (26C-1, 26H-10).
    pub(super) fn stateless_notification(
        &self,
        headers: &HeaderMap,
        method: &Method,
        claim: &VersionClaim,
    ) -> Reply {
        match header_check::check_notification(headers, method, claim) {
            Ok(()) => reply::empty(StatusCode::ACCEPTED),
            Err(error) => reply::refuse(StatusCode::BAD_REQUEST, &error),
        }
    }

    /// Answers as one object if the request is quick and no message precedes the answer, else as a stream
    /// (26H-11).
    async fn call(&self, request: Box<Request>, stop: Arc<Stop>, gone: StopCause) -> Reply {
        let settings = &self.server.settings;
        // The stream has no name, because no client resumes it (26H-12).
        let stream = Stream::new(0, LogBounds::REPLAY);
        let channel = RequestChannel::new(request.log_level(), {
            let stream = stream.clone();
            move |message| stream.push(message)
        });
        let mut answering = Box::pin(methods::answer(request, channel, stop.clone()));
        let answer = match (&mut answering).now_or_never() {
            Some(Some(answer)) if stream.end_unwritten() => {
                return self.reply(answer);
            }
            answer => answer,
        };
        let (tell, told) = oneshot::channel();
        // From here on, dropping this future cancels the request.
        let leaving = AnswerGuard { stop, told, left: false, gone };
        match answer {
            Some(answer) => send(answer, tell, &stream),
            // Spawned, so that hanging up leaves nothing half done: the request sees the stop and cleans up
            // after itself.
            None => {
                let stream = stream.clone();
                self.requests.spawn(async move { send(answering.await, tell, &stream) });
            }
        }
        // The wait may time out: then the answer is a stream.
        drop(tokio::time::timeout(settings.stream_after, stream.wait_for_change()).await);
        match stream.sole_message() {
            Some(Some(message)) => self.reply(leaving.now(message)),
            _ => reply::events(events(stream.read_after(0), leaving, settings.keep_alive)),
        }
    }

    /// 26SUB-4: a stream that stays open until the client closes it.
    async fn listen(&self, request: Box<Request>) -> Reply {
        let keep_alive = self.server.settings.keep_alive;
        match Subscription::open(request, self.stopping.child_token()).await {
            Ok(subscription) => reply::events(subscription_events(subscription, keep_alive)),
            Err(answer) => self.reply(answer),
        }
    }
}

/// Sends the answer of a request to its stream.
fn send(answer: Option<Answer>, tell: oneshot::Sender<(Status, Option<Handover>)>, stream: &Stream) {
    let Some(Answer { message, status, handover, .. }) = answer else { return stream.end(None) };
    // Handed over before the message can be read. If the client is gone, this drops a task that was to be
    // handed out.
    drop(tell.send((status, handover)));
    stream.end(Some(message));
}

/// An answer that is being sent. If it is dropped before it is sent, it cancels the request (26H-13), and a
/// task that it was to hand out.
struct AnswerGuard {
    stop: Arc<Stop>,
    told: oneshot::Receiver<(Status, Option<Handover>)>,
    left: bool,
    /// The cause of a stop by the end of the connection.
    gone: StopCause,
}

impl AnswerGuard {
    /// The answer, to be sent as one object.
    fn now(mut self, message: Bytes) -> Answer {
        self.left = true;
        let (status, handover) = self.told.try_recv().unwrap_or((Status::Done, None));
        Answer { message, status, handover, held: None }
    }

    /// The last event was read.
    fn left(mut self) {
        self.left = true;
        if let Ok((_, Some(handover))) = self.told.try_recv() {
            handover.mark_delivered();
        }
    }
}

impl Drop for AnswerGuard {
    fn drop(&mut self) {
        if !self.left {
            self.stop.set_because(self.gone);
        }
    }
}

/// The messages of a request and its answer, as events. A client that falls behind the log is disconnected,
/// which cancels the request like any other disconnect.
fn events(
    reader: StreamReader,
    leaving: AnswerGuard,
    keep_alive: Duration,
) -> impl FutureStream<Item = Bytes> + Send {
    stream::unfold((reader, leaving), move |(mut reader, leaving)| async move {
        let event = match tokio::time::timeout(keep_alive, reader.next()).await {
            Ok(ReadStep::Message(_, message)) => sse::bare(message),
            Ok(ReadStep::Ended) => {
                leaving.left();
                return None;
            }
            // A stateless stream is never released.
            Ok(ReadStep::CutOff | ReadStep::Released(..)) => return None,
            Err(_) => sse::KEEP_ALIVE,
        };
        Some((event, (reader, leaving)))
    })
}

/// The messages of a subscription, as events.
fn subscription_events(
    subscription: Subscription,
    keep_alive: Duration,
) -> impl FutureStream<Item = Bytes> + Send {
    stream::unfold(subscription, move |mut subscription| async move {
        let event = match tokio::time::timeout(keep_alive, subscription.next()).await {
            Ok(message) => sse::bare(message?),
            Err(_) => sse::KEEP_ALIVE,
        };
        Some((event, subscription))
    })
}
