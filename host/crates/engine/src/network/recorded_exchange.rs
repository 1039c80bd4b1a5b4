//! Outgoing HTTP of runs with a journal. An exchange is recorded twice: its request before it leaves, and its whole
//! response before the guest gets it.
//!
//! The body of a request is collected first, and the body of a response is whole, so that what the guest sees depends
//! on the journal alone. A request that was under way when its host stopped is in doubt: whether it is sent again is
//! decided by its method, by an idempotency key, and by the manifest.

use crate::grant::Grants;
use crate::grant::redact::Redactor;
use crate::journal::{GuestJournal, JournalFailure, RequestUnderWay};
use crate::limits::run_budget::RunBudget;
use crate::network::body::{Body, Exchanged, whole};
use crate::network::exchange_outcome::{collect, discard, exchanged, failed, mapped, outcome};
use crate::network::policy::NetworkPolicy;
use http::header::CONTENT_LENGTH;
use http::{HeaderName, HeaderValue, Method, Request, Uri};
use std::borrow::Cow;
use std::sync::Arc;
use tokio::sync::OwnedSemaphorePermit;
use toolyard_journal::{DecidedBy, DoubtDecision, Exchange, Response, ResponseOutcome};
use toolyard_manifest::InDoubt;
use wasmtime_wasi_http::Error;

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// An exchange that the guest has begun.
pub(crate) struct RecordedExchange {
    journal: Arc<GuestJournal>,
    exchange: Exchange,
    request: Request<Body>,
    /// Held while a new request is under way; a run parked meanwhile would leave the request in doubt.
    under_way: Option<RequestUnderWay>,
    /// Counts its bodies.
    outside: Vec<Arc<RunBudget>>,
}

/// The crc32 of the parts of a request that the guest has decided, but for its body. `uri` has no secret.
fn head(request: &Request<Body>, uri: &str, redactor: Option<&Redactor>) -> u32 {
    let mut sum = crc32fast::Hasher::new();
    sum.update(request.method().as_str().as_bytes());
    sum.update(uri.as_bytes());
    // The length of a body may be that of a secret.
    let is_compared = |name: &HeaderName| redactor.is_none() || *name != CONTENT_LENGTH;
    for (name, value) in request.headers().iter().filter(|(name, _)| is_compared(name)) {
        sum.update(name.as_str().as_bytes());
        sum.update(&compared(value.as_bytes(), redactor));
    }
    sum.finalize()
}

/// Bytes of a request without the values of secrets, which may change between two runs.
fn compared<'a>(bytes: &'a [u8], redactor: Option<&Redactor>) -> Cow<'a, [u8]> {
    redactor.map_or(Cow::Borrowed(bytes), |redactor| Cow::Owned(redactor.named(bytes)))
}

impl RecordedExchange {
    /// Numbers a request, in the order in which the guest sends them.
    ///
    /// # Errors
    /// If the run cannot go on; its next operation ends it.
    pub fn begin(
        journal: Arc<GuestJournal>,
        request: Request<Body>,
        grants: &Grants,
        outside: &[Arc<RunBudget>],
    ) -> Result<Self, Error> {
        let (method, uri) = (request.method().as_str(), grants.clean(request.uri().to_string()));
        let head = head(&request, &uri, grants.redactor.as_deref());
        let under_way = journal.request();
        let exchange = journal.with(|recorder| recorder.request(head, method, &uri)).map_err(lost)?;
        let under_way = matches!(exchange, Exchange::Live(_)).then_some(under_way);
        Ok(Self { journal, exchange, request, under_way, outside: outside.to_vec() })
    }

    /// Whether the journal has its response, so that nothing is sent.
    pub fn is_answered(&self) -> Result<bool, Error> {
        match self.exchange {
            Exchange::Live(_) => Ok(false),
            Exchange::Past(number) => {
                Ok(self.journal.with(|recorder| recorder.response(number)).map_err(lost)?.is_some())
            }
        }
    }

