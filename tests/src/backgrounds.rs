//! The background hosts of `toolyard stdio --detach`, found by their files in the data folder. None outlives
//! the test.

use crate::{eventually, until};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use tempfile::TempDir;

/// The background hosts of one data folder.
pub struct Backgrounds {
    folder: Arc<TempDir>,
}

impl Backgrounds {
    /// Watches the background hosts that start on the folders in `folder` from now on.
    #[must_use]
    pub const fn of(folder: Arc<TempDir>) -> Self {
        Self { folder }
    }

    /// The folder with their files.
    pub fn place(&self) -> PathBuf {
        self.folder.path().join("data/detached")
    }

    /// Their files of this kind: `lock`, `sock`, `log`.
    pub fn files(&self, kind: &str) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.place()).into_iter().flatten().flatten();
        let paths = entries.map(|entry| entry.path());
        paths.filter(|path| path.extension().is_some_and(|found| found == kind)).collect()
    }

    /// The living processes.
    pub fn living(&self) -> Vec<Pid> {
        let written = self.files("lock").into_iter().filter_map(|lock| fs::read_to_string(lock).ok());
        let pids = written.filter_map(|text| Pid::from_raw(text.trim().parse().ok()?));
        pids.filter(|pid| is_one(*pid)).collect()
    }

    /// Waits for exactly one living background host, and returns its process id.
    pub async fn one(&self) -> Pid {
        eventually("one background host", || async {
            let living = self.living();
            (living.len() == 1).then(|| living[0])
        })
        .await
    }

    /// Waits until none lives and no socket is left.
    pub async fn gone(&self) {
        until("the end of the background hosts", || async {
            self.living().is_empty() && self.files("sock").is_empty()
        })
        .await;
    }

    /// The text of all their logs.
    pub fn log(&self) -> String {
        self.files("log").into_iter().filter_map(|log| fs::read_to_string(log).ok()).collect()
    }
}

/// Whether this process is a background host; the system may have reused the process id.
fn is_one(pid: Pid) -> bool {
    let line = fs::read(format!("/proc/{}/cmdline", pid.as_raw_nonzero())).unwrap_or_default();
    line.split(|byte| *byte == 0).any(|arg| arg == b"background-host")
}

impl Drop for Backgrounds {
    fn drop(&mut self) {
        for pid in self.living() {
            // It may have just ended.
            let _ = kill_process(pid, Signal::KILL);
        }
        if std::thread::panicking() {
            eprintln!("the background hosts logged:\n{}", self.log());
        }
    }
}
