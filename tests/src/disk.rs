//! A disk for one test: a file system in memory that can be full, or read-only. The test runs itself again in
//! a namespace with that mount, which needs no root.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The mount point, for the process that has the disk.
const PLACE: &str = "TOOLYARD_TEST_DISK";

/// The disk.
pub struct Disk {
    place: PathBuf,
    folder: PathBuf,
}

impl Disk {
    /// A disk of this size, such as `8m`, for the test of this full name. Only the process in the namespace
    /// gets the disk; the process that starts it waits for it, and gets `None`. If namespaces are not
    /// available, prints that.
    ///
    /// # Panics
    /// If the test fails in the other process.
    pub fn of(size: &str, test: &str) -> Option<Self> {
        if let Some(place) = std::env::var_os(PLACE).map(PathBuf::from) {
            let folder = place.join("data");
            std::fs::create_dir(&folder).expect("a new disk");
            return Some(Self { place, folder });
        }
        let place = tempfile::tempdir().expect("a folder");
        let script =
            "mount -t tmpfs -o size=$1 tmpfs \"$2\" || exit 77; exec \"$0\" --exact \"$3\" --nocapture";
        let mut process = Command::new("unshare");
        process.args(["--user", "--map-root-user", "--mount", "sh", "-c", script]);
        process.arg(std::env::current_exe().expect("is known")).arg(size).arg(place.path()).arg(test);
        match process.env(PLACE, place.path()).output() {
            Ok(done) if done.status.success() => {
                let said = String::from_utf8_lossy(&done.stdout);
                assert!(said.contains("1 passed"), "no test is called {test}: {said}");
            }
            // The exit codes of `unshare` without permission, and of the script if it may not mount.
            Ok(done) if matches!(done.status.code(), Some(1 | 77)) && done.stdout.is_empty() => {
                skipped(&String::from_utf8_lossy(&done.stderr));
            }
            Err(error) => skipped(&error.to_string()),
            Ok(done) => panic!("{}", String::from_utf8_lossy(&done.stderr)),
        }
        None
    }

    /// A folder on it.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Remounts it: `ro`, `rw`, `size=9m`.
    ///
    /// # Panics
    /// If the mount fails.
    pub fn remount(&self, how: &str) {
        let done = Command::new("mount").args(["-o", &format!("remount,{how}")]).arg(&self.place).status();
        assert!(done.expect("starts").success(), "remounts {how}");
    }

    /// Fills the disk until the returned file is removed.
    ///
    /// # Panics
    /// If it never gets full.
    pub fn fill(&self) -> PathBuf {
        let path = self.place.join("ballast");
        let mut file = std::fs::File::create(&path).expect("there is room for a file");
        let error = loop {
            if let Err(error) = file.write_all(&[1; 4096]) {
                break error;
            }
        };
        assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
        path
    }
}

/// Past the capture of the test harness.
fn skipped(why: &str) {
    let line = format!("skipped, no disk of our own: {why}\n");
    let _ = std::io::stderr().write_all(line.as_bytes());
}
