//! The loads in progress: at most one for each file. They are all owned here and end with their
//! owner.

use crate::component::compile_turn::{Lane, Lanes};
use crate::folder::component_registry::ComponentRegistry;
use crate::folder::loader::{FileLoader, LoadedFile, Step};
use crate::folder::scan::FileStamps;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::task::{Id, JoinSet};
use tokio_util::sync::CancellationToken;

/// The loads in progress.
pub(crate) struct Loads {
    lanes: Arc<Lanes>,
    pub components: Arc<ComponentRegistry>,
    tasks: JoinSet<(String, Option<Arc<LoadedFile>>)>,
    under_way: BTreeMap<String, Load>,
}

struct Load {
    seen: FileStamps,
    cancel: CancellationToken,
    task: Id,
}

impl Drop for Load {
    fn drop(&mut self) {
        // The compilation runs on its own thread, which does not end with the task.
        self.cancel.cancel();
    }
}

impl Loads {
    /// Allows `places` loads at once, and as many slow ones in addition.
    pub fn new(places: usize) -> Self {
        Self {
            lanes: Lanes::new(places),
            components: Arc::default(),
            tasks: JoinSet::new(),
            under_way: BTreeMap::new(),
        }
    }

    /// Starts to load a file, unless a load of it is in progress.
    pub fn start(&mut self, file: FileLoader) {
        let name = file.name.clone();
        if self.under_way.contains_key(&name) {
            return;
        }
        let seen = file.seen;
        let cancel = CancellationToken::new();
        let task = self.tasks.spawn(load(file, self.lanes.clone(), cancel.clone())).id();
        self.under_way.insert(name, Load { seen, cancel, task });
    }

    /// The version of a file that is being loaded.
    pub fn seen(&self, name: &str) -> Option<FileStamps> {
        self.under_way.get(name).map(|load| load.seen)
    }

    /// The files that are being loaded.
    pub fn names(&self) -> impl Iterator<Item = &String> {
        self.under_way.keys()
    }

    pub fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// Cancels the load of a file. The load stays in progress until it ends, without an outcome.
    pub fn cancel(&self, name: &str) {
        if let Some(load) = self.under_way.get(name) {
            load.cancel.cancel();
        }
    }

    /// Waits for the next load to end and returns its outcome; `None` if no load is in progress.
    /// Cancel safe.
    pub async fn next(&mut self) -> Option<(String, Option<Arc<LoadedFile>>)> {
        match self.tasks.join_next().await? {
            Ok((name, held)) => {
                self.under_way.remove(&name);
                Some((name, held))
            }
            Err(error) => {
                let name = self.under_way.iter().find(|(_, load)| load.task == error.id());
                let name = name.map(|(name, _)| name.clone()).unwrap_or_default();
                tracing::error!(event = "plugin.load_failed", plugin = name, %error, "cannot load plugin");
                self.under_way.remove(&name);
                Some((name, None))
            }
        }
    }

    /// Cancels all loads and waits until they end.
    pub async fn end(&mut self) {
        for load in self.under_way.values() {
            load.cancel.cancel();
        }
        while self.next().await.is_some() {}
    }
}

/// Loads a file in as many turns as needed. Returns `None` if the load is cancelled.
async fn load(
    file: FileLoader,
    lanes: Arc<Lanes>,
    cancelled: CancellationToken,
) -> (String, Option<Arc<LoadedFile>>) {
    let file = Arc::new(file);
    let name = file.name.clone();
    let (mut lane, mut claim) = (if file.optimizes { Lane::Slow } else { Lane::Quick }, None);
    loop {
        let Some(mut turn) = lanes.turn(lane, cancelled.clone()).await else { return (name, None) };
        turn.is_awaited = file.is_awaited;
        let (loaded, claimed) = (file.clone(), claim.take());
        let step = tokio::task::spawn_blocking(move || loaded.load(&mut turn, claimed)).await;
        match step {
            Ok(Step::Done(held)) => return (name, Some(held)),
            Ok(Step::Cancelled) => return (name, None),
            Ok(Step::Slow(claimed)) => (lane, claim) = (Lane::Slow, Some(claimed)),
            Ok(Step::Busy(mut other)) => {
                tokio::select! {
                    () = cancelled.cancelled() => return (name, None),
                    // The channel carries no values and closes when the other load ends.
                    _ = other.changed() => {}
                }
            }
            Err(error) => {
                return (
                    name,
                    Some(Arc::new(LoadedFile::after_panic(file.seen, file.former.clone(), &error))),
                );
            }
        }
    }
}
