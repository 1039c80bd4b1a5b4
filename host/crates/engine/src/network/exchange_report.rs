//! Reports one HTTP exchange to the context of its run: once, at its end or at that of the run. It has no
//! path, query or body.

use super::error::code;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use toolyard_task::RunContext;
use toolyard_task::host_call::{HostAction, HostCall, HttpRequest};
use toolyard_task::tool::Report;
use wasmtime_wasi_http::Error;

/// The error of an exchange that its run did not wait for.
const NOT_FINISHED: &str = "not-finished";

/// An exchange under way.
pub(crate) struct ExchangeReport {
    context: Arc<dyn RunContext>,
    /// Bytes of the request's body so far.
    pub sent: AtomicU64,
    progress: Mutex<Progress>,
}

struct Progress {
    began: Instant,
    request: HttpRequest,
    is_over: bool,
}

impl ExchangeReport {
    pub fn new(context: Arc<dyn RunContext>, request: HttpRequest) -> Arc<Self> {
        let progress = Progress { began: Instant::now(), request, is_over: false };
        Arc::new(Self { context, sent: AtomicU64::new(0), progress: Mutex::new(progress) })
    }

    /// Nothing has been sent before: a person may take any time to permit a request.
    pub fn begin(&self) {
        self.progress.lock().began = Instant::now();
    }

    /// The head of the response is there.
    pub fn respond(&self, status: u16) {
        let mut progress = self.progress.lock();
        progress.request.status = Some(status);
        progress.request.first_byte = Some(progress.began.elapsed());
    }

    /// The guest has read this many bytes.
    pub fn receive(&self, bytes: usize) {
        self.progress.lock().request.received += bytes as u64;
    }

    /// The exchange has ended with this error.
    pub fn fail(&self, error: &Error) {
        self.end(Some(code(error)));
    }

    /// The exchange, or its run, has ended. Only the first end counts.
    pub fn end(&self, error: Option<&'static str>) {
        let mut progress = self.progress.lock();
        if std::mem::replace(&mut progress.is_over, true) {
            return;
        }
        let took = progress.began.elapsed();
        let mut request = std::mem::take(&mut progress.request);
        drop(progress);
        request.sent = self.sent.load(Ordering::Relaxed);
        request.error = error;
        self.context.report(Report::HostCall(Box::new(HostCall { took, what: HostAction::Http(request) })));
    }

    /// The run has ended, or the guest has dropped the response. It does not need a body to its end.
    pub fn abandon(&self) {
        let has_response = self.progress.lock().request.status.is_some();
        self.end((!has_response).then_some(NOT_FINISHED));
    }

    pub fn is_over(&self) -> bool {
        self.progress.lock().is_over
    }
}
