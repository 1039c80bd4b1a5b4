//! Requests of this host to clients that wait for a response (L-9). Questions of tasks are not
//! among them: they are in the store.

use crate::client::client_channel::ClientRoute;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use tokio::sync::oneshot;
use toolyard_task::wire::{RawJson, RpcError};
use toolyard_task::{SessionId, TaskId};

/// The response of a client: a result, or an error.
pub(crate) type ClientResponse = Result<RawJson, RpcError>;

/// The requests that wait, by id.
#[derive(Default)]
pub(crate) struct PendingRequests {
    by_id: Mutex<HashMap<String, ResponseWaiter>>,
}

struct ResponseWaiter {
    /// Only this session may answer.
    session: Option<SessionId>,
    elicits: bool,
    /// Whether a task waits for the response by now.
    is_released: bool,
    tell: oneshot::Sender<ClientResponse>,
}

/// A request of this host, and the route that it was sent on.
pub(crate) struct SentRequest {
    pub id: String,
    /// Whether it asks the user of the client.
    pub elicits: bool,
    pub task: Option<TaskId>,
    pub route: Arc<dyn ClientRoute>,
}

/// A request that waits. If dropped before its response comes, the request is withdrawn (C-6).
pub(crate) struct PendingRequest<'a> {
    requests: &'a PendingRequests,
    sent: SentRequest,
    answered: bool,
}

impl PendingRequests {
    /// Expects a response. To miss none: expect, then send.
    pub fn expect(
        &self,
        sent: SentRequest,
        session: Option<SessionId>,
    ) -> (PendingRequest<'_>, oneshot::Receiver<ClientResponse>) {
        let (tell, told) = oneshot::channel();
        self.by_id.lock().insert(
            sent.id.clone(),
            ResponseWaiter { session, elicits: sent.elicits, is_released: false, tell },
        );
        (PendingRequest { requests: self, sent, answered: false }, told)
    }

    /// Hands a response to the request that waits for it. Returns the response if there is no such
    /// request, or if the request went to another session.
    pub fn answer(
        &self,
        session: Option<&SessionId>,
        id: &str,
        response: ClientResponse,
    ) -> Result<(), ClientResponse> {
        let mut by_id = self.by_id.lock();
        if by_id.get(id).is_none_or(|waiting| waiting.session.as_ref() != session) {
            return Err(response);
        }
        let waiting = by_id.remove(id);
        drop(by_id);
        match waiting {
            Some(waiting) if !waiting.is_released => waiting.tell.send(response),
            _ => Err(response),
        }
    }

    /// Whether this request waits, and asks the user of its client.
    pub fn elicits(&self, id: &str) -> bool {
        self.by_id.lock().get(id).is_some_and(|waiter| waiter.elicits)
    }

    /// A task waits for the response of this request from now on.
    pub fn release(&self, id: &str) {
        if let Some(waiter) = self.by_id.lock().get_mut(id) {
            waiter.is_released = true;
        }
    }

    /// How many wait.
    pub fn count(&self) -> usize {
        self.by_id.lock().len()
    }
}

impl PendingRequest<'_> {
    /// The response came: there is nothing to withdraw.
    pub fn settle(mut self) {
        self.answered = true;
    }
}

impl Drop for PendingRequest<'_> {
    fn drop(&mut self) {
        let waiting =
            self.requests.by_id.lock().remove(&self.sent.id).is_some_and(|waiter| !waiter.is_released);
        if !self.answered && waiting {
            self.sent.route.withdraw(&self.sent.id, "The answer is no longer waited for.", self.sent.task);
        }
    }
}
