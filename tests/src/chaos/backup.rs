//! A backup in the midst of a kill, and its restore at the end of the run.

use super::shared_state::{CreatedTask, SharedState};
use crate::Host;
use crate::history::Status;
use crate::host::{Setup, command};
use serde_json::Value;
use std::collections::HashMap;
use std::path::PathBuf;
use tempfile::TempDir;
use tokio::process::Child;

/// The name in a report of a backup whose tasks were all there after its restore.
pub(super) const BACKED_UP: &str = "backups restored";

/// A backup of the host's store.
pub(super) struct Backup {
    process: Child,
    folder: TempDir,
    /// The tasks that were acknowledged before it began.
    tasks: Vec<CreatedTask>,
}

impl Backup {
    /// Begins a backup of this host, which need not live until it is complete.
    pub fn begin(host: &Host, shared: &SharedState) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let tasks = shared.all();
        let args = ["-o".to_owned(), file(&folder).display().to_string()];
        let process = command("backup", host.folder(), &args).spawn().expect("it starts");
        Self { process, folder, tasks }
    }

    /// Waits until it is complete.
    ///
    /// # Panics
    /// If it fails.
    pub async fn complete(&mut self) {
        assert!(self.process.wait().await.expect("it ends").success(), "no backup");
    }

    /// Restores it into an empty folder with this setup.
    ///
    /// # Panics
    /// If a task is missing there, or has another end.
    pub async fn check(self, setup: Setup) {
        let (target, _) = setup.into_parts();
        let args = [file(&self.folder).display().to_string()];
        let restored = command("restore", target.path(), &args).status().await.expect("it runs");
        assert!(restored.success(), "no restore");
        let args = ["list".to_owned(), "--json".to_owned()];
        let listed = command("tasks", target.path(), &args).output().await.expect("it runs");
        let text = String::from_utf8(listed.stdout).expect("text");
        let found: HashMap<String, Option<Status>> = text.lines().map(id_and_status).collect();
        assert!(!self.tasks.is_empty(), "a backup without tasks shows nothing");
        for task in self.tasks {
            let status = found.get(&task.id).unwrap_or_else(|| panic!("{} is not in the backup", task.id));
            if let Some((ended, _)) = task.over {
                assert_eq!(*status, Some(ended), "{} had ended before the backup", task.id);
            }
        }
    }
}

fn file(folder: &TempDir) -> PathBuf {
    folder.path().join("store.backup")
}

fn id_and_status(line: &str) -> (String, Option<Status>) {
    let task: Value = serde_json::from_str(line).expect("JSON");
    let text = |name: &str| task[name].as_str().expect("a text").to_owned();
    (text("taskId"), Status::named(&text("status")))
}
