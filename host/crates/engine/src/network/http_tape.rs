//! Requests of a run whose exchanges are recorded: the tape answers them, refuses them, or has them sent.

use super::body::{Body, Exchanged, RequestBody, Rest, whole};
use super::exchange_outcome::{collect, exchanged, failed, mapped, outcome};
use super::exchange_report::ExchangeReport;
use crate::grant::redact::Redactor;
use crate::network::policy::NetworkPolicy;
use http::{Request, Response, Uri};
use http_body_util::BodyExt as _;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use toolyard_manifest::Target;
use toolyard_task::http_tape::{HttpTape, TapeAnswer, TapeRequest};
use wasmtime_wasi_http::Error;

/// The decision about a request.
pub(super) enum Consulted {
    /// The tape has answered.
    Answered((Response<Body>, Rest)),
    /// The request is sent, and its outcome recorded under this number if the tape wants that.
    Send(Request<RequestBody>, Option<usize>),
}

/// Consults the tape about a request that the grants and limits allow. Reads its whole body first, because
/// an entry may expect one.
pub(super) async fn consult(
    (policy, report): (&Arc<NetworkPolicy>, &Arc<ExchangeReport>),
    tape: &dyn HttpTape,
    target: &Target,
    request: Request<RequestBody>,
) -> Result<Consulted, Error> {
    let (head, body) = request.into_parts();
    let body = body.collect().await?.to_bytes();
    let query = head.uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    let url = policy.grants.clean(format!("{target}{}{query}", head.uri.path()));
    let shown =
        policy.grants.redactor.as_deref().map_or_else(|| body.clone(), |redactor| redactor.shown(&body));
    let number = match tape.answer(&TapeRequest { method: head.method.as_str(), url: &url, body: &shown }) {
        TapeAnswer::Recorded(outcome) => return exchanged(outcome).map(Consulted::Answered),
        TapeAnswer::Refuse(why) => return Err(Error::InternalError(Some(why))),
        TapeAnswer::Send => None,
        TapeAnswer::Record(number) => Some(number),
    };
    // The guest's body has been counted.
    report.sent.store(0, Ordering::Relaxed);
    let body = RequestBody::new(whole(body), policy.clone(), report.clone());
    Ok(Consulted::Send(Request::from_parts(head, body), number))
}

/// Gives the tape the outcome of an exchange without secrets, and the guest the outcome.
pub(super) async fn record(
    policy: &NetworkPolicy,
    tape: &dyn HttpTape,
    number: usize,
    sent: Exchanged,
) -> Exchanged {
    // The host says more about an error than its name.
    let sent = sent.inspect_err(|error| tape.record(number, failed(error)))?;
    let limit = policy.limits.http_response;
    let outcome = outcome(Ok(sent), |body| collect(body, limit, (policy, Vec::new(), None))).await;
    tape.record(number, mapped(outcome.clone(), policy.grants.redactor.as_deref(), Redactor::shown));
    exchanged(outcome)
}

/// The URL of a request in the form in which tapes get it: the scheme and host in lower case, without the
/// scheme's own port, and with a path.
///
/// # Errors
/// Why no request has this URL.
pub fn request_url(text: &str) -> Result<String, String> {
    let (scheme, rest) = text.split_once("://").ok_or("it does not begin with http:// or https://")?;
    let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    if path.contains('#') {
        return Err("a fragment (`#`) is not sent".to_owned());
    }
    let origin: Uri = format!("{scheme}://{authority}/").parse().map_err(|error| format!("{error}"))?;
    let target = Target::of(&origin)?;
    let root = if path.starts_with('/') { "" } else { "/" };
    Ok(format!("{target}{root}{path}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_has_one_form() {
        for (text, url) in [
            ("https://a.example", "https://a.example/"),
            ("HTTPS://A.example:443/x?q=1", "https://a.example/x?q=1"),
            ("http://a.example:8080?q=[secret KEY]", "http://a.example:8080/?q=[secret KEY]"),
            ("http://[::1]:80/", "http://[::1]/"),
        ] {
            assert_eq!(request_url(text).as_deref(), Ok(url));
        }
        for wrong in ["a.example/x", "ftp://a.example/", "https://u@a.example/", "https:///x", "http://a/#b"]
        {
            assert!(request_url(wrong).is_err(), "{wrong}");
        }
    }
}
