//! The outcome of an exchange: how it is recorded, and how a run gets it, now and in each repetition. Journals and tapes
//! keep the same outcomes: a whole response, or the name of an error.

use super::body::{Body, Exchanged, whole};
use super::error::{code, named};
use super::policy::NetworkPolicy;
use crate::grant::redact::Redactor;
use crate::limits::run_budget::{HeldBytes, RunBudget};
use bytes::{Bytes, BytesMut};
use http::Response;
use http_body_util::BodyExt as _;
use std::sync::Arc;
use tokio::sync::OwnedSemaphorePermit;
use toolyard_journal::ResponseOutcome;
use wasmtime_wasi_http::Error;

/// Waits for the end of an exchange. `collect` reads the body of its response.
pub(super) async fn outcome<F>(exchanged: Exchanged, collect: impl FnOnce(Body) -> F) -> ResponseOutcome
where
    F: Future<Output = Result<Bytes, Error>>,
{
    let (response, rest) = match exchanged {
        Ok(exchanged) => exchanged,
        Err(error) => return failed(&error),
    };
    let (parts, body) = response.into_parts();
    // The rest of the connection is driven while the body arrives.
    let mut rest = Box::into_pin(rest);
    let collecting = collect(body);
    tokio::pin!(collecting);
    let body = tokio::select! {
        body = &mut collecting => body,
        _ = &mut rest => collecting.await,
    };
    let headers = parts.headers.iter().map(|(name, value)| {
        (Bytes::copy_from_slice(name.as_str().as_bytes()), Bytes::copy_from_slice(value.as_bytes()))
    });
    match body {
        Ok(body) => {
            ResponseOutcome::Complete { status: parts.status.as_u16(), headers: headers.collect(), body }
        }
        Err(error) => failed(&error),
    }
}

/// The error as it is recorded: a name, which the guest gets now and in each repetition.
pub(super) fn failed(error: &Error) -> ResponseOutcome {
    ResponseOutcome::Error(code(error).to_owned())
}

/// Gives an outcome to the guest.
pub(super) fn exchanged(outcome: ResponseOutcome) -> Exchanged {
    match outcome {
        ResponseOutcome::Complete { status, headers, body } => {
            let mut response = Response::builder().status(status);
            for (name, value) in &headers {
                response = response.header(&name[..], &value[..]);
            }
            let invalid =
                |error| Error::InternalError(Some(format!("a recorded response is not valid: {error}")));
            let response = response.body(whole(body)).map_err(invalid)?;
            Ok((response, Box::new(std::future::ready(Ok(())))))
        }
        ResponseOutcome::Error(name) => Err(named(&name)),
    }
}

/// An outcome with other bytes, if the plugin has secrets.
pub(super) fn mapped(
    outcome: ResponseOutcome,
    redactor: Option<&Redactor>,
    map: fn(&Redactor, &Bytes) -> Bytes,
) -> ResponseOutcome {
    match (outcome, redactor) {
        (ResponseOutcome::Complete { status, headers, body }, Some(redactor)) => {
            let headers = headers.into_iter().map(|(name, value)| (name, map(redactor, &value))).collect();
            ResponseOutcome::Complete { status, headers, body: map(redactor, &body) }
        }
        (outcome, _) => outcome,
    }
}

/// The bytes of a body, which count for its run until the last part of them is dropped.
struct HeldBody {
    bytes: BytesMut,
    _held: HeldBytes,
    _place: Option<Arc<OwnedSemaphorePermit>>,
}

impl AsRef<[u8]> for HeldBody {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// All bytes of a body, at most `most`, counted in `budgets`. One for which there is no room is read to its end all the
/// same: whether the guest can write it must not depend on the host.
pub(super) async fn collect(
    mut body: Body,
    most: u64,
    (policy, budgets, place): (&NetworkPolicy, Vec<Arc<RunBudget>>, Option<Arc<OwnedSemaphorePermit>>),
) -> Result<Bytes, Error> {
    let mut held = HeldBytes::none(budgets);
    let mut bytes = BytesMut::new();
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame?.into_data() {
            if (bytes.len() + data.len()) as u64 > most {
                return Err(Error::HttpRequestBodySize(Some(most)));
            }
            if !held.draw(data.len() as u64) {
                drop((bytes, held, data));
                discard(body).await;
                return Err(
                    policy.over("memory", "the bodies of requests and responses need too much memory")
                );
            }
            bytes.extend_from_slice(&data);
        }
    }
    Ok(Bytes::from_owner(HeldBody { bytes, _held: held, _place: place }))
}

/// Reads a body to its end.
pub(super) async fn discard(mut body: Body) {
    while let Some(Ok(_)) = body.frame().await {}
}
