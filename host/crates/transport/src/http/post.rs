//! POST: one message, or a batch if the revision has batches (H-9 to H-18). This module determines the
//! generation, from the body first (26B).

use super::client_channels::StreamChannel;
use super::endpoint::{Endpoint, broken, check_accept, check_version};
use super::get::event_format;
use super::large_messages::LARGE_BYTES;
use super::reply::{self, RefusalReply, Reply, SESSION_ID};
use super::session_registry::{LiveSession, StreamPurpose};
use super::sse::RECONNECT;
use super::{body, header_check, is_json, sse};
use crate::answer::{Answer, Status};
use crate::request::{AnswerForm, Request, RequestMessage, Sender};
use crate::stateless::{batched, claim_of, is_among};
use crate::stream::Stream;
use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, join_all};
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderValue};
use http::{HeaderMap, StatusCode};
use hyper::body::Incoming as HttpBody;
use std::sync::Arc;
use std::time::Duration;
use toolyard_dispatch::{ClientChannel, NewSession, NoClientChannel, Operation, StopCause};
use toolyard_protocol::initialize::InitializeParams;
use toolyard_protocol::message::decode;
use toolyard_protocol::method::Generation;
use toolyard_protocol::revision::Transport;
use toolyard_protocol::stateless::claim::{self, VersionClaim};
use toolyard_protocol::{
    DecodeError, Id, Incoming, Message, Method, RawJson, Revision, TraceContext, response, tasks,
};

/// How long after the announced retry a client may still return to the stream of a request that only reads.
const ABANDONED: Duration = Duration::from_secs(5);
/// A wait for the result of a task ends if no client has read its stream for this long.
const RESULT_ABANDONED: Duration = Duration::from_secs(60);
/// How long a relay may be away. It returns at once to a stream that the host has released. A call that ends
/// within this time is not kept for the next client.
const RELAY_GONE: Duration = Duration::from_millis(200);
/// The most headers that one `tracestate` may span.
const MAX_TRACE_STATES: usize = 8;

impl Endpoint {
    pub(super) async fn post(
        self: &Arc<Self>,
        headers: HeaderMap,
        body: HttpBody,
        caller: &Sender,
    ) -> Result<Reply, RefusalReply> {
        check_kind(&headers)?;
        let body = body::read(&headers, body, &self.server, || caller.key.clone()).await;
        match body.map_err(|why| reply::bad_body(why, self.server.settings.message_bytes).into()) {
            Ok(body) if body.len() > LARGE_BYTES => {
                let (this, sender) = (self.clone(), caller.clone());
                let work = async move { this.dispatch_message(headers, Ok(body), &sender).await };
                self.large.begin(&caller.key, work.boxed()).await
            }
            body => self.dispatch_message(headers, body, caller).await,
        }
    }

    /// Answers a received message, or the error that came instead of one.
    async fn dispatch_message(
        &self,
        headers: HeaderMap,
        body: Result<Bytes, RefusalReply>,
        caller: &Sender,
    ) -> Result<Reply, RefusalReply> {
        // A wrong version header matters only to sessions, and the body shows whether the request belongs to
        // one (26B).
        let version_ok = || check_version(&headers);
        let stateless = header_check::names_stateless(&headers);
        let message = body.and_then(|body| decode(&body).map_err(|fault| malformed(&fault).into()));
        let message = match message {
            Ok(message) => message,
            // If the body cannot be parsed, the header decides.
            Err(refused) => {
                return Err(if stateless { refused } else { version_ok().err().unwrap_or(refused) });
            }
        };
        let trace = trace_of(&headers);
        self.server.loaded_for(&message).await;
        match message {
            Incoming::One(Message::Request { id, method, params }) => {
                let claimed = claim_of(&method, params.as_ref());
                match claimed.claim {
                    VersionClaim::None if stateless => {
                        Ok(self.without_envelope(&id, &method, params.as_ref()))
                    }
                    VersionClaim::None => {
                        version_ok()?;
                        self.of_session(&headers, caller, RequestMessage { id, method, params, trace }).await
                    }
                    VersionClaim::Version(_) | VersionClaim::Malformed => {
                        let message = RequestMessage { id, method, params, trace };
                        Ok(self.stateless(&headers, message, claimed, caller).await)
                    }
                }
            }
            Incoming::One(Message::Notification { method, params }) => match claim::claim(params.as_ref()) {
                VersionClaim::None if !stateless => {
                    version_ok()?;
                    let session = self.session(&headers, caller).await?;
                    session.client.take_notification(&method, params.as_ref());
                    Ok(reply::empty(StatusCode::ACCEPTED))
                }
                claim => {
                    if caller.peer.is_none() && method == Method::Cancelled {
                        self.relayed.cancel(&headers, params.as_ref());
                    }
                    Ok(self.stateless_notification(&headers, &method, &claim))
                }
            },
            Incoming::One(Message::Response { id, outcome }) => {
                version_ok()?;
                let session = self.session(&headers, caller).await?;
                // Accepted only after it is stored.
                let session_caller = session.client.caller_now(&caller.principal);
                let kept = session.client.take_response(&self.server.dispatch, &session_caller, id, outcome);
                Box::pin(kept).await.map_err(|fault| broken(&fault))?;
                Ok(reply::empty(StatusCode::ACCEPTED))
            }
            Incoming::Batch(members) if is_among(&members) || headers.get(SESSION_ID).is_none() => {
                Err(reply::refuse(StatusCode::BAD_REQUEST, &batched()).into())
            }
            Incoming::Batch(members) => {
                version_ok()?;
                let session = self.session(&headers, caller).await?;
                Box::pin(self.batch(session, caller, members)).await
            }
        }
    }

