//! The methods of MCP, each a call of the dispatcher. Those of resources, prompts
//! and completion are in [`offered`].

mod offered;

use crate::Server;
use crate::conversation::{Conversation, NotTaken};
use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use std::sync::Arc;
use toolyard_dispatch::{
    CallReply, Caller, Fault, ListFor, Operation, Outlet, RateKey, Stop, Terms, ToolCall,
};
use toolyard_protocol::method::{Capability, Generation};
use toolyard_protocol::tools::CallParams;
use toolyard_protocol::{
    DecodeError, Id, LogLevel, Message, Method, RawJson, RpcError, TraceContext, notification, page,
    response, tasks,
};

/// A request of a client that has initialized.
pub(crate) struct Request {
    /// Who makes it, in which session.
    pub caller: Arc<Caller>,
    /// Whose operations it is counted with.
    pub key: RateKey,
    pub id: Id,
    pub method: Method,
    pub params: Option<RawJson>,
    /// The trace that the transport was told of; what the params say comes first.
    pub trace: Option<TraceContext>,
}

/// How an answer may leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manner {
    /// At once, as one object.
    Plain,
    /// It may take long and be preceded by notices.
    MayStream,
    /// As a stream, always (H-18).
    Stream,
}

/// How the answer to a method leaves.
pub(crate) fn manner(method: &Method) -> Manner {
    match method {
        Method::ToolsCall => Manner::MayStream,
        Method::TasksResult => Manner::Stream,
        method if only_reads(method) => Manner::MayStream,
        _ => Manner::Plain,
    }
}

/// Whether a plugin runs for a request of this method and changes nothing, so that the run
/// ends with its client.
pub(crate) const fn only_reads(method: &Method) -> bool {
    matches!(
        method,
        Method::ResourcesList
            | Method::ResourcesTemplatesList
            | Method::ResourcesRead
            | Method::PromptsGet
            | Method::CompletionComplete
    )
}

/// What becomes of a request.
#[derive(Debug)]
pub(crate) enum Answer {
    /// It is answered, with a result or an error.
    Message(Bytes),
    /// It was turned away before anything was done. HTTP has a status for it.
    Refused(Box<Refusal>),
    /// Its sender cancelled it: nothing is sent (C-1).
    Silence,
}

/// A request that was turned away.
#[derive(Debug)]
pub(crate) struct Refusal {
    /// Why.
    pub fault: Fault,
    /// The same as a JSON-RPC error.
    pub message: Bytes,
}

impl Refusal {
    pub fn of(id: &Id, fault: Fault) -> Self {
        Self { message: response::error(Some(id), &fault.rpc()), fault }
    }

    /// One of a request that was not read.
    pub fn without_id(fault: Fault) -> Self {
        Self { message: response::error(None, &fault.rpc()), fault }
    }
}

impl Answer {
    /// The message that goes out, whatever the transport makes of it.
    pub fn message(self) -> Option<Bytes> {
        match self {
            Self::Message(message) => Some(message),
            Self::Refused(refusal) => Some(refusal.message),
            Self::Silence => None,
        }
    }
}

/// The answer to a request, unless it comes too often (T-42).
pub(crate) fn answer(
    server: Arc<Server>,
    conversation: Arc<Conversation>,
    request: Request,
    outlet: Arc<dyn Outlet>,
) -> Result<BoxFuture<'static, Answer>, Box<Refusal>> {
    server.metrics.asked(&request.method);
    match operation(&request.method).map_or(Ok(()), |kind| server.dispatch.pace(&request.key, kind)) {
        Ok(()) => Ok(answer_now(server, conversation, request, outlet).boxed()),
        Err(fault) => {
            server.metrics.faulted(&fault);
            Err(Box::new(Refusal::of(&request.id, fault)))
        }
    }
}

