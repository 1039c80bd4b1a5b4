//! Connections over the limit: each waits for a slot for a second and is then refused with
//! `503`. No request of theirs is read, so each costs a socket and little more.

use super::connection_limit::{ConnectionLimit, ConnectionSlot};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use toolyard_dispatch::Fault;
use toolyard_protocol::response;

/// Connections that wait here at once; the next ones wait in the kernel's queue.
pub(super) const PLACES: usize = 256;
/// The time that a connection waits for a slot.
const WAIT: Duration = Duration::from_secs(1);
/// How long the head of a request that is refused is read, and then what follows it:
/// a socket that is closed with unread bytes in it takes its last answer with it.
const LISTEN: Duration = Duration::from_secs(1);
/// How much of it.
const HEARD: usize = 64 * 1024;

/// Waits for a slot on behalf of a connection that has sent something. `None` if it was refused.
pub(super) async fn wait(
    mut stream: TcpStream,
    limit: &Arc<ConnectionLimit>,
    fault: &Fault,
) -> Option<(TcpStream, ConnectionSlot)> {
    let standing = limit.stand();
    let mut has_spoken = false;
    let seated = async {
        // Not `readable`, which may say so of one that has said nothing: that would have
        // another give way to it for nothing.
        stream.peek(&mut [0]).await.ok()?;
        has_spoken = true;
        Some(limit.next().await)
    };
    if let Ok(Some(slot)) = tokio::time::timeout(WAIT, seated).await {
        return Some((stream, slot));
    }
    drop(standing);
    refuse(&mut stream, has_spoken, fault).await;
    None
}

/// Answers `503` to a client that has no slot. A client that hangs up meanwhile gets no answer.
pub(super) async fn refuse(stream: &mut TcpStream, has_spoken: bool, fault: &Fault) {
    drop(try_refuse(stream, has_spoken, fault).await);
}

/// Nothing of the request is looked at but its end.
async fn try_refuse(stream: &mut TcpStream, has_spoken: bool, fault: &Fault) -> std::io::Result<()> {
    if has_spoken {
        let mut heard = Vec::new();
        let head = async {
            while !heard.windows(4).any(|bytes| bytes == b"\r\n\r\n") && heard.len() < HEARD {
                if stream.read_buf(&mut heard).await? == 0 {
                    break;
                }
            }
            std::io::Result::Ok(())
        };
        // Half a head is answered as well: its client is slow, and learns why.
        if let Ok(broken) = tokio::time::timeout(LISTEN, head).await {
            broken?;
        }
    }
    let body = response::error(None, &fault.rpc());
    let retry = match fault {
        Fault::Busy { retry_after_ms, .. } => retry_after_ms.div_ceil(1000).max(1),
        _ => 1,
    };
    let head = format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
         retry-after: {retry}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(&[head.as_bytes(), &body].concat()).await?;
    stream.shutdown().await?;
    let mut rest = stream.take(HEARD as u64);
    let mut nowhere = tokio::io::sink();
    drop(tokio::time::timeout(LISTEN, tokio::io::copy(&mut rest, &mut nowhere)).await);
    Ok(())
}
