//! The answer to a request of either generation, and the status that HTTP gives it.

use crate::failure::Failure;
use crate::request::Request;
use crate::server::Server;
use bytes::Bytes;
use std::sync::Arc;
use toolyard_dispatch::{Fault, Handover, Held, Stop, UNCOUNTED};
use toolyard_protocol::error::METHOD_NOT_FOUND;
use toolyard_protocol::method::Generation;
use toolyard_protocol::stateless::error::{MISSING_CAPABILITY, shown};
use toolyard_protocol::{Id, RawJson, RpcError, response};

/// The kind of an answer, from which one place chooses the HTTP status (26H-9). With sessions it is `Done` or
/// `TurnedAway`.
#[derive(Debug)]
pub(crate) enum Status {
    /// The request was carried out, or failed while it ran.
    Done,
    /// The request cannot be answered in this form.
    BadRequest,
    /// The method does not exist (26H-8).
    NoSuchMethod,
    /// The request was turned away before it did anything.
    TurnedAway(Box<Fault>),
}

/// The answer to a request.
pub(crate) struct Answer {
    /// The response.
    pub message: Bytes,
    pub status: Status,
    /// Present if the response hands out a task. The transport marks it as delivered once the response has
    /// been sent. If it is dropped before, it cancels the task.
    pub handover: Option<Handover>,
    /// A large response counts for its principal until it is dropped or released.
    pub held: Option<Arc<Held>>,
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

impl Failure {
    /// The answer to the request with this id, counted (26J-6).
    pub fn answer(self, server: &Server, generation: Generation, id: Option<&Id>) -> Answer {
        let metrics = &server.metrics;
        match &self {
            Self::Refused(fault) | Self::Fault(fault) => metrics.count_fault(fault),
            Self::Invalid(error) | Self::BadRequest(error) => metrics.count_rejection(error),
            Self::Cancelled | Self::Answered(_) | Self::EndOfTask(..) => {}
        }
        let mut handover = None;
        let (error, status) = match self {
            Self::EndOfTask(end) => {
                let (error, duty) = *end;
                handover = Some(duty);
                (error, Status::Done)
            }
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
                // 26R-4: also if only the tool finds out that it needs the capability.
                let is_bad = error.code == MISSING_CAPABILITY;
                (error, if is_bad { Status::BadRequest } else { Status::Done })
            }
            (_, status) => (error, status),
        };
        Answer { message: response::error(id, &error), status, handover, held: None }
    }
}

impl Request {
    /// The answer with the method's result; `None` if the sender no longer accepts an answer (C-1, 26H-13,
    /// 26S-2).
    pub fn answer(&self, outcome: Result<Output, Failure>, stop: &Stop) -> Option<Answer> {
        match outcome {
            Ok(Output { result, handover }) => {
                let message = response::result(&self.id, &result);
                if message.len() <= UNCOUNTED {
                    return Some(Answer { message, status: Status::Done, handover, held: None });
                }
                // Counted until it is written, or the client may ask for much and read nothing.
                let mut held = self.server.shares.messages.none(self.key.clone());
                Some(match held.grow_to(message.len()) {
                    Ok(()) => {
                        let held = Arc::new(held);
                        let message = held.clone().keep(message);
                        Answer { message, status: Status::Done, handover, held: Some(held) }
                    }
                    Err(no_room) => self.refuse(Failure::Fault(no_room.fault())),
                })
            }
            // The sender of a stateless request waits for an answer unless it cancelled.
            Err(Failure::Cancelled) if stop.is_set() || self.generation() == Generation::Sessions => None,
            Err(failure) => Some(self.refuse(failure)),
        }
    }

    /// The answer that reports the failure.
    pub fn refuse(&self, failure: Failure) -> Answer {
        failure.answer(&self.server, self.generation(), Some(&self.id))
    }
}

/// The public part of a fault; the private part goes to the log.
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

/// A message as one line of text: the newlines that JSON allows between its tokens become
/// spaces, so that a message is one line on stdio (S-1) and one `data` field in
/// an event.
pub(crate) fn one_line(message: Bytes) -> Bytes {
    if !message.iter().any(|byte| matches!(byte, b'\n' | b'\r')) {
        return message;
    }
    message.iter().map(|byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { *byte }).collect()
}