    /// Carries the exchange out. `send` sends a request whose body is whole. `place`, which it has among those that are
    /// under way, is free once the guest has read the response or dropped it.
    pub async fn run<F>(
        self,
        policy: Arc<NetworkPolicy>,
        place: Option<Arc<OwnedSemaphorePermit>>,
        send: impl FnOnce(Request<Body>) -> F,
    ) -> Exchanged
    where
        F: Future<Output = Exchanged>,
    {
        let Self { journal, exchange, request, under_way, outside } = self;
        let number = exchange.number();
        let (mut parts, body) = request.into_parts();
        let redactor = policy.grants.redactor.as_deref();
        // A repetition must come to the same end, however much the run holds this time.
        let of_request = match exchange {
            Exchange::Live(_) => outside.clone(),
            Exchange::Past(_) => Vec::new(),
        };
        let has_no_sum = |past: Option<Response>| {
            past.is_some_and(|it| {
                it.request_body == NO_SUM && matches!(it.outcome, ResponseOutcome::Error(_))
            })
        };
        let collected = if matches!(exchange, Exchange::Past(_))
            && has_no_sum(journal.with(|recorder| recorder.response(number)).map_err(lost)?)
        {
            discard(body).await;
            Err(Error::InternalError(None))
        } else {
            collect(body, policy.limits.http_request, (&*policy, of_request, None)).await
        };
        // A body that failed or is too large has no sum; the failure is the outcome.
        let sum = collected.as_ref().map_or(NO_SUM, |body| crc32fast::hash(&compared(body, redactor)));
        if let Exchange::Past(_) = exchange {
            let past = journal.with(|recorder| {
                recorder.check_body(number, sum)?;
                recorder.response(number)
            });
            if let Some(Response { outcome, .. }) = past.map_err(lost)? {
                return exchanged(mapped(outcome, redactor, Redactor::restored));
            }
            // The guest has not seen this far yet in its repetition.
            journal.until_live().await;
            // Only a key that went out with the request lets the server recognise it; the manifest may have changed.
            let key = journal.with(|recorder| Ok(recorder.key(number).map(str::to_owned))).map_err(lost)?;
            if let Some(key) = key.and_then(|key| HeaderValue::try_from(key).ok()) {
                parts.headers.insert(IDEMPOTENCY_KEY, key);
            }
            let has_key = parts.headers.contains_key(IDEMPOTENCY_KEY);
            let named = policy.grants.clean(format!("{} {}", parts.method, without_query(&parts.uri)));
            let request = DoubtfulRequest { number, method: &parts.method, has_key, named: &named };
            match decide(&journal, &policy, request).await? {
                DoubtDecision::Resend => {}
                DoubtDecision::Error => {
                    let outcome = ResponseOutcome::Error(CONNECTION_TERMINATED.to_owned());
                    return record(&journal, number, sum, outcome, redactor);
                }
                DoubtDecision::Fail => {
                    return Err(lost(journal.fail(JournalFailure::InDoubt { request: named })));
                }
            }
        }
        let _under_way = under_way.unwrap_or_else(|| journal.request());
        let body = match collected {
            Ok(body) => body,
            Err(error) => return record(&journal, number, sum, failed(&error), redactor),
        };
        if !parts.method.is_safe() {
            policy.context.before_effect().await;
        }
        if matches!(exchange, Exchange::Live(_))
            && policy.grants.http.keyed
            && is_keyed(&parts.method)
            && !parts.headers.contains_key(IDEMPOTENCY_KEY)
            && let Some(task) = policy.context.info().task
        {
            let key = journal.with(|recorder| {
                let key = format!("{task}:{}", recorder.number_in_task(number));
                recorder.record_key(number, &key).map(|()| key)
            });
            if let Ok(key) = HeaderValue::try_from(key.map_err(lost)?) {
                parts.headers.insert(IDEMPOTENCY_KEY, key);
            }
        }
        // Before anything leaves.
        journal.commit().await.map_err(lost)?;
        let sent = send(Request::from_parts(parts, whole(body))).await;
        let limit = policy.limits.http_response;
        let outcome = outcome(sent, |body| collect(body, limit, (&*policy, outside, place))).await;
        record(&journal, number, sum, outcome, redactor)
    }

