//! The questions that a call asks its client.

use tokio::sync::mpsc;
use toolyard_dispatch::{ClientPresence, ClientRoute, RawJson, TaskId};

/// The most questions that may wait for their answers.
const MAX_WAITING: usize = 64;

/// A request of the host that needs an answer.
pub struct Question {
    /// The key of the question; `None` for another request.
    pub key: Option<String>,
    /// The id of the request, by which its response is known.
    pub id: String,
    /// The method.
    pub method: String,
    /// The parameters.
    pub params: RawJson,
}

/// The route to the part of this process that answers.
#[derive(Clone)]
pub struct QuestionRoute {
    sender: mpsc::Sender<Question>,
    /// Whether requests without a key are taken too.
    takes_requests: bool,
}

impl QuestionRoute {
    /// A route and the receiver of its questions.
    pub fn new(takes_requests: bool) -> (Self, mpsc::Receiver<Question>) {
        let (sender, receiver) = mpsc::channel(MAX_WAITING);
        (Self { sender, takes_requests }, receiver)
    }

    fn put(&self, key: Option<&str>, id: &str, method: &str, params: &RawJson) -> bool {
        let (id, method, params) = (id.to_owned(), method.to_owned(), params.clone());
        self.sender.try_send(Question { key: key.map(str::to_owned), id, method, params }).is_ok()
    }
}

impl ClientRoute for QuestionRoute {
    fn request(&self, id: &str, method: &str, params: &RawJson) -> bool {
        self.takes_requests && self.put(None, id, method, params)
    }

    fn question(&self, key: &str, id: &str, method: &str, params: &RawJson) -> bool {
        self.put(Some(key), id, method, params)
    }

    // The host ignores an answer to a withdrawn question.
    fn withdraw(&self, _id: &str, _reason: &str, _task: Option<TaskId>) {}

    fn presence(&self) -> ClientPresence {
        if self.sender.is_closed() { ClientPresence::Gone } else { ClientPresence::There }
    }
}
