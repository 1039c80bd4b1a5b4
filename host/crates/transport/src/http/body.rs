//! The body of a request: one block of bytes, capped and timed before anything
//! looks at it (H-7). Large ones are counted for as long as anything of them is held,
//! which may be as long as the call goes on whose arguments they are.

use bytes::Bytes;
use http::HeaderMap;
use http::header::CONTENT_LENGTH;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::Incoming;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A body up to this size is not counted: the number of connections bounds these bodies, and nearly
/// every call has one.
const UNCOUNTED: usize = 64 << 10;
/// Counted in steps of so many bytes.
const STEP: usize = 256 << 10;

/// Why there is no body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BodyError {
    TooLarge,
    TooSlow,
    Broken,
    /// This limit leaves no room for it now.
    NoRoom(&'static str),
}

/// How much of large bodies is held.
pub(crate) struct BodyBudget {
    most: usize,
    per_principal: usize,
    state: Mutex<BudgetState>,
}

#[derive(Default)]
struct BudgetState {
    bytes: usize,
    principals: HashMap<Arc<str>, usize>,
}

/// Bytes that are counted until this is dropped.
struct BodyReservation {
    budget: Arc<BodyBudget>,
    principal: Arc<str>,
    bytes: usize,
}

impl BodyBudget {
    pub fn new(most: usize, per_principal: usize) -> Arc<Self> {
        Arc::new(Self { most, per_principal, state: Mutex::default() })
    }

    fn take(&self, principal: &Arc<str>, bytes: usize) -> Result<(), BodyError> {
        let mut state = self.lock();
        let own = state.principals.get(principal).copied().unwrap_or_default();
        if own + bytes > self.per_principal {
            return Err(BodyError::NoRoom("wire.body-bytes-per-principal"));
        }
        if state.bytes + bytes > self.most {
            return Err(BodyError::NoRoom("wire.body-bytes"));
        }
        state.bytes += bytes;
        state.principals.insert(principal.clone(), own + bytes);
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, BudgetState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl BodyReservation {
    fn none(budget: &Arc<BodyBudget>, principal: Arc<str>) -> Self {
        Self { budget: budget.clone(), principal, bytes: 0 }
    }

    /// Counts so many bytes in all.
    fn grow_to(&mut self, bytes: usize) -> Result<(), BodyError> {
        if bytes > self.bytes {
            self.budget.take(&self.principal, bytes - self.bytes)?;
            self.bytes = bytes;
        }
        Ok(())
    }
}

impl Drop for BodyReservation {
    fn drop(&mut self) {
        if self.bytes == 0 {
            return;
        }
        let mut state = self.budget.lock();
        state.bytes -= self.bytes;
        if let Some(own) = state.principals.get_mut(&self.principal) {
            *own -= self.bytes;
            if *own == 0 {
                state.principals.remove(&self.principal);
            }
        }
    }
}

/// A large body, counted until the last that shares its memory is gone.
struct LargeBody {
    bytes: Vec<u8>,
    _counted: BodyReservation,
}

impl AsRef<[u8]> for LargeBody {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// How a body may be.
#[derive(Clone, Copy)]
pub(crate) struct BodyBounds<'a> {
    pub most: usize,
    pub time: Duration,
    pub budget: &'a Arc<BodyBudget>,
}

/// Reads a body on behalf of a principal, which is asked for only if it is large.
pub(crate) async fn read(
    headers: &HeaderMap,
    body: Incoming,
    bounds: BodyBounds<'_>,
    principal: impl FnOnce() -> Arc<str>,
) -> Result<Bytes, BodyError> {
    let BodyBounds { most, time, budget } = bounds;
    let announced =
        headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    let read = async {
        match announced {
            Some(length) if length > most => Err(BodyError::TooLarge),
            Some(length) if length <= UNCOUNTED => small(body, most).await,
            // Apart, as what few requests come to.
            _ => Box::pin(counted(body, most, announced, BodyReservation::none(budget, principal()))).await,
        }
    };
    tokio::time::timeout(time, read).await.unwrap_or(Err(BodyError::TooSlow))
}

async fn small(body: Incoming, most: usize) -> Result<Bytes, BodyError> {
    match Limited::new(body, most).collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) if error.downcast_ref::<LengthLimitError>().is_some() => Err(BodyError::TooLarge),
        Err(_) => Err(BodyError::Broken),
    }
}

/// Counts the bytes that have arrived, not the announced length, which costs its sender nothing.
async fn counted(
    mut body: Incoming,
    most: usize,
    announced: Option<usize>,
    mut counted: BodyReservation,
) -> Result<Bytes, BodyError> {
    // Announced bytes that do not come are never touched, and cost no memory.
    let mut bytes: Vec<u8> = Vec::with_capacity(announced.unwrap_or_default());
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(|_| BodyError::Broken)?.into_data() else { continue };
        let length = bytes.len() + data.len();
        if length > most {
            return Err(BodyError::TooLarge);
        }
        if length > UNCOUNTED && length > counted.bytes {
            let wanted = length.next_multiple_of(STEP).min(announced.unwrap_or(most)).max(length);
            if let Err(no_room) = counted.grow_to(wanted) {
                drop((bytes, counted));
                return Err(drained(body, most - length.min(most), no_room).await);
            }
        }
        bytes.extend_from_slice(&data);
    }
    if bytes.len() <= UNCOUNTED {
        return Ok(bytes.into());
    }
    Ok(Bytes::from_owner(LargeBody { bytes, _counted: counted }))
}

/// Takes the rest of a body that there is no room for, and keeps nothing of it: a client
/// that is hung up on while it sends does not see why.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_bodies_are_counted_for_each_principal_and_in_all_until_they_are_gone() {
        let budget = BodyBudget::new(100, 60);
        let hold = |principal: &str, bytes| {
            let mut counted = BodyReservation::none(&budget, principal.into());
            counted.grow_to(bytes).map(|()| counted)
        };
        let no_room = |held: Result<BodyReservation, BodyError>| match held {
            Err(BodyError::NoRoom(limit)) => limit,
            _ => panic!("there should be no room"),
        };
        let mine = hold("me", 50).expect("room");
        assert_eq!(no_room(hold("me", 20)), "wire.body-bytes-per-principal");
        let other = hold("other", 40).expect("another has its own share");
        assert_eq!(no_room(hold("third", 20)), "wire.body-bytes");
        let bytes = Bytes::from_owner(LargeBody { bytes: vec![1, 2, 3], _counted: mine });
        let part = bytes.slice(1..2);
        drop(bytes);
        assert_eq!(budget.lock().bytes, 90, "a part holds it all");
        drop(part);
        drop(other);
        assert!(budget.lock().principals.is_empty() && budget.lock().bytes == 0);
    }
}