/// What a method counts as. A call counts as what it asks for, once that is known.
pub(crate) fn operation(method: &Method) -> Option<Operation> {
    match method.capability() {
        _ if only_reads(method) => Some(Operation::Call),
        Some(Capability::Tasks) => Some(Operation::Polling),
        _ => None,
    }
}

async fn answer_now(
    server: Arc<Server>,
    conversation: Arc<Conversation>,
    request: Request,
    outlet: Arc<dyn Outlet>,
) -> Answer {
    let taken = match conversation.take(&request.id) {
        Ok(taken) => taken,
        Err(why) => {
            return Answer::Message(response::error(Some(&request.id), &not_taken(why, &server)));
        }
    };
    let Request { caller, key, id, method, params, trace } = request;
    let params = params.as_ref();
    let stop = taken.stop.clone();
    let (of, within) = (server.clone(), conversation.clone());
    let asked = Asked { server: of, conversation: within, caller, key, outlet, stop, trace };
    let outcome = match &method {
        Method::Ping => Ok(RawJson::empty_object()),
        Method::ToolsCall => call_tool(&asked, params).await,
        // Apart, here and below: what a call does not need is not part of each call's state.
        Method::ToolsList => Box::pin(list_tools(&asked, params)).await,
        Method::LoggingSetLevel => Box::pin(set_level(&server, &conversation, params)).await,
        method if method.capability() == Some(Capability::Tasks) => {
            // C-4: a cancelled wait ends; the task goes on.
            tokio::select! {
                biased;
                () = taken.stop.wait() => return Answer::Silence,
                outcome = Box::pin(task_method(&asked, method, params)) => outcome,
            }
        }
        method => Box::pin(asked.offered(method, params)).await,
    };
    let outcome = match outcome {
        Ok(result) => Ok(result),
        Err(Failure::Cancelled) => return Answer::Silence,
        Err(Failure::Refused(fault)) => {
            server.metrics.faulted(&fault);
            return Answer::Refused(Box::new(Refusal::of(&id, fault)));
        }
        Err(Failure::Fault(fault)) => {
            server.metrics.faulted(&fault);
            Err(logged(&fault))
        }
        Err(Failure::Rpc(error)) => {
            server.metrics.misfit(&error);
            Err(error)
        }
        Err(Failure::Answered(error)) => Err(error),
    };
    Answer::Message(response::outcome(&id, &outcome))
}

/// A request, and all that its method needs.
pub(crate) struct Asked {
    pub server: Arc<Server>,
    pub conversation: Arc<Conversation>,
    pub caller: Arc<Caller>,
    pub key: RateKey,
    pub outlet: Arc<dyn Outlet>,
    pub stop: Arc<Stop>,
    pub trace: Option<TraceContext>,
}

/// Takes in the client's response to a request of ours (IR-6).
///
/// # Errors
/// [`Fault::Store`].
pub(crate) async fn responded(
    server: &Server,
    caller: &Caller,
    id: Id,
    outcome: Result<RawJson, RpcError>,
) -> Result<(), Fault> {
    match id {
        Id::Text(id) => server.dispatch.answered(caller, &id, outcome).await,
        // All of ours are texts.
        Id::Number(id) => {
            tracing::debug!(id, "a response to no request of ours");
            Ok(())
        }
    }
}

