//! The standard output and error of guests. They go to the host's log and to the run's context line by
//! line, up to a limit for each run. Further output is discarded, because writing must never fail a guest.

use crate::grant::redact::Redactor;
use crate::journal::GuestJournal;
use async_trait::async_trait;
use parking_lot::Mutex;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::io::AsyncWrite;
use toolyard_task::RunContext;
use toolyard_task::tool::{OutputStream as Stream, Report};
use toolyard_task::wire::visible;
use wasmtime_wasi::cli::{IsTerminal, StdoutStream};
use wasmtime_wasi::p2::{OutputStream, Pollable, StreamResult};

/// Longer lines are split into pieces of this many bytes.
const MAX_LINE_BYTES: usize = 4 << 10;
/// The maximum number of bytes in one write of a guest.
const MAX_WRITE_BYTES: usize = 64 << 10;

/// An output stream of a run. Clones write to the same stream.
#[derive(Clone)]
pub(crate) struct GuestOutput(Arc<Mutex<Lines>>);

/// The number of bytes that a run may still write to both streams together.
pub(crate) type Budget = Arc<Mutex<OutputLeft>>;

/// The remaining bytes, and whether the log already says that none are left.
pub(crate) struct OutputLeft {
    bytes: usize,
    told: bool,
}

/// Creates the budget of a run.
pub(crate) fn budget(bytes: u64) -> Budget {
    Arc::new(Mutex::new(OutputLeft { bytes: usize::try_from(bytes).unwrap_or(usize::MAX), told: false }))
}

struct Lines {
    plugin: Arc<str>,
    tool: Arc<str>,
    stream: Stream,
    line: Vec<u8>,
    budget: Budget,
    redactor: Option<Arc<Redactor>>,
    context: Arc<dyn RunContext>,
    /// The journal of a run that can be repeated. The host does not show again the output that such a run repeats.
    journal: Option<Arc<GuestJournal>>,
    /// Whether output was discarded because the budget was spent.
    swallows: bool,
}

impl GuestOutput {
    pub fn new(
        (plugin, tool): (&Arc<str>, &Arc<str>),
        stream: Stream,
        budget: &Budget,
        redactor: Option<Arc<Redactor>>,
        context: Arc<dyn RunContext>,
        journal: Option<Arc<GuestJournal>>,
    ) -> Self {
        let line = Vec::new();
        let (plugin, tool, budget) = (plugin.clone(), tool.clone(), budget.clone());
        let lines = Lines { plugin, tool, stream, line, budget, redactor, context, journal, swallows: false };
        Self(Arc::new(Mutex::new(lines)))
    }

    fn take(&self, bytes: &[u8]) {
        self.0.lock().take(bytes);
    }
}

impl Lines {
    fn take(&mut self, bytes: &[u8]) {
        let (allowed, is_over) = {
            let mut left = self.budget.lock();
            let allowed = bytes.len().min(left.bytes);
            let is_over = allowed < bytes.len() && !left.told;
            left.bytes -= allowed;
            left.told |= is_over;
            self.swallows |= allowed < bytes.len();
            (allowed, is_over)
        };
        // A secret that begins in one piece of a long line must be complete in that piece.
        let most = MAX_LINE_BYTES + self.redactor.as_ref().map_or(0, |redactor| redactor.longest());
        for &byte in &bytes[..allowed] {
            if byte == b'\n' {
                self.flush();
            } else {
                if self.line.len() >= most {
                    self.flush_piece();
                }
                self.line.push(byte);
            }
        }
        if is_over {
            self.flush();
            tracing::warn!(
                target: "guest", event = "guest.output_limit_reached", plugin = %self.plugin,
                tool = %self.tool, stream = self.stream.as_str(), setting = "limits.stdio",
                "run writes more than its limit; the rest is dropped"
            );
        }
    }

    fn flush_piece(&mut self) {
        let end = match &self.redactor {
            Some(redactor) => redactor.part(&self.line, MAX_LINE_BYTES),
            None => self.line.len(),
        };
        let rest = self.line.split_off(end);
        self.flush();
        self.line = rest;
    }

