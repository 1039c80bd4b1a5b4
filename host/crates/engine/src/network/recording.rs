//! An exchange with the network that the tape of a run records. The recording keeps what passes, up to a bound,
//! and redacts secrets when it is read: only the whole shows a secret that came in two pieces.

use super::error::{code, recordable_errors};
use crate::grant::Grants;
use http::HeaderMap;
use parking_lot::Mutex;
use std::sync::Arc;
use toolyard_task::http_tape::{MAX_TAPE_BODY, TapeEntry, TapeExchange, TapeOutcome, TapeResponse};
use wasmtime_wasi_http::Error;

pub(super) struct Recording {
    grants: Arc<Grants>,
    method: String,
    /// Redacted, as is the body.
    url: String,
    /// The body of the request; `None` if it is too large.
    body: Option<Vec<u8>>,
    answer: Mutex<Answer>,
}

#[derive(Default)]
struct Answer {
    response: Option<TapeResponse>,
    /// Whether the guest has read the whole body.
    is_whole: bool,
    /// The outcome, if it is no response.
    failure: Option<TapeOutcome>,
}

impl Recording {
    pub fn new(grants: Arc<Grants>, method: &str, url: String, body: Vec<u8>) -> Self {
        let body = (body.len() <= MAX_TAPE_BODY).then_some(body);
        Self { grants, method: method.to_owned(), url, body, answer: Mutex::default() }
    }

    /// The response has begun.
    pub fn begin(&self, status: u16, headers: &HeaderMap) {
        let text = |(name, value): (&http::HeaderName, &http::HeaderValue)| {
            Some((name.as_str().to_owned(), value.to_str().ok()?.to_owned()))
        };
        let headers = headers.iter().filter_map(text).collect();
        self.answer.lock().response = Some(TapeResponse { status, headers, body: Vec::new() });
    }

    /// The guest has read this piece of the body.
    pub fn add(&self, piece: &[u8]) {
        let mut answer = self.answer.lock();
        let Some(response) = &mut answer.response else { return };
        if response.body.len() + piece.len() > MAX_TAPE_BODY {
            response.body = Vec::new();
            answer.failure.get_or_insert_with(|| not_recordable(too_large("the body of its answer")));
        } else {
            response.body.extend_from_slice(piece);
        }
    }

    /// The guest has read the whole body.
    pub fn end(&self) {
        self.answer.lock().is_whole = true;
    }

    /// The exchange has ended with this error.
    pub fn fail(&self, error: &Error) {
        let mut answer = self.answer.lock();
        let name = code(error);
        let name = recordable_errors().any(|known| known == name).then_some(name);
        let failure = match (&answer.response, name) {
            (None, Some(name)) => TapeOutcome::Failed(name),
            (None, None) => not_recordable(format!("it ended with the error {error}")),
            (Some(_), _) => not_recordable(format!("the body of its answer ended with the error {error}")),
        };
        answer.failure.get_or_insert(failure);
    }

    fn outcome(&self) -> TapeOutcome {
        let answer = self.answer.lock();
        match (&answer.failure, &answer.response) {
            _ if self.body.is_none() => not_recordable(too_large("its body")),
            (Some(TapeOutcome::NotRecordable(why)), _) => {
                TapeOutcome::NotRecordable(self.grants.clean(why.clone()))
            }
            (Some(failure), _) => failure.clone(),
            (None, None) => not_recordable("it had no answer when the call ended".to_owned()),
            (None, Some(TapeResponse { status, headers, body })) => {
                let clean =
                    |(name, value): &(String, String)| (name.clone(), self.grants.clean(value.clone()));
                let headers = headers.iter().map(clean).collect();
                let body = self.grants.clean_body(body.clone(), answer.is_whole);
                TapeOutcome::Response(TapeResponse { status: *status, headers, body })
            }
        }
    }
}

impl TapeEntry for Recording {
    fn exchange(&self) -> TapeExchange {
        TapeExchange {
            method: self.method.clone(),
            url: self.url.clone(),
            body: self.body.clone().unwrap_or_default(),
            outcome: self.outcome(),
        }
    }
}

fn not_recordable(why: String) -> TapeOutcome {
    TapeOutcome::NotRecordable(why)
}

fn too_large(what: &str) -> String {
    format!("{what} is larger than {} KiB", MAX_TAPE_BODY >> 10)
}
