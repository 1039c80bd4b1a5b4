//! A client that can be asked.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use toolyard_dispatch::{ClientChannel, ClientPresence, ClientRoute, Notice, RawJson, RouteScope, TaskId};

/// The reaction of a client to a request of this id with these params.
type Answering = Arc<dyn Fn(&str, &RawJson) + Send + Sync>;

/// A client with a connection, which remembers the requests and the progress that it got.
#[derive(Default, Clone)]
pub struct Client {
    asked: Arc<Mutex<Vec<(String, RawJson)>>>,
    heard: Arc<Mutex<Vec<f64>>>,
    away: Arc<AtomicBool>,
    answering: Option<Answering>,
}

impl Client {
    /// A client that does this at each request.
    pub fn answering(how: impl Fn(&str, &RawJson) + Send + Sync + 'static) -> Self {
        Self { answering: Some(Arc::new(how)), ..Self::default() }
    }

    /// The ids of the requests.
    pub fn asked(&self) -> Vec<String> {
        self.asked.lock().expect("no panic").iter().map(|(id, _)| id.clone()).collect()
    }

    /// The params of the requests.
    pub fn questions(&self) -> Vec<serde_json::Value> {
        let asked = self.asked.lock().expect("no panic");
        asked.iter().map(|(_, params)| params.decode().expect("JSON")).collect()
    }

    /// The progress.
    pub fn heard(&self) -> Vec<f64> {
        self.heard.lock().expect("no panic").clone()
    }

    /// Leaves the connection, to which the client may come back.
    pub fn leave(&self) {
        self.away.store(true, Ordering::Relaxed);
    }
}

impl ClientChannel for Client {
    fn notify(&self, _: Option<TaskId>, notice: Notice) {
        if let Notice::Progress { progress, .. } = notice {
            self.heard.lock().expect("no panic").push(progress.progress);
        }
    }

    fn route(&self, _: Option<TaskId>, _: RouteScope) -> Option<Arc<dyn ClientRoute>> {
        Some(Arc::new(self.clone()))
    }

    fn release(&self, _: Duration) {}
}

impl ClientRoute for Client {
    fn request(&self, id: &str, _: &str, params: &RawJson) -> bool {
        self.asked.lock().expect("no panic").push((id.to_owned(), params.clone()));
        if let Some(answering) = &self.answering {
            answering(id, params);
        }
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
