//! The requests under way that stand alone, by id. An id is unique among these only,
//! and free again with the answer (26J-3).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use toolyard_dispatch::Stop;
use toolyard_protocol::Id;

/// The requests under way, at most so many.
pub(super) struct Outstanding {
    most: usize,
    by_id: Mutex<HashMap<Id, Arc<Stop>>>,
}

/// Why a request is not taken in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NotTaken {
    /// Its id belongs to one that is under way.
    IdInUse,
    /// Too many are under way.
    TooMany,
}

/// Keeps a request among those under way.
#[derive(Debug)]
pub(super) struct Taken {
    outstanding: Arc<Outstanding>,
    id: Id,
    /// Set when the client cancels the request: nothing is sent for it any more
    /// (26S-2).
    pub stop: Arc<Stop>,
}

impl Outstanding {
    pub fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { most, by_id: Mutex::default() })
    }

    /// Takes a request in.
    pub fn take(self: &Arc<Self>, id: &Id) -> Result<Taken, NotTaken> {
        let mut by_id = self.lock();
        if by_id.contains_key(id) {
            return Err(NotTaken::IdInUse);
        }
        if by_id.len() >= self.most {
            return Err(NotTaken::TooMany);
        }
        let stop = Arc::new(Stop::default());
        by_id.insert(id.clone(), stop.clone());
        drop(by_id);
        Ok(Taken { outstanding: self.clone(), id: id.clone(), stop })
    }

    /// Cancels a request. False if it is not one of these.
    pub fn cancel(&self, id: &Id) -> bool {
        let stop = self.lock().get(id).cloned();
        if let Some(stop) = &stop {
            stop.set();
        }
        stop.is_some()
    }

    /// Cancels all of them.
    pub fn cancel_all(&self) {
        let all: Vec<_> = self.lock().values().cloned().collect();
        for stop in all {
            stop.set();
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Id, Arc<Stop>>> {
        self.by_id.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Outstanding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Outstanding").field("most", &self.most).finish_non_exhaustive()
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.outstanding.lock().remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t_26j_3_an_id_is_free_again_once_its_request_is_answered() {
        let outstanding = Outstanding::new(2);
        let (one, text) = (Id::Number(1), Id::Text("1".into()));
        let taken = outstanding.take(&one).expect("nothing is under way");
        assert_eq!(outstanding.take(&one).expect_err("under way"), NotTaken::IdInUse);
        let other = outstanding.take(&text).expect("an id keeps its type");
        assert_eq!(outstanding.take(&Id::Number(2)).expect_err("full"), NotTaken::TooMany);
        assert!(outstanding.cancel(&one) && taken.stop.is_set() && !other.stop.is_set());
        drop(taken);
        assert!(!outstanding.cancel(&one), "26C-1: what is over is ignored");
        let again = outstanding.take(&one).expect("free again");
        assert!(!again.stop.is_set());
        outstanding.cancel_all();
        assert!(again.stop.is_set() && other.stop.is_set());
    }
}
