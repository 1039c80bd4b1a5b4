//! Requests of ours to clients that wait for their responses (L-9). The questions
//! of tasks do not wait here: they are in the store.

use crate::client::client_channel::Line;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;
use toolyard_task::wire::{RawJson, RpcError};
use toolyard_task::{SessionId, TaskId};

/// What a client answers: a result, or an error.
pub(crate) type Response = Result<RawJson, RpcError>;

/// The requests that wait, by id.
#[derive(Default)]
pub(crate) struct Requests {
    by_id: Mutex<HashMap<String, Waiting>>,
}

struct Waiting {
    /// Only this session may answer.
    session: Option<SessionId>,
    tell: oneshot::Sender<Response>,
}

/// Whose request it is, and on which line it is out.
pub(crate) struct Asked {
    pub id: String,
    pub task: Option<TaskId>,
    pub line: Arc<dyn Line>,
}

/// One request that waits. Dropped before its response came, it is withdrawn
/// (C-6).
pub(crate) struct Pending<'a> {
    requests: &'a Requests,
    asked: Asked,
    answered: bool,
}

impl Requests {
    /// Expects a response. To miss none: expect, then send.
    pub fn expect(
        &self,
        asked: Asked,
        session: Option<SessionId>,
    ) -> (Pending<'_>, oneshot::Receiver<Response>) {
        let (tell, told) = oneshot::channel();
        self.lock().insert(asked.id.clone(), Waiting { session, tell });
        (Pending { requests: self, asked, answered: false }, told)
    }

    /// Hands a response to whoever waits for it. Given back if nobody does: the id
    /// is none of these, or the session was not asked.
    pub fn answer(&self, session: Option<&SessionId>, id: &str, response: Response) -> Result<(), Response> {
        let mut by_id = self.lock();
        if by_id.get(id).is_none_or(|waiting| waiting.session.as_ref() != session) {
            return Err(response);
        }
        let waiting = by_id.remove(id);
        drop(by_id);
        match waiting {
            Some(waiting) => waiting.tell.send(response),
            None => Err(response),
        }
    }

    /// How many wait.
    pub fn open(&self) -> usize {
        self.lock().len()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Waiting>> {
        self.by_id.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pending<'_> {
    /// The response came: there is nothing to withdraw.
    pub fn answered(mut self) {
        self.answered = true;
    }
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        let waiting = self.requests.lock().remove(&self.asked.id).is_some();
        if !self.answered && waiting {
            self.asked.line.withdraw(&self.asked.id, "The answer is no longer waited for.", self.asked.task);
        }
    }
}
