//! Bodies that count their bytes during the transfer. They buffer nothing: a body that exceeds its
//! limit ends the exchange.

use super::exchange_report::ExchangeReport;
use crate::network::policy::NetworkPolicy;
use bytes::Bytes;
use http::Response;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Body as _, Frame, SizeHint};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, Sleep, sleep, sleep_until};
use toolyard_manifest::Target;
use wasmtime_wasi_http::Error;

/// The body of a request or a response.
pub(crate) type Body = UnsyncBoxBody<Bytes, Error>;
/// The rest of a connection after the response has begun.
pub(crate) type Rest = Box<dyn Future<Output = Result<(), Error>> + Send>;
/// The head of a response, or why there is none.
pub(crate) type Exchanged = Result<(Response<Body>, Rest), Error>;

/// The body of a request.
pub(super) struct RequestBody {
    inner: Body,
    left: u64,
    policy: Arc<NetworkPolicy>,
    report: Arc<ExchangeReport>,
}

/// The body of a response.
pub(super) struct ResponseBody {
    inner: Body,
    left: u64,
    /// The deadline of the exchange.
    end: Pin<Box<Sleep>>,
    /// How long the guest waits between two pieces, and the current deadline.
    patience: Option<(Duration, Pin<Box<Sleep>>)>,
    policy: Arc<NetworkPolicy>,
    target: Target,
    /// Released at the end of the body.
    place: Option<Arc<OwnedSemaphorePermit>>,
    report: Arc<ExchangeReport>,
}

impl RequestBody {
    pub fn new(inner: Body, policy: Arc<NetworkPolicy>, report: Arc<ExchangeReport>) -> Self {
        Self { inner, left: policy.limits.http_request, policy, report }
    }

    /// Records that the body is too large and returns the error.
    pub fn too_large(policy: &NetworkPolicy) -> Error {
        policy.over("http-request", "the body of a request is too large");
        Error::HttpRequestBodySize(Some(policy.limits.http_request))
    }
}

impl hyper::body::Body for RequestBody {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let polled = Pin::new(&mut self.inner).poll_frame(cx);
        if let Poll::Ready(Some(Ok(frame))) = &polled
            && let Some(data) = frame.data_ref()
        {
            let Some(left) = self.left.checked_sub(data.len() as u64) else {
                return Poll::Ready(Some(Err(Self::too_large(&self.policy))));
            };
            self.left = left;
            self.report.sent.fetch_add(data.len() as u64, Ordering::Relaxed);
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

/// A body of these bytes.
pub(super) fn whole(bytes: Bytes) -> Body {
    Full::new(bytes).map_err(|never| match never {}).boxed_unsync()
}

impl ResponseBody {
    pub fn new(
        inner: Body,
        report: Arc<ExchangeReport>,
        (policy, target): (Arc<NetworkPolicy>, Target),
        end: Instant,
        patience: Option<Duration>,
        place: Arc<OwnedSemaphorePermit>,
    ) -> Self {
        let left = policy.limits.http_response;
        let end = Box::pin(sleep_until(end));
        let patience = patience.map(|time| (time, Box::pin(sleep(time))));
        Self { inner, left, end, patience, policy, target, place: Some(place), report }
    }

    fn next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        if self.end.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Some(Err(self.policy.over("http-time", "a response took too long"))));
        }
        match Pin::new(&mut self.inner).poll_frame(cx) {
            Poll::Pending => {
                let Some((_, until)) = &mut self.patience else { return Poll::Pending };
                until.as_mut().poll(cx).map(|()| Some(Err(Error::ConnectionReadTimeout)))
            }
            ended @ Poll::Ready(None | Some(Err(_))) => ended,
            Poll::Ready(Some(Ok(frame))) => {
                let length = frame.data_ref().map_or(0, Bytes::len) as u64;
                let Some(left) = self.left.checked_sub(length) else {
                    self.policy.over("http-response", "the body of a response is too large");
                    let most = self.policy.limits.http_response;
                    return Poll::Ready(Some(Err(Error::HttpResponseBodySize(Some(most)))));
                };
                self.left = left;
                if let Some((time, until)) = &mut self.patience {
                    until.as_mut().reset(Instant::now() + *time);
                }
                Poll::Ready(Some(Ok(frame)))
            }
        }
    }
}

impl hyper::body::Body for ResponseBody {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let polled = self.next(cx);
        if let Poll::Ready(Some(Err(error))) = &polled {
            self.policy.failed(&self.target, error);
        }
        match &polled {
            Poll::Pending => {}
            Poll::Ready(Some(Ok(frame))) => self.report.receive(frame.data_ref().map_or(0, Bytes::len)),
            Poll::Ready(Some(Err(error))) => self.report.fail(error),
            Poll::Ready(None) => self.report.end(None),
        }
        if let Poll::Ready(None | Some(Err(_))) = &polled {
            self.place = None;
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

impl Drop for ResponseBody {
    fn drop(&mut self) {
        self.report.abandon();
    }
}
