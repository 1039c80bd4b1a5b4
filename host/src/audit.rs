//! The export of audit entries: from the store, where they wait, to a file or to
//! stderr (T-43). An entry is forgotten by the store only when it is safe at its
//! destination, so each arrives at least once; a crash in between repeats some,
//! with the same ids.

mod file;
mod lock;

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

/// How often it is looked whether another process left something to export.
const LOOK: Duration = Duration::from_secs(1);
/// The least time between two passes, so that under load one flush of the disk
/// serves many entries.
const GAP: Duration = Duration::from_millis(250);
/// The longest time between two attempts while the destination cannot be written.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// How often a destination that cannot be written is told of in the log.
const TELL_AGAIN: Duration = Duration::from_secs(60);
/// How long the last pass may take, which waits for its turn.
const LAST: Duration = Duration::from_secs(3);
/// Batches that are read at a time.
const BATCHES: u32 = 256;
/// Taken in turn by the processes that share a data folder, so that no entry of its store
/// is exported by two of them. The file has a lock of its own.
const TURN: &str = "audit.lock";

/// Where entries go.
#[derive(Debug)]
pub enum Destination {
    /// To a file, which is rotated.
    File(LogFile),
    /// To stderr, between the lines of the log.
    Stderr,
}

impl Destination {
    /// Writes whole lines; safe on the disk, where it is one, when this returns.
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

/// The service that exports.
pub struct Exporter {
    store: Arc<dyn AuditStore>,
    to: Arc<Destination>,
    turn: PathBuf,
    /// What may wait while the destination cannot be written (bytes).
    backlog: u64,
}

/// What a pass came to.
#[derive(Debug, PartialEq, Eq)]
enum Pass {
    /// Everything that was there is exported.
    Done,
    /// Another process is at it.
    NotOurTurn,
}

impl Exporter {
    /// An exporter of what is in this store, which is that of this data folder.
    pub fn new(store: Arc<dyn AuditStore>, to: Destination, data: &Path, backlog: u64) -> Self {
        Self { store, to: Arc::new(to), turn: data.join(TURN), backlog }
    }

    /// Exports until `stop` is cancelled, and then what is left.
    pub async fn run(self, stop: CancellationToken) {
        let mut trouble = Trouble::default();
        loop {
            // Whichever is dropped loses nothing: a pass reads again what there is.
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

    /// Exports what is there, and what was noted before.
    pub async fn finish(&self) {
        let last = async {
            self.store.flush().await?;
            while self.pass().await? == Pass::NotOurTurn {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            anyhow::Ok(())
        };
        match tokio::time::timeout(LAST, last).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                tracing::error!("audit entries are left in the store; the next host exports them: {error:#}");
            }
            Err(_) => tracing::warn!("audit entries are left in the store; the next host exports them"),
        }
    }

    /// Exports everything that is there, if it is our turn.
    async fn pass(&self) -> anyhow::Result<Pass> {
        // Nothing is touched where there is nothing to do.
        if self.store.pending(1).await?.is_empty() {
            return Ok(Pass::Done);
        }
        let path = self.turn.clone();
        let Some(turn) = blocking(move || take_turn(&path)).await? else { return Ok(Pass::NotOurTurn) };
        loop {
            // Under the lock: what another process has exported is forgotten by now.
            let batches = self.store.pending(BATCHES).await?;
            let Some(last) = batches.last() else { break };
            let up_to = last.number;
            let mut text = String::new();
            for line in batches.iter().flat_map(|batch| &batch.lines) {
                text.push_str(line);
                text.push('\n');
            }
            let to = self.to.clone();
            blocking(move || to.write(&text).context("the audit log cannot be written")).await?;
            // Only now: what is forgotten is safe.
            self.store.exported(up_to).await?;
        }
        drop(turn);
        Ok(Pass::Done)
    }

    async fn make_room(&self) {
        match self.store.trim(self.backlog).await {
            Ok(0) => {}
            Ok(lost) => tracing::error!(lost, "audit entries were dropped because they cannot be exported"),
            Err(error) => {
                tracing::warn!(error = &error as &dyn std::error::Error, "audit entries cannot be counted");
            }
        }
    }
}

/// The lock, unless somebody else has it. The kernel frees it with the process.
fn take_turn(path: &Path) -> anyhow::Result<Option<File>> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    let cannot = || format!("{} cannot be locked", path.display());
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

/// Attempts that failed one after the other.
#[derive(Default)]
struct Trouble {
    pause: Duration,
    told: Option<Instant>,
}

impl Trouble {
    /// One more. Gives how long to wait before the next attempt.
    fn again(&mut self, error: &anyhow::Error) -> Duration {
        if self.told.is_none_or(|told| told.elapsed() >= TELL_AGAIN) {
            self.told = Some(Instant::now());
            tracing::error!("audit entries wait in the store because they cannot be exported: {error:#}");
        }
        self.pause = (self.pause * 2).clamp(GAP, LONGEST_PAUSE);
        self.pause
    }

    fn over(&mut self) {
        if self.told.take().is_some() {
            tracing::info!("audit entries are exported again");
        }
        self.pause = Duration::ZERO;
    }
}
