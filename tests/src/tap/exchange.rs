//! Streamable HTTP, observed from outside: assigns each message to its session.

use super::{Conversation, Report, Violation};
use crate::http::{self, Event};
use crate::schema::Schema;
use hyper::{HeaderMap, StatusCode};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

const SESSION: &str = "mcp-session-id";

/// Observes the messages that the kit's own clients receive in this process.
static KIT: OnceLock<Tap> = OnceLock::new();

/// Begins a request of the kit; a violation fails the test at once.
pub(crate) fn kit_exchange(headers: &HeaderMap, body: &[u8]) -> Option<Exchange> {
    if super::stands_aside() {
        return None;
    }
    let mut exchange = KIT.get_or_init(Tap::default).exchange(headers, body);
    exchange.strict = true;
    Some(exchange)
}

/// Observes a host and all its clients.
#[derive(Clone, Default)]
pub struct Tap {
    inner: Arc<Inner>,
}

#[derive(Default)]
struct Inner {
    sessions: Mutex<HashMap<String, Arc<Mutex<Conversation>>>>,
    report: Mutex<Report>,
}

/// One HTTP request and its response.
pub struct Exchange {
    tap: Tap,
    /// `None` if there is no schema to check against.
    conversation: Option<Arc<Mutex<Conversation>>>,
    kind: Kind,
    buffer: Vec<u8>,
    strict: bool,
}

/// The encoding of messages in a body.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Nothing,
    Json,
    Events,
}

/// A panic in a test leaves the data intact.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Tap {
    /// Begins a request.
    pub fn exchange(&self, headers: &HeaderMap, body: &[u8]) -> Exchange {
        let conversation = Schema::official().map(|schema| {
            let fresh = || Arc::new(Mutex::new(Conversation::new(schema)));
            // A self-contained request belongs to no session, even if it names one (26B-2).
            match session_of(headers).filter(|_| !super::stateless::is_claimed_in(body)) {
                Some(id) => lock(&self.inner.sessions).entry(id.to_owned()).or_insert_with(fresh).clone(),
                None => fresh(),
            }
        });
        if let Some(conversation) = &conversation {
            lock(conversation).from_client(body);
        }
        Exchange { tap: self.clone(), conversation, kind: Kind::Nothing, buffer: Vec::new(), strict: false }
    }

    /// The findings so far.
    pub fn report(&self) -> Report {
        lock(&self.inner.report).clone()
    }

    /// As [`Report::expect_clean`], if there is a schema to check against.
    pub fn expect_clean(&self) {
        if Schema::official().is_some() {
            self.report().expect_clean();
        }
    }
}

fn session_of(headers: &HeaderMap) -> Option<&str> {
    headers.get(SESSION).and_then(|value| value.to_str().ok())
}

impl Exchange {
    /// Receives the head of the response.
    pub fn head(&mut self, status: StatusCode, headers: &HeaderMap) {
        let kind = headers.get("content-type").and_then(|value| value.to_str().ok()).unwrap_or_default();
        self.kind = match kind.split(';').next().unwrap_or_default().trim() {
            "application/json" => Kind::Json,
            "text/event-stream" => Kind::Events,
            _ => Kind::Nothing,
        };
        // The status of a stream precedes its messages, so it says nothing about them.
        if let (Some(conversation), Kind::Json) = (&self.conversation, self.kind) {
            lock(conversation).under(status.as_u16());
        }
        if let (Some(id), Some(conversation)) = (session_of(headers), &self.conversation) {
            lock(&self.tap.inner.sessions).entry(id.to_owned()).or_insert_with(|| conversation.clone());
        }
    }

    /// Whether the response is a stream of events, whose end says nothing.
    pub fn is_stream(&self) -> bool {
        self.kind == Kind::Events
    }

    /// Receives a piece of the response body.
    pub fn piece(&mut self, bytes: &[u8]) {
        if self.kind == Kind::Nothing || self.conversation.is_none() {
            return;
        }
        self.buffer.extend_from_slice(bytes);
        while self.kind == Kind::Events
            && let Some(event) = http::take_event(&mut self.buffer)
        {
            match event {
                Some(Event { data, .. }) if !data.is_empty() => self.message(data.as_bytes()),
                _ => {}
            }
        }
    }

    /// Receives the end of the response body.
    pub fn end(&mut self) {
        let buffer = std::mem::take(&mut self.buffer);
        if self.kind == Kind::Json && !buffer.is_empty() {
            self.message(&buffer);
        }
    }

    /// Judges a message.
    fn message(&self, text: &[u8]) {
        let Some(conversation) = &self.conversation else { return };
        let Some(verdict) = lock(conversation).from_host(text) else { return };
        if !self.strict {
            lock(&self.tap.inner.report).add(verdict, text);
        } else if let Some(violation) = Violation::of(verdict, text) {
            panic!("the host sent what it must not: {violation}");
        }
    }
}
