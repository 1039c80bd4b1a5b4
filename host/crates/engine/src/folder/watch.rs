//! Watching the folder: the kernel's hints, and a look of our own from time to
//! time, because hints get lost and some file systems give none.
//!
//! A file is loaded once it has kept its size and times for a while, so a copy
//! under way is not loaded half; one that pauses for longer fails to parse, and
//! the former version goes on until it changes again.
//!
//! Files that change together are published together, if their loads end soon; a slow load is
//! published when it ends, and delays no other.

use crate::folder::plugins::Plugins;
use crate::folder::scan::Scan;
use crate::folder::snapshot::Snapshot;
use notify::event::{AccessKind, AccessMode};
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};
use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{Notify, watch};

/// How long a plugin that is ready waits for others that are being loaded, so that clients hear of
/// them together, and new names go by the names of the files.
const GATHERING: Duration = Duration::from_secs(1);

impl Plugins {
    /// Keeps up with the folder until `stop` is true or gone, and publishes what
    /// is on offer after each real change, once. Call [`load`](Self::load) first.
    pub async fn watch(
        mut self,
        mut stop: watch::Receiver<bool>,
        publish: impl Fn(Snapshot) + Send + 'static,
    ) {
        let settings = &self.engine.settings;
        let (settle, rescan) = (settings.settle, settings.rescan);
        let mut hints = Hints::default();
        let mut last = Scan::default();
        // The first look finds what changed since `load`.
        let mut restless = true;
        let mut next_look = Instant::now() + settle;
        hints.follow(&self.dir);
        while !*stop.borrow() {
            let look = async {
                if restless {
                    tokio::time::sleep_until(next_look.into()).await;
                } else {
                    // Whichever comes first; both say only "look".
                    tokio::select! {
                        () = hints.notify.notified() => {}
                        () = tokio::time::sleep_until(next_look.into()) => {}
                    }
                }
            };
            let unsettled = self.unsettled;
            let is_loading = !self.loads.is_empty();
            let late = async {
                match unsettled {
                    Some(since) => tokio::time::sleep_until((since + GATHERING).into()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                changed = stop.changed() => if changed.is_err() { break } else { continue },
                loaded = self.loads.next(), if is_loading => match loaded {
                    // It was called off because the file changed, so a look finds another version.
                    Some((_, None)) => (restless, next_look) = (true, Instant::now() + settle),
                    Some((name, held)) => self.take(name, held),
                    None => {}
                },
                () = late => {}
                () = look => {
                    restless = self.look(&mut last).await;
                    next_look = Instant::now() + if restless { settle } else { rescan };
                    hints.follow(&self.dir);
                }
            }
            let is_late = self.unsettled.is_some_and(|since| since.elapsed() >= GATHERING);
            if (is_late || self.unsettled.is_some() && self.loads.is_empty()) && self.settle().await {
                publish(self.snapshot());
            }
        }
        self.end().await;
    }

    /// Looks at the folder, and starts to load what is new there. Says whether something is on the
    /// move, so that the next look comes soon.
    async fn look(&mut self, last: &mut Scan) -> bool {
        let Some(scan) = self.scan().await else { return false };
        let changes = self.changes(last, &scan);
        for name in &changes.ready {
            self.start(&scan, name);
        }
        for name in &changes.superseded {
            self.loads.cancel(name);
        }
        for name in &changes.gone {
            self.remove(name);
        }
        *last = scan;
        changes.restless
    }

    fn changes(&self, last: &Scan, now: &Scan) -> Changes {
        let mut changes = Changes::default();
        for (name, seen) in &now.files {
            let loading = self.loads.seen(name);
            if loading == Some(*seen)
                || loading.is_none()
                    && self.files.get(name).is_some_and(|held| held.seen == *seen && !held.may_pass())
            {
                continue;
            }
            if last.files.get(name) != Some(seen) {
                changes.restless = true;
            } else if loading.is_some() {
                changes.superseded.insert(name.clone());
            } else {
                changes.ready.insert(name.clone());
            }
        }
        let known = self.files.keys().chain(self.loads.names());
        for name in known.filter(|name| !now.files.contains_key(*name)) {
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
    /// The same, while another version is being loaded.
    superseded: BTreeSet<String>,
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
