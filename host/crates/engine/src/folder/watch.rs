//! Watches the folder through notifications of the kernel and through regular scans, because
//! notifications get lost and some file systems send none.
//!
//! A file is loaded once its size and times have been unchanged for a while, so that a copy in
//! progress is not loaded half-written. A copy that pauses for longer fails to parse, and the
//! previous version continues until the file changes again.
//!
//! Files that change together are published together if their loads end soon. A slow load is
//! published when it ends and delays no other.

use crate::folder::loader::LoadedFile;
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
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// How long a ready plugin waits for others that are being loaded, so that clients learn of them
/// together and new names are assigned in the order of file names.
const GATHERING: Duration = Duration::from_secs(1);

impl Plugins {
    /// Follows the folder until `stop` is cancelled, and publishes the offer once after each real
    /// change. Call [`load`](Self::load) first.
    pub async fn watch(mut self, stop: CancellationToken, publish: impl Fn(Snapshot) + Send + 'static) {
        let settings = &self.engine.settings;
        let (settle, rescan) = (settings.settle, settings.rescan);
        let refresh = self.refresh.clone();
        let mut hints = Hints::default();
        let mut last = Scan::default();
        // The first scan finds the changes since `load`.
        let mut restless = true;
        let mut next_look = Instant::now() + settle;
        hints.follow(&self.dir);
        while !stop.is_cancelled() {
            self.optimize_next(&last);
            let look = async {
                if restless {
                    tokio::time::sleep_until(next_look.into()).await;
                } else {
                    // Both mean only that a scan is due, so the first one suffices.
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
                () = stop.cancelled() => break,
                loaded = self.loads.next(), if is_loading => match loaded {
                    // The load was cancelled because the file changed, so a scan finds another
                    // version.
                    Some((_, None)) => (restless, next_look) = (true, Instant::now() + settle),
                    Some((name, held)) => self.take(name, held),
                    None => {}
                },
                Some(known) = self.known.recv() => self.take_known(known),
                () = late => {}
                () = refresh.notified() => {
                    self.mark_stale();
                    (restless, next_look) = (true, Instant::now());
                }
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

    /// Scans the folder and starts to load changed files. Returns whether files are still changing,
    /// so that the next scan is due soon.
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
            let is_current =
                |held: &LoadedFile| held.seen == *seen && !held.may_pass() && !self.stale.contains(name);
            if loading == Some(*seen)
                || loading.is_none() && self.files.get(name).is_some_and(|held| is_current(held))
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
            // A file that is removed and created again counts as changed, not as removed.
            if last.files.contains_key(name) || last.dir.is_none() && now.dir.is_some() {
                changes.restless = true;
            } else {
                changes.gone.insert(name.clone());
            }
        }
        changes
    }
}

/// The differences between the folder and the loaded files.
#[derive(Default)]
struct Changes {
    /// Changed before the last scan and unchanged since.
    ready: BTreeSet<String>,
    /// As `ready`, while another version is being loaded.
    superseded: BTreeSet<String>,
    /// Missing in the last scan too.
    gone: BTreeSet<String>,
    /// Files are still changing, so the next scan is due soon.
    restless: bool,
}

/// Notifications of the kernel about changes in the folder.
#[derive(Default)]
struct Hints {
    notify: Arc<Notify>,
    /// The watcher and the identity of the watched folder, which reveals that the folder was
    /// replaced.
    watcher: Option<(RecommendedWatcher, (u64, u64))>,
    refused: bool,
}

impl Hints {
    /// Watches the folder that is at `path` now.
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
                // Changes before the watcher existed may have been missed.
                self.notify.notify_one();
            }
            Err(error) if !self.refused => {
                self.refused = true;
                tracing::warn!(
                    event = "plugin.folder_not_watched", path = %path.display(), %error,
                    "cannot watch the plugin folder; scanning it instead"
                );
            }
            Err(_) => {}
        }
    }
}

/// Whether an event only reports reading, such as the host's own.
fn is_reading(kind: &EventKind) -> bool {
    matches!(kind, EventKind::Access(kind) if *kind != AccessKind::Close(AccessMode::Write))
}