    fn flush(&mut self) {
        if self.line.is_empty() {
            return;
        }
        if self.journal.as_ref().is_some_and(|journal| !journal.is_live()) {
            self.line.clear();
            return;
        }
        let line = self.shown();
        tracing::info!(
            target: "guest", event = "guest.log", plugin = %self.plugin, tool = %self.tool,
            stream = self.stream.as_str(),
            "{line}"
        );
        self.line.clear();
        self.context.report(Report::Output { stream: self.stream, line });
    }

    /// The line in the form that is logged.
    fn shown(&self) -> String {
        let line = printable(&self.line);
        match &self.redactor {
            // Text that was truncated at the limit may have been cut within a secret.
            Some(redactor) if self.swallows => redactor.cut_text(line),
            Some(redactor) => redactor.text(line),
            None => line,
        }
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        self.flush();
    }
}

/// Makes one line of text safe to print: a guest must not send control sequences to the terminal of
/// a person who reads the log.
pub(crate) fn printable(bytes: &[u8]) -> String {
    visible::line(&String::from_utf8_lossy(bytes)).into_owned()
}

impl IsTerminal for GuestOutput {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdoutStream for GuestOutput {
    fn async_stream(&self) -> Box<dyn AsyncWrite + Send + Sync> {
        Box::new(self.clone())
    }

    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(self.clone())
    }
}

impl OutputStream for GuestOutput {
    fn write(&mut self, bytes: bytes::Bytes) -> StreamResult<()> {
        self.take(&bytes);
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(MAX_WRITE_BYTES)
    }
}

#[async_trait]
impl Pollable for GuestOutput {
    async fn ready(&mut self) {}
}

impl AsyncWrite for GuestOutput {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<std::io::Result<usize>> {
        self.take(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grant::secret::Secret;
    use toolyard_task::Unattended;

    fn output(budget: &Budget, secret: Option<&str>) -> GuestOutput {
        let secrets = secret.map(|value| Secret::new("KEY", value).expect("long enough"));
        let redactor = Redactor::new(secrets.as_slice()).expect("small").map(Arc::new);
        let names = (&"p.wasm".into(), &"t".into());
        GuestOutput::new(names, Stream::Stdout, budget, redactor, Arc::new(Unattended), None)
    }

    fn shown(output: &GuestOutput) -> String {
        output.0.lock().shown()
    }

    #[test]
    fn lines_are_cut_at_the_budget_and_cleaned() {
        let budget = budget(10);
        let output = output(&budget, None);
        let line = || output.0.lock().line.clone();
        output.take(b"one\ntwo");
        assert_eq!(line(), b"two");
        output.take(b" th");
        let state = || {
            let left = budget.lock();
            (left.bytes, left.told)
        };
        assert_eq!((line(), state()), (b"two th".to_vec(), (0, false)));
        output.take(b"r");
        assert_eq!((line(), state()), (Vec::new(), (0, true)), "flushed and reported");
        output.take(b"four");
        assert!(line().is_empty());
        assert_eq!(printable(b"a\x1b[31mb\xff"), "a\\u{1b}[31mb\u{fffd}");
    }

    #[test]
    fn a_secret_is_not_logged_wherever_a_line_is_parted() {
        let secret = "abcdefghij";
        for before in MAX_LINE_BYTES - secret.len() - 1..=MAX_LINE_BYTES + 1 {
            let output = output(&budget(1 << 20), Some(secret));
            output.take("x".repeat(before).as_bytes());
            output.take(secret.as_bytes());
            // Enough to flush the first piece to the log.
            output.take("y".repeat(MAX_LINE_BYTES - 200).as_bytes());
            let rest = shown(&output);
            assert!(!rest.contains("ij") && !rest.contains("ab"), "{before}: {rest}");
        }
        let output = output(&budget(8), Some(secret));
        output.take(&secret.as_bytes()[..8]);
        output.0.lock().swallows = true;
        assert_eq!(shown(&output), "[secret KEY]", "although it was cut");
    }
}
