//! A proxy between a host and its database, whose faults a test switches while it runs: a network that passes
//! nothing, passes data only in one direction, delays it, or breaks off in the middle of a message. The proxy
//! does not interpret the data.
//!
//! Its buffers are bounded: one piece in each direction of each connection; the rest stays with the sender.
//! Everything that the proxy has started ends when it is dropped.

use std::io::{self, ErrorKind};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::Instant;

/// The maximal number of bytes in one read.
const PIECE: usize = 16 << 10;

/// A direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// From the client to the server.
    ToServer,
    /// From the server to the client.
    ToClient,
}

/// The fault of the network. It applies to open connections and to new ones, until the test switches it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// No fault: data passes at once.
    None,
    /// Each piece passes this much later, in both directions. Data that arrives meanwhile passes with it.
    Delay(Duration),
    /// A connection is reset when this many bytes have passed on it in this direction since the fault was
    /// switched on.
    Cut(Way, u64),
    /// Nothing passes, not even the end of a connection. All connections stay open, and new ones are
    /// accepted.
    Hole,
    /// Data passes in this direction only.
    Only(Way),
    /// Connections are reset, and new ones as soon as they arrive.
    Refuse,
}

/// The state of the switch.
#[derive(Debug, Clone, Copy)]
struct Switch {
    fault: Fault,
    /// How often the fault was switched.
    turns: u64,
    /// How often all connections were reset.
    resets: u64,
}

/// A proxy on a free port. Dropping it also closes its connections.
#[derive(Debug)]
pub struct FaultProxy {
    port: u16,
    switch: watch::Sender<Switch>,
    task: JoinHandle<()>,
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl FaultProxy {
    /// A proxy in front of `port` on this machine, without a fault.
    ///
    /// # Panics
    /// If there is no free port.
    pub async fn before(port: u16) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port");
        let own = listener.local_addr().expect("an address").port();
        let (switch, switched) = watch::channel(Switch { fault: Fault::None, turns: 0, resets: 0 });
        let task = tokio::spawn(accept(listener, port, switched));
        Self { port: own, switch, task }
    }

    /// The port that it listens on.
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// Switches to this fault.
    pub fn switch(&self, fault: Fault) {
        self.switch.send_modify(|switch| {
            switch.fault = fault;
            switch.turns += 1;
        });
    }

    /// Resets every open connection; the fault decides about new ones.
    pub fn reset(&self) {
        self.switch.send_modify(|switch| switch.resets += 1);
    }
}

async fn accept(listener: TcpListener, server: u16, switched: watch::Receiver<Switch>) {
    // Dropping the proxy drops these connections.
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            taken = listener.accept() => {
                let Ok((client, _)) = taken else { return };
                let resets = switched.borrow().resets;
                connections.spawn(serve(client, server, switched.clone(), resets));
            }
            // Removes finished connections.
            Some(_) = connections.join_next() => {}
        }
    }
}

/// Serves one connection until it ends.
async fn serve(mut client: TcpStream, server: u16, mut switched: watch::Receiver<Switch>, resets: u64) {
    let mut orders = switched.clone();
    // An error means that the proxy has ended, which also drops this connection.
    let reset =
        async move { drop(orders.wait_for(|now| now.resets > resets || now.fault == Fault::Refuse).await) };
    tokio::pin!(reset);
    let opened = tokio::select! {
        biased;
        () = &mut reset => None,
        opened = open(server, &mut switched) => opened,
    };
    let Some(mut upstream) = opened else { return end(&[client]) };
    // Small writes pass at once.
    drop(client.set_nodelay(true));
    drop(upstream.set_nodelay(true));
    let (from_client, to_client) = client.split();
    let (from_server, to_server) = upstream.split();
    let lane = |way| Lane { way, switched: switched.clone(), turns: 0, passed: 0 };
    // A reset of one direction resets the other one too.
    let both = async {
        let there = lane(Way::ToServer).carry(from_client, to_server);
        tokio::try_join!(there, lane(Way::ToClient).carry(from_server, to_client))
    };
    let is_closed = tokio::select! {
        biased;
        () = &mut reset => false,
        ended = both => ended.is_ok(),
    };
    if !is_closed {
        end(&[client, upstream]);
    }
}

/// Resets the open streams of a connection.
fn end(streams: &[TcpStream]) {
    for stream in streams {
        // Without linger time, closing the socket sends a reset.
        drop(stream.set_zero_linger());
    }
}

/// Connects to the server, once data may reach it; `None` if the server does not listen.
async fn open(server: u16, switched: &mut watch::Receiver<Switch>) -> Option<TcpStream> {
    let reaches = |now: &Switch| !matches!(now.fault, Fault::Hole | Fault::Only(Way::ToClient));
    switched.wait_for(reaches).await.ok()?;
    TcpStream::connect(("127.0.0.1", server)).await.ok()
}

/// One direction of a connection.
struct Lane {
    way: Way,
    switched: watch::Receiver<Switch>,
    /// The switch count at which `passed` started.
    turns: u64,
    passed: u64,
}

impl Lane {
    /// Forwards the data until the end of the stream.
    async fn carry(mut self, mut from: ReadHalf<'_>, mut to: WriteHalf<'_>) -> io::Result<()> {
        let mut piece = vec![0; PIECE];
        loop {
            let read = from.read(&mut piece).await?;
            let came = Instant::now();
            let mut left = &piece[..read];
            while !left.is_empty() {
                let most = self.may_pass(came).await.ok_or(ErrorKind::ConnectionReset)?;
                let most = left.len().min(usize::try_from(most).unwrap_or(usize::MAX));
                let written = to.write(&left[..most]).await?;
                left = &left[written..];
                self.passed += written as u64;
                if self.is_cut() {
                    return Err(ErrorKind::ConnectionReset.into());
                }
            }
            if read == 0 {
                self.may_pass(came).await.ok_or(ErrorKind::ConnectionReset)?;
                return to.shutdown().await;
            }
        }
    }

    /// Waits until data that arrived at `came` may pass, and returns the number of bytes that may; `None` if
    /// the connection is cut instead.
    async fn may_pass(&mut self, came: Instant) -> Option<u64> {
        loop {
            let now = *self.switched.borrow_and_update();
            if self.turns != now.turns {
                (self.turns, self.passed) = (now.turns, 0);
            }
            match now.fault {
                Fault::None => return Some(u64::MAX),
                Fault::Only(way) if way == self.way => return Some(u64::MAX),
                Fault::Cut(way, after) if way == self.way => {
                    return after.checked_sub(self.passed).filter(|left| *left > 0);
                }
                Fault::Cut(..) => return Some(u64::MAX),
                Fault::Delay(delay) => {
                    let over = tokio::time::timeout_at(came + delay, self.switched.changed()).await;
                    match over {
                        Err(_) => return Some(u64::MAX),
                        Ok(switched) => switched.ok()?,
                    }
                }
                // A reset applies to the whole connection.
                Fault::Hole | Fault::Only(_) | Fault::Refuse => self.switched.changed().await.ok()?,
            }
        }
    }

    /// Whether all bytes that may pass have passed.
    fn is_cut(&self) -> bool {
        let now = *self.switched.borrow();
        matches!(now.fault, Fault::Cut(way, after) if way == self.way && now.turns == self.turns && self.passed >= after)
    }
}

#[cfg(test)]
mod tests;
