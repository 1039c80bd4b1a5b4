//! The checks of a request before its method: whether the method exists for its client, and the rates that it counts
//! toward.

use crate::failure::Failure;
use crate::request::{Origin, Request};
use crate::server::Server;
use toolyard_dispatch::{Operation, RateKey};
use toolyard_protocol::method::Generation;
use toolyard_protocol::stateless::envelope::Envelope;
use toolyard_protocol::stateless::error::tasks_required;
use toolyard_protocol::{Method, RpcError};

impl Server {
    /// Counts an operation (T-42). This function counts every rate of a principal.
    ///
    /// # Errors
    /// The rate limit is exceeded.
    pub(crate) fn count(&self, key: &RateKey, operation: Operation) -> Result<(), Failure> {
        Ok(self.dispatch.access().count_operation(key, operation)?)
    }
}

impl Request {
    /// Checks that its method exists, and that its client may use it (26J-8, 26T-6). For a session, declared
    /// capabilities count as well.
    ///
    /// # Errors
    /// `-32601`, `-32021`.
    pub fn check_method(&self) -> Result<(), Failure> {
        let dispatch = &self.server.dispatch;
        let tasks = dispatch.settings().tasks;
        let is_offered = match &self.origin {
            Origin::Session(client) => {
                let offers = || dispatch.catalog().offers().or(client.declared);
                let tasks = tasks && client.revision.has_tasks();
                self.method.is_offered(Generation::Sessions, tasks, offers)
            }
            Origin::Envelope(_) => {
                self.method.is_offered(Generation::Stateless, tasks, || dispatch.catalog().offers())
            }
        };
        if !is_offered {
            return Err(RpcError::method_not_found(&self.method).into());
        }
        match &self.origin {
            Origin::Envelope(envelope)
                if self.is_of_tasks() && !envelope.tasks && !self.may_use_tasks_of_sessions(envelope) =>
            {
                Err(Failure::BadRequest(tasks_required()))
            }
            _ => Ok(()),
        }
    }

    /// A client with the tasks of sessions may still get and cancel tasks that it created in a session
    /// (26T-6).
    const fn may_use_tasks_of_sessions(&self, envelope: &Envelope) -> bool {
        envelope.session_tasks && matches!(self.method, Method::TasksGet | Method::TasksCancel)
    }

    /// Counts the request, but not toward the rate of its tool (T-42). The rate for all requests counted it
    /// before it was parsed.
    ///
    /// # Errors
    /// The rate limit is exceeded.
    pub fn count(&self) -> Result<(), Failure> {
        self.operation().map_or(Ok(()), |operation| self.count_as(operation))
    }

    /// Counts an operation of its sender.
    pub fn count_as(&self, operation: Operation) -> Result<(), Failure> {
        self.server.count(&self.key, operation)
    }

    /// Counts a lookup that found nothing. The lookup that exceeds the limit is answered like those before
    /// it; only the next one is refused, before anything is looked up.
    pub fn count_failed_lookup(&self) {
        drop(self.count_as(Operation::FailedLookup));
    }

    /// The operation that it counts as. A client without a session does not decide
    /// whether its call becomes a task, so it counts as a call.
    fn operation(&self) -> Option<Operation> {
        match (&self.call, &self.origin) {
            // T-2: `task` is ignored if the client was not offered tasks.
            (Some(Ok((call, _))), Origin::Session(_)) if self.has_tasks() && call.task.is_some() => {
                Some(Operation::Creation)
            }
            (Some(Ok(_)), _) if self.is_host_tool() => Some(Operation::Polling),
            (Some(_), _) => Some(Operation::Call),
            (None, _) if self.only_reads() => Some(Operation::Call),
            (None, _) if self.is_of_tasks() => Some(Operation::Polling),
            (None, _) => None,
        }
    }
}
