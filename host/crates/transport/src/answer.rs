//! The answer to a request of either generation, and the status that HTTP gives it.

use crate::Server;
use crate::request::Request;
use bytes::Bytes;
use toolyard_dispatch::{Fault, Handover, Stop};
use toolyard_protocol::error::METHOD_NOT_FOUND;
use toolyard_protocol::method::Generation;
use toolyard_protocol::stateless::error::{MISSING_CAPABILITY, shown};
use toolyard_protocol::{Id, RawJson, RpcError, response};

/// How an answer stands, for the one place that chooses a status (26H-9). With sessions
/// it is `Done` or `TurnedAway`.
#[derive(Debug)]
pub(crate) enum Status {
    /// It was done, or came to an error on the way.
    Done,
    /// The request is not one that can be answered as it is.
    BadRequest,
    /// There is no such method (26H-8).
    NoSuchMethod,
    /// It was turned away before anything was done.
    TurnedAway(Box<Fault>),
}

/// The answer to a request.
pub(crate) struct Answer {
    /// The response.
    pub message: Bytes,
    pub status: Status,
    /// Present where the response hands out a task. The transport marks it as delivered
    /// once the response has left; dropped before, it cancels the task.
    pub handover: Option<Handover>,
}

/// The result of a method.
pub(crate) struct Output {
    pub result: RawJson,
    pub handover: Option<Handover>,
}

impl From<RawJson> for Output {
    fn from(result: RawJson) -> Self {
        Self { result, handover: None }
    }
}

/// Why a request gives no result.
pub(crate) enum Failure {
    /// It was stopped.
    Cancelled,
    /// Nothing was done, and HTTP has a status for it.
    Refused(Fault),
    /// Something stands against it, though nothing is wrong with it.
    Fault(Fault),
    /// There is no such method, or its params make no sense.
    Invalid(RpcError),
    /// It cannot be answered as it is, whatever its method.
    BadRequest(RpcError),
    /// The tool, or the task, came to an error.
    Answered(RpcError),
}

impl From<RpcError> for Failure {
    fn from(error: RpcError) -> Self {
        Self::Invalid(error)
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

impl Failure {
    /// The answer to the request of this id, counted (26J-6).
    pub fn answer(self, server: &Server, generation: Generation, id: Option<&Id>) -> Answer {
        let metrics = &server.metrics;
        match &self {
            Self::Refused(fault) | Self::Fault(fault) => metrics.count_fault(fault),
            Self::Invalid(error) | Self::BadRequest(error) => metrics.count_rejection(error),
            Self::Cancelled | Self::Answered(_) => {}
        }
        let (error, status) = match self {
            Self::Cancelled => (RpcError::internal("The request was stopped"), Status::Done),
            Self::Refused(fault) => (fault.rpc(), Status::TurnedAway(Box::new(fault))),
            Self::Fault(fault) => (logged(&fault), Status::Done),
            Self::Invalid(error) if error.code == METHOD_NOT_FOUND => (error, Status::NoSuchMethod),
            Self::Invalid(error) | Self::Answered(error) => (error, Status::Done),
            Self::BadRequest(error) => (error, Status::BadRequest),
        };
        let (error, status) = match (generation, status) {
            (Generation::Sessions, Status::BadRequest | Status::NoSuchMethod) => (error, Status::Done),
            (Generation::Stateless, Status::Done) => {
                let error = shown(error);
                // 26R-4: also where the need shows only inside a tool.
                let is_bad = error.code == MISSING_CAPABILITY;
                (error, if is_bad { Status::BadRequest } else { Status::Done })
            }
            (_, status) => (error, status),
        };
        Answer { message: response::error(id, &error), status, handover: None }
    }
}

impl Request {
    /// The answer with what the method gave; none if the sender takes no answer any
    /// more (C-1, 26H-13, 26S-2).
    pub fn answer(&self, outcome: Result<Output, Failure>, stop: &Stop) -> Option<Answer> {
        match outcome {
            Ok(Output { result, handover }) => {
                let message = response::result(&self.id, &result);
                Some(Answer { message, status: Status::Done, handover })
            }
            // The sender of a stateless request waits for an answer unless it cancelled.
            Err(Failure::Cancelled) if stop.is_set() || self.generation() == Generation::Sessions => None,
            Err(failure) => Some(self.refuse(failure)),
        }
    }

    /// The answer with what went wrong.
    pub fn refuse(&self, failure: Failure) -> Answer {
        failure.answer(&self.server, self.generation(), Some(&self.id))
    }
}

/// The public half of a fault, its private half gone to the log.
pub(crate) fn logged(fault: &Fault) -> RpcError {
    if let Fault::Store(error) = fault {
        tracing::error!(
            event = "store.unavailable",
            error = error as &dyn std::error::Error,
            "store failed during a request"
        );
    }
    fault.rpc()
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
