//! A client that can be asked.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use toolyard_dispatch::{ClientChannel, ClientPresence, ClientRoute, Notice, RawJson, RouteScope, TaskId};

/// A client with a connection, which remembers the ids of the requests that it got.
#[derive(Default, Clone)]
pub struct Client {
    asked: Arc<Mutex<Vec<String>>>,
    away: Arc<AtomicBool>,
}

impl Client {
    pub fn asked(&self) -> Vec<String> {
        self.asked.lock().expect("no panic").clone()
    }

    /// It leaves its connection, to which it may come back.
    pub fn leave(&self) {
        self.away.store(true, Ordering::Relaxed);
    }
}

impl ClientChannel for Client {
    fn notify(&self, _: Option<TaskId>, _: Notice) {}

    fn route(&self, _: Option<TaskId>, _: RouteScope) -> Option<Arc<dyn ClientRoute>> {
        Some(Arc::new(self.clone()))
    }

    fn release(&self, _: Duration) {}
}

impl ClientRoute for Client {
    fn request(&self, id: &str, _: &str, _: &RawJson) -> bool {
        self.asked.lock().expect("no panic").push(id.to_owned());
        true
    }

    fn withdraw(&self, _: &str, _: &str, _: Option<TaskId>) {}

    fn presence(&self) -> ClientPresence {
        match self.away.load(Ordering::Relaxed) {
            true => ClientPresence::AwayFor(Duration::from_secs(1)),
            false => ClientPresence::There,
        }
    }
}