/// The answers to a batch, to be awaited together (J-6).
///
/// # Errors
/// `-32600` where the revision has no batches, or this one is too long.
pub(crate) fn batch(
    server: &Arc<Server>,
    conversation: &Arc<Conversation>,
    caller: &Arc<Caller>,
    key: &RateKey,
    members: Vec<Result<Message, DecodeError>>,
    outlet: &Arc<dyn Outlet>,
) -> Result<Vec<BoxFuture<'static, Option<Bytes>>>, RpcError> {
    let most = server.settings.batch;
    if !conversation.revision.has_batches() {
        return Err(RpcError::invalid_request(
            "batches are not part of this protocol revision: send one message",
        ));
    }
    if members.len() > most {
        let error = format!("a batch has at most {most} messages (wire.batch)");
        return Err(RpcError::invalid_request(error));
    }
    let refused =
        |id: Option<Id>, error: RpcError| async move { Some(response::error(id.as_ref(), &error)) }.boxed();
    let mut answering = Vec::new();
    for member in members {
        match member {
            Ok(Message::Request { id, method, .. }) if method == Method::Initialize => {
                let error = RpcError::invalid_request("initialize cannot be part of a batch");
                answering.push(refused(Some(id), error));
            }
            Ok(Message::Request { id, method, params }) => {
                if let Err(fault) = server.dispatch.pace(key, Operation::Request) {
                    answering.push(refused(Some(id), fault.rpc()));
                    continue;
                }
                let (caller, key) = (caller.clone(), key.clone());
                let request = Request { caller, key, id, method, params, trace: None };
                answering.push(match answer(server.clone(), conversation.clone(), request, outlet.clone()) {
                    Ok(answer) => answer.map(Answer::message).boxed(),
                    Err(refusal) => async move { Some(refusal.message) }.boxed(),
                });
            }
            Ok(Message::Notification { method, params }) => notified(conversation, &method, params.as_ref()),
            Ok(Message::Response { id, outcome }) => {
                let (server, caller) = (server.clone(), caller.clone());
                let taken_in = async move {
                    // A batch has no place to say that it was not kept.
                    if let Err(fault) = responded(&server, &caller, id, outcome).await {
                        logged(&fault);
                    }
                    None
                };
                answering.push(taken_in.boxed());
            }
            Err(fault) => answering.push(refused(fault.id, fault.error)),
        }
    }
    Ok(answering)
}

/// Takes a notification in. What is unknown is ignored.
pub(crate) fn notified(conversation: &Conversation, method: &Method, params: Option<&RawJson>) {
    match method {
        Method::Cancelled => {
            if let Some(id) = notification::cancelled_request(params) {
                conversation.cancel(&id);
            }
        }
        Method::Initialized => conversation.audience.set_initialized(),
        // A client's task may tell how it stands; we ask it ourselves.
        _ => {}
    }
}

/// Why a request gives no result.
pub(crate) enum Failure {
    Cancelled,
    /// Nothing was done, and HTTP has a status for it.
    Refused(Fault),
    /// Something stands against it.
    Fault(Fault),
    /// It makes no sense.
    Rpc(RpcError),
    /// The tool, or the task, came to an error.
    Answered(RpcError),
}

impl From<RpcError> for Failure {
    fn from(error: RpcError) -> Self {
        Self::Rpc(error)
    }
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Cancelled => Self::Cancelled,
            refused @ (Fault::InsufficientScope(_) | Fault::TooOften { .. }) => Self::Refused(refused),
            other => Self::Fault(other),
        }
    }
}

async fn list_tools(asked: &Asked, params: Option<&RawJson>) -> Result<RawJson, Failure> {
    let cursor = page::cursor(params)?;
    let revision = asked.conversation.revision;
    Ok(asked
        .server
        .dispatch
        .list_tools(&asked.caller, ListFor::Sessions(revision), cursor.as_deref())
        .await?)
}

async fn call_tool(asked: &Asked, params: Option<&RawJson>) -> Result<RawJson, Failure> {
    let Asked { server, conversation, caller, key, outlet, stop, trace } = asked;
    let mut params = CallParams::decode(params)?;
    params.trace = params.trace.or_else(|| trace.clone());
    let call = ToolCall {
        params,
        terms: Terms::Sessions { has_tasks: conversation.revision.has_tasks() },
        stop: stop.clone(),
        outlet: outlet.clone(),
        task_outlet: conversation.task_outlet.clone(),
    };
    // T-2: who was not offered tasks has the augmentation ignored.
    let as_task = conversation.revision.has_tasks() && call.params.task.is_some();
    server.dispatch.pace(key, if as_task { Operation::Creation } else { Operation::Call })?;
    match server.dispatch.call(caller, call).await? {
        CallReply::Result(result) => Ok(result),
        CallReply::Created(created) => {
            Ok(tasks::create_result(&created.view.render(), created.immediate_response.as_deref()))
        }
        CallReply::InputRequired(_) => Err(Failure::Rpc(only_stateless())),
        CallReply::Error(error) => Err(Failure::Answered(error)),
    }
}