    /// A request of a session, or one that opens a session.
    async fn of_session(
        &self,
        headers: &HeaderMap,
        caller: &Sender,
        message: RequestMessage,
    ) -> Result<Reply, RefusalReply> {
        if message.method == Method::Initialize {
            return Ok(Box::pin(self.initialize(&message.id, message.params.as_ref(), caller)).await);
        }
        let session = self.session(headers, caller).await?;
        let session_caller = session.client.caller_now(&caller.principal);
        let request =
            Request::of_session(&self.server, message, &session.client, session_caller, caller.key.clone());
        Ok(self.request(session, request, caller.peer.is_none()).await)
    }

    /// Opens a session (L-1 to L-3, H-22).
    async fn initialize(&self, id: &Id, params: Option<&RawJson>, caller: &Sender) -> Reply {
        self.server.metrics.count_request(&Method::Initialize);
        let params = match InitializeParams::decode(params) {
            Ok(params) => params,
            Err(error) => return reply::json(response::error(Some(id), &error)),
        };
        if let Err(failure) = self.server.count(&caller.key, Operation::Session) {
            return self.refuse(failure, Generation::Sessions, Some(id));
        }
        let revision = Revision::negotiate(&params.protocol_version, Transport::Http);
        let client = format!("{} {}", params.client_info.name, params.client_info.version);
        let new = NewSession {
            principal: caller.principal.clone(),
            revision,
            capabilities: params.capabilities,
            client,
        };
        let session = match self.server.dispatch.open_session(new).await {
            Ok(session) => session,
            Err(fault) => return reply::json(response::error(Some(id), &fault.rpc())),
        };
        self.server.metrics.opened.inc();
        // Not the session's id: it is the only credential of an anonymous client.
        tracing::debug!(
            client = session.client, %revision, principal = ?caller.principal.to_string(),
            "session opened"
        );
        let live = self.registry.hold(session.clone(), &caller.principal, false);
        let declared = live.client.declared;
        let result = self.server.identity.initialize_result(revision, declared);
        let mut reply = reply::json(response::result(id, &result));
        let named = HeaderValue::from_str(&session.id.0).expect("a session id is hexadecimal digits");
        reply.headers_mut().insert(SESSION_ID, named);
        reply
    }

    /// Answers a request: as one object if it is quick, else as a stream. Once begun, the request runs to its
    /// end even if the connection breaks (H-16), so that nothing is left half done.
    async fn request(&self, session: Arc<LiveSession>, request: Box<Request>, is_relayed: bool) -> Reply {
        let how = request.answer_form();
        let purpose = match how {
            AnswerForm::Stream => {
                tasks::task_id(request.params.as_ref()).map_or(StreamPurpose::Answer, StreamPurpose::Result)
            }
            _ => StreamPurpose::Answer,
        };
        let stream = self.registry.stream();
        // A request that only reads is useless if its client has left and does not return. A relay that has
        // left has ended with its client.
        let patience = match is_relayed {
            true => Some((RELAY_GONE, StopCause::Detached)),
            false if request.only_reads() => Some((RECONNECT + ABANDONED, StopCause::Disconnected)),
            // The task goes on.
            false => {
                (request.method == Method::TasksResult).then_some((RESULT_ABANDONED, StopCause::Disconnected))
            }
        };
        let abandoned = patience.map(|patience| (session.client.clone(), request.id.clone(), patience));
        // Until the answer begins, the wait for it counts as reading.
        let _waiting = is_relayed.then(|| stream.read_after(0));
        let channel = StreamChannel::new(&stream, &session.client);
        let mut answering = match session.client.answer(request, channel) {
            Ok(answering) => answering,
            Err(answer) => return self.reply(answer),
        };
        let mut events = None;
        if how != AnswerForm::Stream {
            match (&mut answering).now_or_never() {
                Some(Some(answer)) if stream.end_unwritten() => {
                    return self.reply(answer);
                }
                Some(answer) => stream.end_with(answer),
                None => {}
            }
        } else {
            // The stream is kept and has a reader before the wait begins, so that messages of the task find
            // it from the start.
            session.keep(&stream, purpose.clone());
            events = Some(sse::events(&stream, 0, event_format(&self.server, &session)));
        }
        if stream.ended().is_none() {
            if let Some((client, id, (gone_for, cause))) = abandoned {
                let stream = stream.clone();
                let cancel = move || client.inflight.cancel(&id, cause);
                // In a box, so that it does not enlarge the future that is spawned for a call.
                answering = while_read(answering, stream, gone_for, cancel).boxed();
            }
            let stream = stream.clone();
            self.requests.spawn(async move { stream.end_with(answering.await) });
        }
        if let Some(events) = events {
            return reply::events(events);
        }
        if how == AnswerForm::Plain {
            stream.wait_for_change().await;
        } else {
            // The wait may time out: then the answer is a stream.
            drop(tokio::time::timeout(self.server.settings.stream_after, stream.wait_for_change()).await);
        }
        if let Some(Some(message)) = stream.sole_message() {
            let handover = stream.take_handover();
            let answer = Answer { message, status: Status::Done, handover, held: None };
            return self.reply(answer);
        }
        session.keep(&stream, purpose);
        reply::events(sse::events(&stream, 0, event_format(&self.server, &session)))
    }

