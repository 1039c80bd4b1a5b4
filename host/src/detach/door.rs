//! The background host's own side: relays come in here, and when nothing is left to do it
//! ends by itself.

use super::Greeting;
use super::reach::Closing;
use crate::config::limits::Limits;
use std::io::{self, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::UnixListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval};
use toolyard_transport::{Server, stdio};

/// How often it is looked whether anything is left to do.
const LOOK: Duration = Duration::from_millis(250);

/// How long a relay may take to make room for a greeting, which is a line.
const GREETING: Duration = Duration::from_secs(1);

/// Where relays come in.
pub struct Door {
    server: Arc<Server>,
    most: usize,
    linger: Duration,
    relays: JoinSet<()>,
}

impl Door {
    /// A door to this server.
    pub fn new(server: Arc<Server>, limits: &Limits) -> Self {
        let most = limits.detach_connections as usize;
        Self { server, most, linger: limits.detach_linger, relays: JoinSet::new() }
    }

    /// Serves until `stop` turns true, or nobody has been connected and nothing has run
    /// for `detach.linger`.
    pub async fn serve(&mut self, listener: &UnixListener, mut stop: watch::Receiver<bool>) {
        let mut looks = interval(LOOK);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut busy = Instant::now();
        let stopping = stop.clone();
        loop {
            tokio::select! {
                biased;
                _ = stop.wait_for(|stop| *stop) => {
                    tracing::info!("the background host was told to end");
                    return;
                }
                came = listener.accept() => match came {
                    Ok((stream, _)) => self.take(stream, stopping.clone()),
                    // Out of descriptors, most likely: those that are open are served.
                    Err(error) => {
                        tracing::warn!(%error, "a relay was not let in");
                        tokio::time::sleep(LOOK).await;
                    }
                },
                Some(ended) = self.relays.join_next() => {
                    if let Err(error) = ended {
                        tracing::error!(%error, "serving a relay has failed");
                    }
                }
                _ = looks.tick() => {}
            }
            if !self.relays.is_empty() || !self.server.dispatch.is_idle() {
                busy = Instant::now();
            } else if busy.elapsed() >= self.linger {
                tracing::info!("the background host ends: nothing is left to do");
                return;
            }
        }
    }

    /// Waits for the relays to be served to their end.
    pub async fn close(mut self) {
        while self.relays.join_next().await.is_some() {}
    }

    fn take(&mut self, stream: tokio::net::UnixStream, stop: watch::Receiver<bool>) {
        match self.greet(stream) {
            Ok(Some(stream)) => {
                tracing::info!(relays = self.relays.len() + 1, "a relay has come");
                let server = self.server.clone();
                self.relays.spawn(async move {
                    if let Err(error) = serve(server, stream, stop).await {
                        tracing::warn!(%error, "a relay was not served");
                    }
                    tracing::info!("a relay has gone");
                });
            }
            Ok(None) => {}
            Err(error) => tracing::warn!(%error, "a relay was not let in"),
        }
    }

    /// Lets in whoever is the same user, if there is room.
    fn greet(&self, stream: tokio::net::UnixStream) -> io::Result<Option<UnixStream>> {
        let peer = stream.peer_cred()?;
        // The folder is closed to others already; root comes through any door.
        if peer.uid() != rustix::process::geteuid().as_raw() {
            tracing::warn!(uid = peer.uid(), "somebody else wanted in");
            return Ok(None);
        }
        let mut stream = stream.into_std()?;
        stream.set_nonblocking(false)?;
        stream.set_write_timeout(Some(GREETING))?;
        let full = self.relays.len() >= self.most;
        let refused =
            full.then(|| format!("{} relays are connected, the most (detach.connections)", self.most));
        let open = refused.is_none();
        let greeting =
            Greeting { toolyard: env!("CARGO_PKG_VERSION").to_owned(), process: std::process::id(), refused };
        writeln!(stream, "{}", serde_json::to_string(&greeting)?)?;
        stream.set_write_timeout(None)?;
        Ok(open.then_some(stream))
    }
}

async fn serve(server: Arc<Server>, stream: UnixStream, stop: watch::Receiver<bool>) -> io::Result<()> {
    let input = BufReader::new(stream.try_clone()?);
    stdio::serve_relay(server, input, Closing(stream), stop).await;
    Ok(())
}
