//! Mounts for one test. The test runs itself again in a mount namespace in which it is root. The namespace
//! ends with the test.

use std::ffi::OsStr;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// Set in the process inside the namespace.
const INSIDE: &str = "TOOLYARD_TEST_MOUNTS";

/// Ways to enter a namespace: as root, and as any other user.
const WAYS: [&[&str]; 2] = [&["--mount"], &["--user", "--map-root-user", "--mount"]];

/// Mounts that are removed on drop, before the folders that hold them.
#[derive(Debug, Default)]
pub struct Mounts(Vec<PathBuf>);

impl Mounts {
    /// Mounts for the test of this full name, in the process that may mount. The process that starts it waits
    /// for it, and gets `None`. If namespaces are not available, prints that.
    ///
    /// # Panics
    /// If the test fails in the other process.
    pub fn of(test: &str) -> Option<Self> {
        if std::env::var_os(INSIDE).is_some() {
            return Some(Self::default());
        }
        let mut why = String::new();
        // This folder holds the inner process's temporary folders. It is removed outside of the namespace,
        // where no mounts are visible.
        let place = tempfile::tempdir().expect("a folder");
        let script = "mkdir \"$1/probe\" && mount --bind \"$1/probe\" \"$1/probe\" || exit 77; \
                      umount \"$1/probe\"; rmdir \"$1/probe\"; exec \"$0\" --exact \"$2\" --nocapture";
        for way in WAYS {
            let mut process = Command::new("unshare");
            process.args(way).args(["sh", "-c", script]).arg(std::env::current_exe().expect("is known"));
            process.arg(place.path()).arg(test).env(INSIDE, "1").env("TMPDIR", place.path());
            match process.output() {
                Ok(done) if done.status.success() => {
                    let said = String::from_utf8_lossy(&done.stdout);
                    assert!(said.contains("1 passed"), "no test is called {test}: {said}");
                    // Past the capture of the test harness, for the messages of the inner process.
                    let _ = std::io::stderr().write_all(&done.stderr);
                    return None;
                }
                // The exit codes of `unshare` without permission, and of the script if it may not mount.
                Ok(done) if matches!(done.status.code(), Some(1 | 77)) && done.stdout.is_empty() => {
                    why = String::from_utf8_lossy(&done.stderr).into_owned();
                }
                Err(error) => why = error.to_string(),
                Ok(done) => panic!(
                    "{}\n{}",
                    String::from_utf8_lossy(&done.stdout),
                    String::from_utf8_lossy(&done.stderr)
                ),
            }
            let _ = std::fs::remove_dir(place.path().join("probe"));
        }
        say(&format!("SKIPPED: {test} may not mount here: {}", why.trim()));
        None
    }

    /// Shows a file or folder at another path too.
    ///
    /// # Panics
    /// If the mount fails.
    pub fn bind(&mut self, what: &Path, at: &Path) {
        let done = self.mount(&["--bind"], what, at);
        assert!(done, "binds {} at {}", what.display(), at.display());
    }

    /// The same for files of the machine, mounted read-only; `false` if that is not possible here.
    pub fn bind_of_machine(&mut self, what: &str, at: &Path) -> bool {
        Path::new(what).exists() && self.try_mount(&["--bind", "-o", "ro"], what, at)
    }

    /// Mounts with these arguments; if that is not possible here, prints so and returns `false`.
    pub fn try_mount(&mut self, how: &[&str], what: impl AsRef<OsStr>, at: &Path) -> bool {
        let done = self.mount(how, what.as_ref(), at);
        if !done {
            say(&format!("SKIPPED: mount {how:?} {:?} is not possible here", what.as_ref()));
        }
        done
    }

    fn mount(&mut self, how: &[&str], what: impl AsRef<OsStr>, at: &Path) -> bool {
        let done = Command::new("mount").args(how).arg(what).arg(at).output();
        let is_done = done.is_ok_and(|done| done.status.success());
        if is_done {
            self.0.push(at.to_owned());
        }
        is_done
    }

    /// Removes the latest mount at this path.
    ///
    /// # Panics
    /// If there is none.
    pub fn unmount(&mut self, at: &Path) {
        let n = self.0.iter().rposition(|known| known == at).expect("is mounted");
        self.0.remove(n);
        assert!(unmounted(at), "unmounts {}", at.display());
    }
}

impl Drop for Mounts {
    fn drop(&mut self) {
        while let Some(at) = self.0.pop() {
            if !unmounted(&at) {
                // A cleanup must never delete a folder that shows files of the machine.
                say(&format!("{} could not be unmounted", at.display()));
                std::process::abort();
            }
        }
    }
}

/// A disk for one test: a file system in memory that can be full.
pub struct Disk {
    // Unmounted before the folder is removed.
    _mounts: Mounts,
    place: TempDir,
    folder: PathBuf,
}

impl Disk {
    /// A disk of this size, such as `8m`, as [`Mounts::of`].
    ///
    /// # Panics
    /// If the test fails in the other process.
    pub fn of(size: &str, test: &str) -> Option<Self> {
        let mut mounts = Mounts::of(test)?;
        let place = tempfile::tempdir().expect("a folder");
        let how = ["-t", "tmpfs", "-o", &format!("size={size}")];
        if !mounts.try_mount(&how, "tmpfs", place.path()) {
            return None;
        }
        let folder = place.path().join("data");
        std::fs::create_dir(&folder).expect("a new disk");
        Some(Self { _mounts: mounts, place, folder })
    }

    /// A folder on it.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Fills the disk until the returned file is removed.
    ///
    /// # Panics
    /// If it never gets full.
    pub fn fill(&self) -> PathBuf {
        let path = self.place.path().join("ballast");
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

fn unmounted(at: &Path) -> bool {
    Command::new("umount").arg("-l").arg(at).status().is_ok_and(|status| status.success())
}

fn say(what: &str) {
    let _ = std::io::stderr().write_all(format!("{what}\n").as_bytes());
}
