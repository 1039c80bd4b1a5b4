//! A connection whose client takes what it is sent, or is cut off: one that does not
//! read would hold its seat, and what it was sent, for as long as it liked. The kernel
//! alone does not tell: a client that goes on sending looks alive to it.

use std::io::{self, ErrorKind, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

/// Fails with [`ErrorKind::TimedOut`] once nothing could be written for so long.
pub(super) struct Patient<S> {
    stream: S,
    time: Duration,
    /// When patience ends; there while something waits to be written.
    until: Option<Pin<Box<Sleep>>>,
}

impl<S: Unpin> Patient<S> {
    pub fn new(stream: S, time: Duration) -> Self {
        Self { stream, time, until: None }
    }

    fn attempt<T>(
        &mut self,
        context: &mut Context<'_>,
        write: impl FnOnce(Pin<&mut S>, &mut Context<'_>) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        let written = write(Pin::new(&mut self.stream), context);
        if written.is_ready() {
            self.until = None;
            return written;
        }
        let time = self.time;
        let until = self.until.get_or_insert_with(|| Box::pin(tokio::time::sleep(time)));
        until.as_mut().poll(context).map(|()| Err(ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, into)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.attempt(context, |stream, context| stream.poll_write(context, bytes))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.attempt(context, |stream, context| stream.poll_write_vectored(context, slices))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.attempt(context, |stream, context| stream.poll_flush(context))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.attempt(context, |stream, context| stream.poll_shutdown(context))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    #[tokio::test]
    async fn who_takes_nothing_is_cut_off() {
        let (ours, _theirs) = tokio::io::duplex(4);
        let mut ours = Patient::new(ours, Duration::from_millis(1));
        let cut = ours.write_all(b"more than there is room for").await.expect_err("nobody reads");
        assert_eq!(cut.kind(), ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn who_takes_something_is_waited_for() {
        let (ours, mut theirs) = tokio::io::duplex(4);
        let mut ours = Patient::new(ours, Duration::from_secs(60));
        let text = b"more than there is room for at once";
        let (written, read) = tokio::join!(
            async {
                ours.write_all(text).await?;
                ours.shutdown().await
            },
            async {
                let mut read = Vec::new();
                theirs.read_to_end(&mut read).await.map(|_| read)
            }
        );
        written.expect("it is taken");
        assert_eq!(read.expect("it is sent"), text);
        assert!(ours.until.is_none());
    }
}