    /// The exchange has no place among those that may be under way at once. That is chance too.
    pub async fn refuse(self, policy: Arc<NetworkPolicy>, error: Error) -> Exchanged {
        self.run(policy, None, |_| std::future::ready(Err(error))).await
    }
}

/// The sum of the body of a request that could not be kept.
const NO_SUM: u32 = 0;
const CONNECTION_TERMINATED: &str = "connection-terminated";

/// A request that was under way when its host stopped.
struct DoubtfulRequest<'a> {
    number: u32,
    method: &'a Method,
    has_key: bool,
    /// The method of the request, and its URL without the query.
    named: &'a str,
}

/// Decides about a request that was under way when its host stopped, and makes the decision durable before it is acted
/// upon.
async fn decide(
    journal: &GuestJournal,
    policy: &NetworkPolicy,
    request: DoubtfulRequest<'_>,
) -> Result<DoubtDecision, Error> {
    let DoubtfulRequest { number, method, has_key, named } = request;
    // RFC 9110, section 9.2.2.
    let idempotent = [Method::GET, Method::HEAD, Method::OPTIONS, Method::PUT, Method::DELETE];
    let person;
    let (decision, by) = match policy.grants.http.in_doubt {
        _ if idempotent.contains(method) => (DoubtDecision::Resend, DecidedBy::Method),
        _ if has_key => (DoubtDecision::Resend, DecidedBy::Key),
        InDoubt::Retry => (DoubtDecision::Resend, DecidedBy::Manifest),
        InDoubt::Error => (DoubtDecision::Error, DecidedBy::Manifest),
        InDoubt::Fail => (DoubtDecision::Fail, DecidedBy::Manifest),
        InDoubt::Ask => {
            // Each doubt of a request is another question.
            let doubt = journal.with(|recorder| {
                Ok(format!("{}:{}", recorder.number_in_task(number), recorder.doubts(number)))
            });
            match policy.context.decide_doubt(&doubt.map_err(lost)?, named).await {
                Some((decision, name)) => {
                    person = name;
                    (decision, DecidedBy::Person(&person))
                }
                None => (DoubtDecision::Fail, DecidedBy::Manifest),
            }
        }
    };
    journal.with(|recorder| recorder.record_doubt(number, decision, by)).map_err(lost)?;
    journal.commit().await.map_err(lost)?;
    journal.tell_doubt(named, decision, by).await;
    Ok(decision)
}

/// A URL without its query, which may be secret.
fn without_query(uri: &Uri) -> String {
    let text = uri.to_string();
    text.split_once('?').map_or(text.clone(), |(before, _)| before.to_owned())
}

/// Whether the host gives requests of this method a key, where the manifest says so.
fn is_keyed(method: &Method) -> bool {
    matches!(*method, Method::POST | Method::PATCH)
}

/// Records the end of an exchange, without the values of secrets, and gives it to the guest.
fn record(
    journal: &GuestJournal,
    number: u32,
    request_body: u32,
    outcome: ResponseOutcome,
    redactor: Option<&Redactor>,
) -> Exchanged {
    let response = Response { request_body, outcome: mapped(outcome.clone(), redactor, Redactor::kept) };
    journal.with(|recorder| recorder.record_response(number, &response)).map_err(lost)?;
    // At once, while the request counts as under way: without its response it would be in doubt.
    journal.push_recorded();
    exchanged(outcome)
}

/// The run cannot go on. Its next operation says why.
fn lost(error: wasmtime::Error) -> Error {
    Error::InternalError(Some(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_in_doubt_is_named_without_its_query() {
        for (uri, expected) in [
            ("https://a.example/x?token=hush", "https://a.example/x"),
            ("https://a.example/", "https://a.example/"),
        ] {
            assert_eq!(without_query(&Uri::from_static(uri)), expected);
        }
    }
}
