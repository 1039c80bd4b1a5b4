//! The write timeout of a connection. A client that does not read would hold its slot and its unread answer
//! forever. TCP keep-alive does not detect it, because a client that continues to send looks alive to the
//! kernel.
//!
//! A connection that must make room also ends here. Only this module knows whether the kernel holds unread
//! bytes of the client, so a request that has arrived is still answered.

use super::connection_limit::ConnectionActivity;
use socket2::SockRef;
use std::io::{self, ErrorKind, IoSlice};
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::Sleep;
use tokio_util::either::Either;

/// Fails with [`ErrorKind::TimedOut`] once no write has succeeded for this long.
pub(super) struct TimedStream<S> {
    stream: S,
    time: Duration,
    /// The end of the timeout; present while data waits to be written.
    until: Option<Pin<Box<Sleep>>>,
    activity: Arc<ConnectionActivity>,
}

impl<S: Unpin> TimedStream<S> {
    pub fn new(stream: S, time: Duration, activity: Arc<ConnectionActivity>) -> Self {
        Self { stream, time, until: None, activity }
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

/// A stream that can report whether bytes of its client wait to be read.
pub(super) trait UnreadInput {
    fn has_unread(&self) -> bool;
}

/// A connection through the network, or of a process of the same user.
pub(super) type ClientStream = Either<TcpStream, UnixStream>;

impl UnreadInput for ClientStream {
    fn has_unread(&self) -> bool {
        // The reader handles an end or an error.
        peek_now(self).is_ok_and(|count| count > 0)
    }
}

/// Waits for bytes of the client or its end, and reads nothing. The number of bytes, at most 1.
pub(super) async fn peek(stream: &ClientStream) -> io::Result<usize> {
    match stream {
        Either::Left(tcp) => tcp.async_io(Interest::READABLE, || peek_now(stream)).await,
        Either::Right(unix) => unix.async_io(Interest::READABLE, || peek_now(stream)).await,
    }
}

fn peek_now(stream: &ClientStream) -> io::Result<usize> {
    match stream {
        Either::Left(tcp) => SockRef::from(tcp),
        Either::Right(unix) => SockRef::from(unix),
    }
    .peek(&mut [MaybeUninit::uninit()])
}

impl<S: AsyncRead + UnreadInput + Unpin> AsyncRead for TimedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, into);
        match &read {
            Poll::Ready(Ok(())) if into.filled().len() > before => self.activity.mark_spoken(),
            // Nothing is left to read or to write: to HTTP, this looks like a client that closed its side.
            // The kernel is asked because the runtime may not yet know of bytes that have arrived.
            Poll::Pending if self.until.is_none() && self.activity.may_end() && !self.stream.has_unread() => {
                return Poll::Ready(Ok(()));
            }
            _ => {}
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for TimedStream<S> {
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
    use futures_util::FutureExt as _;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};

    impl UnreadInput for DuplexStream {
        fn has_unread(&self) -> bool {
            // Its reader already sees all bytes.
            false
        }
    }

    #[tokio::test]
    async fn who_takes_nothing_is_cut_off() {
        let (ours, _theirs) = tokio::io::duplex(4);
        let mut ours = TimedStream::new(ours, Duration::from_millis(1), Arc::default());
        let cut = ours.write_all(b"more than there is room for").await.expect_err("no reader");
        assert_eq!(cut.kind(), ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn who_takes_something_is_waited_for() {
        let (ours, mut theirs) = tokio::io::duplex(4);
        let mut ours = TimedStream::new(ours, Duration::from_secs(60), Arc::default());
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

    #[tokio::test]
    async fn who_has_to_leave_is_read_first_and_leaves_in_the_end_unless_it_is_served() {
        for is_served in [true, false] {
            let (ours, mut theirs) = tokio::io::duplex(64);
            let activity = Arc::new(ConnectionActivity::default());
            let mut ours = TimedStream::new(ours, Duration::from_secs(60), activity.clone());
            theirs.write_all(b"request").await.expect("there is room");
            activity.leave();
            let mut bytes = [0; 64];
            assert_eq!(ours.read(&mut bytes).await.expect("it has arrived"), 7);
            assert!(ours.read(&mut bytes).now_or_never().is_none(), "half a request may become a whole one");
            if is_served {
                activity.begin();
                activity.leave_at_once();
                assert!(ours.read(&mut bytes).now_or_never().is_none(), "it is being served");
                activity.end(0);
            } else {
                activity.leave_at_once();
            }
            assert_eq!(ours.read(&mut bytes).now_or_never().expect("an end").expect("no error"), 0);
        }
    }
}
