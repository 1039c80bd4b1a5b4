//! What answers a request, and what HTTP is to make of it.

use super::Request;
use crate::Server;
use crate::methods::{Failure, logged};
use bytes::Bytes;
use toolyard_dispatch::{Fault, Handover, Stop};
use toolyard_protocol::stateless::error::{MISSING_CAPABILITY, shown};
use toolyard_protocol::{Id, Method, RawJson, RpcError, response};

/// How an answer stands, for the one place that chooses a status (26H-9).
#[derive(Debug)]
pub(crate) enum Status {
    /// It was done, or came to an error on the way.
    Done,
    /// The request is not one that can be answered as it is.
    BadRequest,
    /// There is no such method.
    NoSuchMethod,
    /// It was turned away before anything was done.
    TurnedAway(Box<Fault>),
}

/// Why a request is not answered by its method. Counted.
#[derive(Debug)]
pub(crate) struct Wrong {
    pub error: RpcError,
    pub status: Status,
}

impl Wrong {
    /// One that HTTP calls a bad request.
    pub fn bad_request(server: &Server, error: RpcError) -> Self {
        server.metrics.misfit(&error);
        Self { error, status: Status::BadRequest }
    }

    /// A method that does not exist, or does not any more (26H-8).
    pub fn no_such_method(server: &Server, method: &Method) -> Self {
        let error = RpcError::method_not_found(method);
        server.metrics.misfit(&error);
        Self { error, status: Status::NoSuchMethod }
    }

    /// One that stands against the request, though nothing is wrong with it.
    pub fn fault(server: &Server, fault: Fault) -> Self {
        server.metrics.faulted(&fault);
        Self { error: shown(logged(&fault)), status: Status::Done }
    }

    /// The answer to the request of this id (26J-6).
    pub fn answer(self, id: &Id) -> Answer {
        let Self { error, status } = self;
        Answer { message: response::error(Some(id), &error), status, handover: None }
    }
}

/// What answers a request.
pub(crate) struct Answer {
    /// The response.
    pub message: Bytes,
    pub status: Status,
    /// There where the response hands a task out: to be told once it has left. Let go
    /// of before, the task is cancelled, since nobody knows of it.
    pub handover: Option<Handover>,
}

/// What a method gave.
pub(super) struct Given {
    pub result: RawJson,
    pub handover: Option<Handover>,
}

impl From<RawJson> for Given {
    fn from(result: RawJson) -> Self {
        Self { result, handover: None }
    }
}

impl Request {
    /// The answer with what the method gave; none if the sender takes no answer any
    /// more (26H-13, 26S-2).
    pub(super) fn answered(&self, outcome: Result<Given, Failure>, stop: &Stop) -> Option<Answer> {
        match outcome {
            Ok(Given { result, handover }) => {
                let message = response::result(&self.id, &result);
                Some(Answer { message, status: Status::Done, handover })
            }
            Err(failure) => self.failed(failure, stop),
        }
    }

    /// The answer with what went wrong.
    pub(super) fn failed(&self, failure: Failure, stop: &Stop) -> Option<Answer> {
        let metrics = &self.server.metrics;
        let error = match failure {
            Failure::Cancelled if stop.is_set() => return None,
            // Whoever stopped it, the sender waits for an answer.
            Failure::Cancelled => RpcError::internal("The request was stopped"),
            Failure::Refused(fault) => {
                metrics.faulted(&fault);
                let message = response::error(Some(&self.id), &shown(fault.rpc()));
                return Some(Answer { message, status: Status::TurnedAway(Box::new(fault)), handover: None });
            }
            Failure::Fault(fault) => {
                metrics.faulted(&fault);
                logged(&fault)
            }
            Failure::Rpc(error) => {
                metrics.misfit(&error);
                error
            }
            Failure::Answered(error) => error,
        };
        let error = shown(error);
        // 26R-4: also where the need shows only inside a tool.
        let status = if error.code == MISSING_CAPABILITY { Status::BadRequest } else { Status::Done };
        Some(Answer { message: response::error(Some(&self.id), &error), status, handover: None })
    }
}
