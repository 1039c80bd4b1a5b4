//! Connections over the limit: each waits up to a second for a slot and is then refused with `503`. The host
//! does not parse their requests, so each costs little more than a socket.

use super::connection_limit::{ConnectionLimit, ConnectionSlot};
use super::write_timeout::{ClientStream, peek};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use toolyard_dispatch::{Fault, RETRY_AFTER_MS};
use toolyard_protocol::response;

/// The most connections that wait here at once; further ones wait in the kernel's queue.
pub(super) const MAX_WAITING: usize = 256;
/// How long a connection waits for a slot.
const WAIT: Duration = Duration::from_secs(1);
/// The time limit for reading the head of a refused request, and then for the rest: closing a socket that has
/// unread bytes discards its last answer.
const LISTEN: Duration = Duration::from_secs(1);
/// The most bytes that are read of each.
const MAX_DRAINED: usize = 64 * 1024;

/// Waits for a slot on behalf of a connection that has sent something. `None` if it was refused.
pub(super) async fn wait(
    mut stream: ClientStream,
    limit: &Arc<ConnectionLimit>,
    fault: &Fault,
) -> Option<(ClientStream, ConnectionSlot)> {
    let standing = limit.stand();
    let mut has_spoken = false;
    let seated = async {
        // Not `readable`, which may report a connection that has sent nothing: another connection would then
        // make room for it needlessly.
        peek(&stream).await.ok()?;
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
pub(super) async fn refuse(stream: &mut ClientStream, has_spoken: bool, fault: &Fault) {
    drop(try_refuse(stream, has_spoken, fault).await);
}

/// Ignores everything in the request except its end.
async fn try_refuse(stream: &mut ClientStream, has_spoken: bool, fault: &Fault) -> std::io::Result<()> {
    if has_spoken {
        let mut heard = Vec::new();
        let head = async {
            while !heard.windows(4).any(|bytes| bytes == b"\r\n\r\n") && heard.len() < MAX_DRAINED {
                if stream.read_buf(&mut heard).await? == 0 {
                    break;
                }
            }
            std::io::Result::Ok(())
        };
        // Half a head also gets an answer, so that a slow client learns the reason.
        if let Ok(broken) = tokio::time::timeout(LISTEN, head).await {
            broken?;
        }
    }
    let body = response::error(None, &fault.rpc());
    let retry = RETRY_AFTER_MS.div_ceil(1000);
    let head = format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
         retry-after: {retry}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(&[head.as_bytes(), &body].concat()).await?;
    stream.shutdown().await?;
    let mut rest = stream.take(MAX_DRAINED as u64);
    let mut nowhere = tokio::io::sink();
    drop(tokio::time::timeout(LISTEN, tokio::io::copy(&mut rest, &mut nowhere)).await);
    Ok(())
}
