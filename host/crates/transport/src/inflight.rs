//! The running requests of one client, by id (C-1, 26S-2). Sessions and stateless requests each have their
//! own: an id is unique only among one of them.

use crate::failure::Failure;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use toolyard_dispatch::{Fault, RETRY_AFTER_MS, Stop, StopCause};
use toolyard_protocol::{Id, RpcError};

/// The running requests. The answer frees an id (26J-3).
pub(crate) struct Inflight {
    max: usize,
    /// The scope of the limit, as the error for one request too many names it.
    place: &'static str,
    by_id: Mutex<HashMap<Id, Arc<Stop>>>,
}

/// A running request, until this is dropped.
pub(crate) struct InflightRequest {
    inflight: Arc<Inflight>,
    id: Id,
    /// Set when the client cancels the request: nothing more is sent for it.
    pub stop: Arc<Stop>,
}

impl Inflight {
    pub fn new(max: usize, place: &'static str) -> Arc<Self> {
        Arc::new(Self { max, place, by_id: Mutex::default() })
    }

    /// The reason why a further request is refused.
    pub fn full(max: usize, place: &str) -> Fault {
        Fault::Busy {
            what: format!("{max} requests {place} are under way, the most"),
            limit: "wire.requests-per-session",
            retry_after_ms: RETRY_AFTER_MS,
        }
    }

    /// Adds a request.
    ///
    /// # Errors
    /// The id belongs to a running request (J-2), or too many requests are running.
    pub fn add(self: &Arc<Self>, id: &Id) -> Result<InflightRequest, Failure> {
        let mut by_id = self.by_id.lock();
        if by_id.contains_key(id) {
            let error = RpcError::invalid_request("the id belongs to a request that is still under way");
            return Err(Failure::BadRequest(error));
        }
        if by_id.len() >= self.max {
            return Err(Failure::Fault(Self::full(self.max, self.place)));
        }
        let stop = Arc::new(Stop::default());
        by_id.insert(id.clone(), stop.clone());
        drop(by_id);
        Ok(InflightRequest { inflight: self.clone(), id: id.clone(), stop })
    }

    /// Cancels a request. False if it is not running: the answer may have crossed the cancellation.
    pub fn cancel(&self, id: &Id, cause: StopCause) -> bool {
        let stop = self.by_id.lock().get(id).cloned();
        if let Some(stop) = &stop {
            stop.set_because(cause);
        }
        stop.is_some()
    }

    /// Cancels all requests.
    pub fn cancel_all(&self, cause: StopCause) {
        let all: Vec<_> = self.by_id.lock().values().cloned().collect();
        for stop in all {
            stop.set_because(cause);
        }
    }
}

impl Drop for InflightRequest {
    fn drop(&mut self) {
        self.inflight.by_id.lock().remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t_26j_3_an_id_is_free_again_once_its_request_is_answered() {
        let inflight = Inflight::new(2, "of this test");
        let add = |id: &Id| inflight.add(id);
        let (one, text) = (Id::Number(1), Id::Text("1".into()));
        let request = add(&one).ok().expect("nothing is under way");
        assert!(matches!(add(&one), Err(Failure::BadRequest(_))), "under way");
        let other = add(&text).ok().expect("an id keeps its type");
        let Err(Failure::Fault(full)) = add(&Id::Number(2)) else { panic!("room for a third of two") };
        assert!(full.to_string().contains("2 requests of this test are under way"), "{full}");
        assert!(inflight.cancel(&one, StopCause::Unsaid) && request.stop.is_set() && !other.stop.is_set());
        drop(request);
        assert!(!inflight.cancel(&one, StopCause::Unsaid), "26C-1: a late cancellation is ignored");
        let again = add(&one).ok().expect("free again");
        assert!(!again.stop.is_set());
        inflight.cancel_all(StopCause::Ended);
        assert!(again.stop.is_set() && other.stop.is_set());
    }
}
