//! The export of audit entries from the store, where they wait, to a file or to stderr (T-43). The store
//! forgets an entry only when it is safe at its destination, so each arrives at least once. A crash in
//! between repeats some entries, with the same ids.

mod file;
mod folder;
mod lock;
pub mod search;

pub use file::LogFile;

use anyhow::Context as _;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, IsTerminal as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use toolyard_cli::output;
use toolyard_dispatch::AuditStore;

/// How often the exporter checks whether another process left something to export.
const LOOK: Duration = Duration::from_secs(1);
/// The least time between two passes, so that under load one flush of the disk
/// serves many entries.
const GAP: Duration = Duration::from_millis(250);
/// The longest time between two attempts while the destination cannot be written.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// How often the log repeats that the destination cannot be written.
const TELL_AGAIN: Duration = Duration::from_secs(60);
/// The time limit of the last pass, including the wait for the lock.
const LAST: Duration = Duration::from_secs(3);
/// The number of batches that one read returns at most.
const BATCHES: u32 = 256;
/// The most bytes of entries that wait in the store while the destination cannot be written; over it, the store
/// drops the oldest. An entry takes a few hundred bytes, so about 200,000 of them fit.
const MAX_BACKLOG: u64 = 64 << 20;
/// The lock that the processes which share a data folder take in turn, so that no two of them export the same
/// entry. The file has a lock of its own.
const TURN: &str = "audit.lock";

/// The destination of audit entries.
#[derive(Debug)]
pub enum Destination {
    /// To a file, which is rotated.
    File(LogFile),
    /// To stderr, between the lines of the log.
    Stderr,
}

impl Destination {
    /// Writes whole lines. A file's lines are safe on the disk when this returns.
    fn write(&self, text: &str) -> io::Result<()> {
        match self {
            Self::File(file) => file.append(text),
            Self::Stderr => {
                let mut stderr = io::stderr().lock();
                stderr.write_all(output::json_text(text, stderr.is_terminal()).as_bytes())?;
                stderr.flush()
            }
        }
    }
}

/// The service that exports audit entries.
pub struct Exporter {
    store: Arc<dyn AuditStore>,
    to: Arc<Destination>,
    turn: PathBuf,
}

/// The outcome of a pass.
#[derive(Debug, PartialEq, Eq)]
enum Pass {
    /// All entries that the store had are exported.
    Done,
    /// Another process holds the lock.
    NotOurTurn,
}

impl Exporter {
    /// An exporter of the entries in `store`, which belongs to the data folder `data`.
    pub fn new(store: Arc<dyn AuditStore>, to: Destination, data: &Path) -> Self {
        Self { store, to: Arc::new(to), turn: data.join(TURN) }
    }

    /// Exports until `stop` is cancelled, then exports the rest.
    pub async fn run(self, stop: CancellationToken) {
        let mut trouble = Trouble::default();
        loop {
            // Dropping either future loses nothing: a pass reads again what the store has.
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                () = self.store.written() => {}
                () = tokio::time::sleep(LOOK) => {}
            }
            let pause = match self.pass().await {
                Ok(_) => {
                    trouble.over();
                    GAP
                }
                Err(error) => {
                    self.make_room().await;
                    trouble.again(&error)
                }
            };
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                () = tokio::time::sleep(pause) => {}
            }
        }
        self.finish().await;
    }

    /// Exports all entries, those that the store has not written yet included.
    pub async fn finish(&self) {
        let last = async {
            // This forgets nothing, but writes what waits.
            self.store.exported(0).await?;
            while self.pass().await? == Pass::NotOurTurn {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            anyhow::Ok(())
        };
        let why = match tokio::time::timeout(LAST, last).await {
            Ok(Ok(())) => return,
            Ok(Err(error)) => format!("{error:#}"),
            Err(_) => "timed out".to_owned(),
        };
        tracing::warn!(
            event = "audit.entries_left",
            error = %why,
            "audit entries left in the store; the next host exports them"
        );
    }

    /// Exports all entries in the store, if no other process holds the lock.
    async fn pass(&self) -> anyhow::Result<Pass> {
        // Without entries, it touches no file.
        if self.store.pending(1).await?.is_empty() {
            return Ok(Pass::Done);
        }
        let path = self.turn.clone();
        let Some(turn) = blocking(move || take_turn(&path)).await? else { return Ok(Pass::NotOurTurn) };
        loop {
            // Under the lock: the store has forgotten by now what another process exported.
            let batches = self.store.pending(BATCHES).await?;
            let Some(last) = batches.last() else { break };
            let up_to = last.number;
            let mut text = String::new();
            for line in batches.iter().flat_map(|batch| &batch.lines) {
                text.push_str(line);
                text.push('\n');
            }
            let to = self.to.clone();
            blocking(move || to.write(&text).context("cannot write the audit log")).await?;
            // Only now: the entries that the store forgets are safe.
            self.store.exported(up_to).await?;
        }
        drop(turn);
        Ok(Pass::Done)
    }

    async fn make_room(&self) {
        match self.store.trim(MAX_BACKLOG).await {
            Ok(0) => {}
            Ok(lost) => tracing::error!(
                event = "audit.entries_dropped",
                count = lost,
                "audit entries dropped that could not be exported"
            ),
            Err(error) => {
                tracing::warn!(
                    event = "audit.entries_not_counted",
                    error = &error as &dyn std::error::Error,
                    "cannot count audit entries"
                );
            }
        }
    }
}

/// Takes the lock, unless another process holds it. The kernel frees it when the process ends.
fn take_turn(path: &Path) -> anyhow::Result<Option<File>> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    let cannot = || format!("cannot lock {}", path.display());
    let file = options.open(path).with_context(cannot)?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error).with_context(cannot),
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> anyhow::Result<T> + Send + 'static,
) -> anyhow::Result<T> {
    tokio::task::spawn_blocking(work).await.context("the export of audit entries panicked")?
}

/// Consecutive failed attempts.
#[derive(Default)]
struct Trouble {
    pause: Duration,
    told: Option<Instant>,
}

impl Trouble {
    /// Counts one more. Returns the pause before the next attempt.
    fn again(&mut self, error: &anyhow::Error) -> Duration {
        if self.told.is_none_or(|told| told.elapsed() >= TELL_AGAIN) {
            self.told = Some(Instant::now());
            tracing::error!(
                event = "audit.export_failed",
                error = &**error as &dyn std::error::Error,
                "cannot export audit entries; they wait in the store"
            );
        }
        self.pause = (self.pause * 2).clamp(GAP, LONGEST_PAUSE);
        self.pause
    }

    fn over(&mut self) {
        if self.told.take().is_some() {
            tracing::info!(event = "audit.export_recovered", "audit entries are exported again");
        }
        self.pause = Duration::ZERO;
    }
}