/// With sessions a client is asked by requests of ours and never by an answer.
fn only_stateless() -> RpcError {
    RpcError::internal("A client with a session was to be asked as one without")
}

/// G-1.
async fn set_level(
    server: &Server,
    conversation: &Conversation,
    params: Option<&RawJson>,
) -> Result<RawJson, Failure> {
    conversation.set_level(&server.dispatch, LogLevel::decode(params)?).await?;
    Ok(RawJson::empty_object())
}

async fn task_method(asked: &Asked, method: &Method, params: Option<&RawJson>) -> Result<RawJson, Failure> {
    let dispatch = &asked.server.dispatch;
    // T-2: with tasks switched off these methods do not exist.
    let tasks = asked.conversation.revision.has_tasks() && dispatch.settings().tasks;
    if !method.is_offered(Generation::Sessions, tasks, || dispatch.offers()) {
        return Err(RpcError::method_not_found(method).into());
    }
    let done = task_question(asked, method, params).await;
    if let Err(Failure::Fault(Fault::UnknownTask | Fault::InvalidCursor)) = &done {
        // The one that is too many is answered like those before it; it is the next
        // that is refused, before anything is looked up.
        drop(dispatch.pace(&asked.key, Operation::FailedLookup));
    }
    done
}

async fn task_question(asked: &Asked, method: &Method, params: Option<&RawJson>) -> Result<RawJson, Failure> {
    let Asked { server, caller, .. } = asked;
    let dispatch = &server.dispatch;
    Ok(match method {
        Method::TasksGet => dispatch.task(caller, &tasks::task_id(params)?).await?.view().render(),
        Method::TasksResult => {
            let outcome =
                dispatch.task_result(caller, &tasks::task_id(params)?, asked.outlet.clone()).await?;
            outcome.map_err(Failure::Answered)?
        }
        Method::TasksList => dispatch.list_tasks(caller, params).await?,
        Method::TasksCancel => dispatch.cancel_task(caller, &tasks::task_id(params)?).await?.view().render(),
        other => return Err(RpcError::method_not_found(other).into()),
    })
}

/// The public half of a fault, its private half gone to the log.
pub(crate) fn logged(fault: &Fault) -> RpcError {
    if let Fault::Store(error) = fault {
        tracing::error!(error = error as &dyn std::error::Error, "the store failed during a request");
    }
    fault.rpc()
}

/// The error for a fault that was met before the request's method was looked at.
fn counted(server: &Server, fault: &Fault) -> RpcError {
    server.metrics.faulted(fault);
    logged(fault)
}

/// The error for a request that was not taken in.
pub(crate) fn not_taken(why: NotTaken, server: &Server) -> RpcError {
    match why {
        NotTaken::IdInUse => RpcError::invalid_request("the id belongs to a request that is still under way"),
        NotTaken::TooMany => counted(
            server,
            &Fault::Busy {
                what: format!(
                    "{} requests of this session are under way, the most",
                    server.settings.requests_per_session
                ),
                limit: "wire.requests-per-session",
                retry_after_ms: server.dispatch.settings().retry_after_ms,
            },
        ),
    }
}

/// One line of text: the newlines that JSON allows between its tokens become
/// spaces, so that a message is one line on stdio (S-1) and one `data` field in
/// an event.
pub(crate) fn one_line(message: Bytes) -> Bytes {
    if !message.iter().any(|byte| matches!(byte, b'\n' | b'\r')) {
        return message;
    }
    message.iter().map(|byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { *byte }).collect()
}
