//! The body of a request: one block of bytes, bounded in size and time before anything parses it (H-7).

use crate::server::Server;
use bytes::Bytes;
use http::HeaderMap;
use http::header::CONTENT_LENGTH;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::Incoming;
use std::sync::Arc;
use toolyard_dispatch::{Held, NoRoom, RateKey, UNCOUNTED};

/// The most bytes that are discarded of a body that is too large.
const MAX_DRAINED: usize = 64 << 20;
/// Bytes are counted in steps of this size.
const STEP: usize = 256 << 10;

/// The reason why there is no body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BodyError {
    TooLarge,
    TooSlow,
    Broken,
    NoRoom(NoRoom),
}

/// Reads a body on behalf of a principal, within the limits of the server. `key` is called only for a large body.
pub(crate) async fn read(
    headers: &HeaderMap,
    body: Incoming,
    server: &Server,
    key: impl FnOnce() -> RateKey,
) -> Result<Bytes, BodyError> {
    let most = server.settings.message_bytes;
    let announced =
        headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    let read = async {
        match announced {
            Some(length) if length > most + MAX_DRAINED => Err(BodyError::TooLarge),
            Some(length) if length > most => Err(drained(body, length, BodyError::TooLarge).await),
            Some(length) if length <= UNCOUNTED => small(body, most).await,
            // In a box, because few requests need it.
            _ => Box::pin(counted(body, most, announced, server.shares.messages.none(key()))).await,
        }
    };
    tokio::time::timeout(server.settings.body_time, read).await.unwrap_or(Err(BodyError::TooSlow))
}

async fn small(body: Incoming, most: usize) -> Result<Bytes, BodyError> {
    match Limited::new(body, most).collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) if error.downcast_ref::<LengthLimitError>().is_some() => Err(BodyError::TooLarge),
        Err(_) => Err(BodyError::Broken),
    }
}

/// Counts the bytes that have arrived, not the announced length, because announcing costs the sender nothing.
async fn counted(
    mut body: Incoming,
    most: usize,
    announced: Option<usize>,
    mut counted: Held,
) -> Result<Bytes, BodyError> {
    // Announced bytes that do not arrive are never touched, so they cost no memory.
    let mut bytes: Vec<u8> = Vec::with_capacity(announced.unwrap_or_default());
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(|_| BodyError::Broken)?.into_data() else { continue };
        let length = bytes.len() + data.len();
        if length > most {
            drop((bytes, counted));
            return Err(drained(body, MAX_DRAINED, BodyError::TooLarge).await);
        }
        if length > UNCOUNTED && length > counted.amount() {
            let wanted = length.next_multiple_of(STEP).min(announced.unwrap_or(most)).max(length);
            if let Err(no_room) = counted.grow_to(wanted) {
                drop((bytes, counted));
                return Err(drained(body, most - length.min(most), BodyError::NoRoom(no_room)).await);
            }
        }
        bytes.extend_from_slice(&data);
    }
    if bytes.len() <= UNCOUNTED {
        return Ok(bytes.into());
    }
    Ok(Arc::new(counted).keep(bytes))
}

/// Reads and discards the rest of a body, up to `most` bytes: a client that is disconnected while it sends does not
/// learn the reason (RFC 9112, section 9.6).
async fn drained(mut body: Incoming, most: usize, why: BodyError) -> BodyError {
    let mut taken = 0;
    while let Some(Ok(frame)) = body.frame().await {
        taken += frame.data_ref().map_or(0, Bytes::len);
        if taken > most {
            break;
        }
    }
    why
}
