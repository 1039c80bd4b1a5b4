//! Watching the folder: the kernel's hints, and a look of our own from time to
//! time, because hints get lost and some file systems give none.
//!
//! A file is loaded once it has kept its size and times for a while, so a copy
//! under way is not loaded half; one that pauses for longer fails to parse, and
//! the former version goes on until it changes again.

use crate::folder::Scan;
use crate::plugins::Plugins;
use crate::snapshot::Snapshot;
use notify::event::{AccessKind, AccessMode};
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};
use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;
use tokio::sync::{Notify, watch};

impl Plugins {
    /// Keeps up with the folder until `stop` is true or gone, and publishes what
    /// is on offer after each real change, once. Call [`load`](Self::load) first.
    pub async fn watch(
        mut self,
        mut stop: watch::Receiver<bool>,
        publish: impl Fn(Snapshot) + Send + 'static,
    ) {
        let settle = self.engine.settings.settle;
        let rescan = self.engine.settings.rescan;
        let mut hints = Hints::default();
        let mut last = Scan { dir: None, files: Default::default() };
        // The first look finds what changed since `load`.
        let mut restless = true;
        while !*stop.borrow() {
            hints.follow(&self.dir);
            let look = async {
                if restless {
                    tokio::time::sleep(settle).await;
                } else {
                    // Whichever comes first; both say only "look".
                    tokio::select! {
                        () = hints.notify.notified() => {}
                        () = tokio::time::sleep(rescan) => {}
                    }
                }
            };
            tokio::select! {
                changed = stop.changed() => if changed.is_err() { return } else { continue },
                () = look => {}
            }
            let Some(scan) = self.scan().await else {
                restless = false;
                continue;
            };
            let changes = self.changes(&last, &scan);
            restless = changes.restless;
            last = scan;
            if (!changes.ready.is_empty() || !changes.gone.is_empty())
                && self.update(&last, changes.ready, changes.gone).await
            {
                publish(self.snapshot());
            }
        }
    }

    fn changes(&self, last: &Scan, now: &Scan) -> Changes {
        let mut changes = Changes::default();
        for (name, seen) in &now.files {
            if self.files.get(name).is_some_and(|held| held.seen == *seen && !held.may_pass()) {
                continue;
            }
            if last.files.get(name) == Some(seen) {
                changes.ready.insert(name.clone());
            } else {
                changes.restless = true;
            }
        }
        for name in self.files.keys().filter(|name| !now.files.contains_key(*name)) {
            // One that is removed and made anew is not gone in between.
            if last.files.contains_key(name) || last.dir.is_none() && now.dir.is_some() {
                changes.restless = true;
            } else {
                changes.gone.insert(name.clone());
            }
        }
        changes
    }
}

/// What differs from what is loaded.
#[derive(Default)]
struct Changes {
    /// Changed, and unchanged since the last look.
    ready: BTreeSet<String>,
    /// Missing at the last look too.
    gone: BTreeSet<String>,
    /// Something is on the move, so the next look comes soon.
    restless: bool,
}

/// The kernel's hints that something happened in the folder.
#[derive(Default)]
struct Hints {
    notify: Arc<Notify>,
    /// The watcher and the folder's own identity, for a folder that is replaced.
    watcher: Option<(RecommendedWatcher, (u64, u64))>,
    refused: bool,
}

impl Hints {
    /// Watches what is at `path` now.
    fn follow(&mut self, path: &Path) {
        let identity = std::fs::metadata(path).ok().map(|found| (found.dev(), found.ino()));
        if identity == self.watcher.as_ref().map(|(_, identity)| *identity) {
            return;
        }
        self.watcher = None;
        let Some(identity) = identity else { return };
        let notify = self.notify.clone();
        let started = notify::recommended_watcher(move |event: notify::Result<Event>| {
            if event.is_ok_and(|event| !is_reading(&event.kind)) {
                notify.notify_one();
            }
        })
        .and_then(|mut watcher| watcher.watch(path, RecursiveMode::NonRecursive).map(|()| watcher));
        match started {
            Ok(watcher) => {
                self.watcher = Some((watcher, identity));
                // What happened before it was there.
                self.notify.notify_one();
            }
            Err(error) if !self.refused => {
                self.refused = true;
                tracing::warn!(path = %path.display(), "the folder is only looked at from time to time: {error}");
            }
            Err(_) => {}
        }
    }
}

/// Whether an event is somebody's reading, such as ours.
fn is_reading(kind: &EventKind) -> bool {
    matches!(kind, EventKind::Access(kind) if *kind != AccessKind::Close(AccessMode::Write))
}
