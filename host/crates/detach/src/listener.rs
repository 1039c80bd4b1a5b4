//! The side of the background host: it accepts relays, and ends by itself when nothing is left to do.

use crate::Greeting;
use crate::connect::Closing;
use crate::runtime_dir::{Lock, Socket};
use std::future::ready;
use std::io::{self, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::UnixListener;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;
use toolyard_transport::Server;
use toolyard_transport::stdio::{self, PipeClient};

/// How often the listener checks whether anything is left to do.
const LOOK: Duration = Duration::from_millis(250);

/// How long the host keeps running without a relay or a task. A restarted client finds it again; starting a
/// new host takes less than a second, because the plugins are already compiled.
const LINGER: Duration = Duration::from_secs(2);

/// The most relays at once. Each is a process of the same user with its own client, so more of them indicate
/// a mistake or a loop.
const MAX_RELAYS: usize = 64;

/// How long a relay may take to accept the greeting, which is one line.
const GREETING: Duration = Duration::from_secs(1);

/// Serves relays at the socket of a background host.
pub struct Listener {
    server: Arc<Server>,
    listener: UnixListener,
    lock: Lock,
    relays: JoinSet<()>,
}

impl Listener {
    /// A listener at this socket. It ends when no relay has been connected and no call has run for two
    /// seconds.
    ///
    /// # Errors
    /// If the async runtime does not accept the socket.
    ///
    /// # Panics
    /// Outside an async runtime.
    pub fn new(socket: Socket, server: Arc<Server>) -> io::Result<Self> {
        let listener = UnixListener::from_std(socket.listener)?;
        Ok(Self { server, listener, lock: socket.lock, relays: JoinSet::new() })
    }

    /// Serves until `stop` is cancelled, or until nothing is left to do.
    pub async fn serve(&mut self, stop: CancellationToken) {
        let mut looks = interval(LOOK);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut busy = Instant::now();
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => {
                    tracing::info!(event = "background.stopped", reason = "signal", "background host stops");
                    return;
                }
                came = self.listener.accept() => match came {
                    Ok((stream, _)) => self.take(stream, stop.child_token()),
                    // Most likely the process has no free descriptors: continue to serve the open
                    // connections.
                    Err(error) => {
                        tracing::warn!(event = "background.accept_failed", %error, "cannot accept relay");
                        tokio::time::sleep(LOOK).await;
                    }
                },
                Some(ended) = self.relays.join_next() => {
                    if let Err(error) = ended {
                        tracing::error!(event = "background.relay_panicked", %error, "relay panicked");
                    }
                }
                _ = looks.tick() => {}
            }
            if !self.relays.is_empty() || !self.server.dispatch.is_idle() {
                busy = Instant::now();
            } else if busy.elapsed() >= LINGER {
                tracing::info!(event = "background.stopped", reason = "idle", "background host stops");
                return;
            }
        }
    }

    /// Releases the socket and the lock, and then waits until all connected relays have ended. The next
    /// background host accepts relays that connect meanwhile.
    pub async fn close(self) {
        let Self { listener, lock, mut relays, .. } = self;
        lock.release();
        drop(listener);
        while relays.join_next().await.is_some() {}
    }

    fn take(&mut self, stream: tokio::net::UnixStream, stop: CancellationToken) {
        match self.greet(stream) {
            Ok(Some(stream)) => {
                tracing::info!(
                    event = "background.relay_connected",
                    relays = self.relays.len() + 1,
                    "relay connected"
                );
                let server = self.server.clone();
                self.relays.spawn(async move {
                    if let Err(error) = serve(server, stream, stop).await {
                        tracing::warn!(event = "background.relay_failed", %error, "cannot serve relay");
                    }
                    tracing::info!(event = "background.relay_disconnected", "relay disconnected");
                });
            }
            Ok(None) => {}
            Err(error) => tracing::warn!(event = "background.accept_failed", %error, "cannot accept relay"),
        }
    }

    /// Greets a relay of the same user; `None` if it belongs to another user, or if too many relays are
    /// connected.
    fn greet(&self, stream: tokio::net::UnixStream) -> io::Result<Option<UnixStream>> {
        let peer = stream.peer_cred()?;
        // The permissions of the folder keep other users out, but not root.
        if peer.uid() != rustix::process::geteuid().as_raw() {
            tracing::warn!(
                event = "background.user_refused",
                uid = peer.uid(),
                "connection of another user refused"
            );
            return Ok(None);
        }
        let mut stream = stream.into_std()?;
        stream.set_nonblocking(false)?;
        stream.set_write_timeout(Some(GREETING))?;
        let full = self.relays.len() >= MAX_RELAYS;
        let refused = full.then(|| format!("{MAX_RELAYS} relays are connected, the most"));
        let open = refused.is_none();
        let greeting = Greeting {
            toolyard: self.server.identity.info.version.clone(),
            process: std::process::id(),
            refused,
        };
        writeln!(stream, "{}", serde_json::to_string(&greeting)?)?;
        stream.set_write_timeout(None)?;
        Ok(open.then_some(stream))
    }
}

async fn serve(server: Arc<Server>, stream: UnixStream, stop: CancellationToken) -> io::Result<()> {
    let input = BufReader::new(stream.try_clone()?);
    stdio::serve(server, PipeClient::Relay, input, Closing(stream), stop, ready(())).await;
    Ok(())
}
