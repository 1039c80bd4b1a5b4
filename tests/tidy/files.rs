//! The files of the repository.

use std::path::PathBuf;
use toolyard_tests::guests::root;

/// Paths in these folders, or in all, that git tracks or would track: files, and symbolic links to files or folders.
pub fn tracked(folders: &[&str]) -> Vec<PathBuf> {
    let mut git = std::process::Command::new("git");
    git.args(["ls-files", "--cached", "--others", "--exclude-standard"]).args(folders);
    let listed = git.current_dir(root()).output().expect("git runs");
    assert!(listed.status.success(), "git ls-files");
    let listed = String::from_utf8(listed.stdout).expect("plain names");
    // Git lists a deleted file until the deletion is committed.
    listed.lines().map(|line| root().join(line)).filter(|path| path.exists()).collect()
}