    /// J-6: only if the revision has batches. All answers are sent together.
    async fn batch(
        &self,
        session: Arc<LiveSession>,
        caller: &Sender,
        members: Vec<Result<Message, DecodeError>>,
    ) -> Result<Reply, RefusalReply> {
        let channel: Arc<dyn ClientChannel> = Arc::new(NoClientChannel);
        let session_caller = session.client.caller_now(&caller.principal);
        let answering = session
            .client
            .batch(&self.server, &session_caller, &caller.key, members, &channel)
            .map_err(|error| reply::refuse(StatusCode::BAD_REQUEST, &error))?;
        if answering.is_empty() {
            return Ok(reply::empty(StatusCode::ACCEPTED));
        }
        let answers = self.requests.spawn(join_all(answering)).await.unwrap_or_default();
        let answers: Vec<Bytes> = answers.into_iter().flatten().collect();
        Ok(if answers.is_empty() {
            reply::empty(StatusCode::ACCEPTED)
        } else {
            reply::json(response::batch(&answers))
        })
    }
}

/// Awaits the answer, and cancels the request once its stream has had no reader for `gone_for`.
async fn while_read(
    mut answering: BoxFuture<'static, Option<Answer>>,
    stream: Arc<Stream>,
    gone_for: Duration,
    cancel: impl FnOnce() -> bool,
) -> Option<Answer> {
    loop {
        let unread = stream.unread_for().unwrap_or_default();
        if unread >= gone_for {
            cancel();
            return answering.await;
        }
        tokio::select! {
            biased;
            answer = &mut answering => return answer,
            () = tokio::time::sleep(gone_for - unread) => {}
        }
    }
}

/// H-6, H-7: the required media types of the body and the answer.
fn check_kind(headers: &HeaderMap) -> Result<(), RefusalReply> {
    check_accept(headers, &[("application", "json"), ("text", "event-stream")])?;
    let is_json = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).is_some_and(is_json);
    // A compressed body would have to be counted twice.
    let is_plain = headers.get(CONTENT_ENCODING).is_none_or(|value| value == "identity");
    if is_json && is_plain {
        return Ok(());
    }
    let message = "Unsupported media type: the body must be application/json, not compressed";
    Err(reply::invalid(StatusCode::UNSUPPORTED_MEDIA_TYPE, message).into())
}

/// The trace that the headers name. A `tracestate` may span several headers.
fn trace_of(headers: &HeaderMap) -> Option<TraceContext> {
    let text = |name| headers.get_all(name).iter().map(|value| value.to_str().ok());
    let mut parents = text("traceparent");
    // Two headers do not name a single trace.
    let (Some(parent), None) = (parents.next()?, parents.next()) else { return None };
    let states: Option<Vec<&str>> = text("tracestate").take(MAX_TRACE_STATES).collect();
    let state = states.filter(|states| !states.is_empty()).map(|states| states.join(","));
    TraceContext::parse(parent, state.as_deref())
}

/// H-7: what is not JSON-RPC is an error of HTTP as well.
fn malformed(fault: &DecodeError) -> Reply {
    let mut refusal = reply::json(response::error(fault.id.as_ref(), &fault.error));
    *refusal.status_mut() = StatusCode::BAD_REQUEST;
    refusal
}
