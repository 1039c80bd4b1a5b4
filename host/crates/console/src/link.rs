//! Login links: each works once, for five minutes. The data folder has only the digest of its code, so any
//! process that may write there can issue one, and any host that reads it can take it.

use crate::session::{digest_hex, random_code};
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use toolyard_dispatch::Timestamp;

/// How long a link works.
const LIFETIME: Duration = Duration::from_secs(5 * 60);
/// The most links that wait to be used. Older ones are removed.
const MAX_LINKS: usize = 64;

/// The folder of login links and of the console's address, below the data folder.
#[derive(Debug, Clone)]
pub struct LinkFolder {
    folder: PathBuf,
}

impl LinkFolder {
    /// Opens the folder, and makes it readable for its owner only.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn open(data: &Path) -> io::Result<Self> {
        let folder = data.join("console");
        DirBuilder::new().recursive(true).mode(0o700).create(folder.join("links"))?;
        Ok(Self { folder })
    }

    /// Writes the address of the console that runs on this data folder.
    pub(crate) fn write_address(&self, origin: &str) -> io::Result<()> {
        self.write(&self.folder.join("address"), origin)
    }

    /// Removes the address when the console ends.
    pub(crate) fn remove_address(&self, origin: &str) {
        // Another host of the same folder may have written its own.
        if self.address().is_ok_and(|address| address == origin) {
            let _ = fs::remove_file(self.folder.join("address"));
        }
    }

    /// The address of the console that runs on this data folder.
    ///
    /// # Errors
    /// `NotFound` if none runs.
    pub fn address(&self) -> io::Result<String> {
        fs::read_to_string(self.folder.join("address"))
    }

    /// Makes a link for the console that runs on this data folder. The fragment of its address is the code: browsers do
    /// not send that part.
    ///
    /// # Errors
    /// `NotFound` if none runs; else if the folder cannot be written or the machine has no random numbers.
    pub fn issue(&self, now: Timestamp) -> io::Result<String> {
        let origin = self.address()?;
        let code = random_code()?;
        self.remove_old(now)?;
        self.write(&self.link(&code), "")?;
        Ok(format!("{origin}/login#{code}"))
    }

    /// Uses up the link with this code. False if there is none, or if it is too old.
    pub(crate) fn redeem(&self, code: &str, now: Timestamp) -> bool {
        let file = self.link(code);
        let is_fresh = is_fresh(&file, now);
        // Of two requests only one removes it.
        fs::remove_file(file).is_ok() && is_fresh
    }

    fn link(&self, code: &str) -> PathBuf {
        self.folder.join("links").join(digest_hex(code))
    }

    fn write(&self, path: &Path, text: &str) -> io::Result<()> {
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
        file.write_all(text.as_bytes())
    }

    /// Removes expired links, and the oldest ones if there are too many.
    fn remove_old(&self, now: Timestamp) -> io::Result<()> {
        let mut links = Vec::new();
        for entry in fs::read_dir(self.folder.join("links"))? {
            let path = entry?.path();
            match fs::metadata(&path).and_then(|metadata| metadata.modified()) {
                Ok(issued) if is_fresh(&path, now) => links.push((issued, path)),
                _ => drop(fs::remove_file(path)),
            }
        }
        links.sort_unstable();
        let surplus = links.len().saturating_sub(MAX_LINKS - 1);
        for (_, path) in links.drain(..surplus) {
            let _ = fs::remove_file(path);
        }
        Ok(())
    }
}

fn is_fresh(link: &Path, now: Timestamp) -> bool {
    let issued = fs::metadata(link).and_then(|metadata| metadata.modified());
    let now = UNIX_EPOCH + Duration::from_millis(u64::try_from(now.0).unwrap_or_default());
    issued.is_ok_and(|issued: SystemTime| now.duration_since(issued).unwrap_or_default() < LIFETIME)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    fn folder() -> (tempfile::TempDir, LinkFolder) {
        let data = tempfile::tempdir().expect("a folder");
        let links = LinkFolder::open(data.path()).expect("opens");
        links.write_address("http://abcd.localhost:7422").expect("writes");
        (data, links)
    }

    /// A minute from now or later: the files have times of the system's clock.
    fn later(minutes: i64) -> Timestamp {
        let file = tempfile::tempfile().and_then(|file| file.metadata()).and_then(|file| file.modified());
        let now = file.expect("a file").duration_since(UNIX_EPOCH).expect("after 1970");
        Timestamp(i64::try_from(now.as_millis()).expect("a time") + minutes * 60_000)
    }

    fn code(link: &str) -> String {
        link.split_once('#').expect("a fragment").1.to_owned()
    }

    #[test]
    fn a_link_works_once_for_five_minutes() {
        let (_data, links) = folder();
        let (first, second) =
            (links.issue(later(0)).expect("issues"), links.issue(later(0)).expect("issues"));
        assert!(first.starts_with("http://abcd.localhost:7422/login#"));
        assert!(!links.redeem("another code", later(0)));
        assert!(links.redeem(&code(&first), later(4)) && !links.redeem(&code(&first), later(4)), "once");
        assert!(!links.redeem(&code(&second), later(6)), "expired");
    }

    #[test]
    fn the_folder_has_no_code_and_is_its_owners_alone() {
        let (data, links) = folder();
        let link = links.issue(later(0)).expect("issues");
        let folder = data.path().join("console/links");
        for entry in fs::read_dir(&folder).expect("lists") {
            let path = entry.expect("an entry").path();
            assert!(!path.to_string_lossy().contains(&code(&link)));
            assert_eq!(fs::metadata(&path).expect("metadata").permissions().mode() & 0o777, 0o600);
        }
        assert_eq!(fs::metadata(&folder).expect("metadata").permissions().mode() & 0o777, 0o700);
    }

    #[test]
    fn a_folder_has_a_bounded_number_of_links() {
        let (data, links) = folder();
        for _ in 0..MAX_LINKS + 5 {
            links.issue(later(0)).expect("issues");
        }
        assert_eq!(fs::read_dir(data.path().join("console/links")).expect("lists").count(), MAX_LINKS);
    }

    #[test]
    fn no_link_is_issued_when_no_console_runs() {
        let (_data, links) = folder();
        links.remove_address("http://other.localhost:1");
        assert!(links.issue(later(0)).is_ok(), "the address of another console stays");
        links.remove_address("http://abcd.localhost:7422");
        assert_eq!(links.issue(later(0)).expect_err("no address").kind(), io::ErrorKind::NotFound);
    }
}
