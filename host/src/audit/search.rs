//! The search of the audit files, for the console: from the end of the newest file to the beginning of the oldest.

use super::file::numbered;
use rustix::fs::OFlags;
use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io;
use std::ops::ControlFlow;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use toolyard_cli::read::if_exists;
use toolyard_console::{AuditHits, AuditSearch};

/// The most bytes that one search reads.
const MAX_BYTES: u64 = 64 << 20;
/// The longest time that one search takes.
const MAX_TIME: Duration = Duration::from_secs(2);
/// The bytes of one read.
const CHUNK: u64 = 256 << 10;
/// The longest line (bytes). A file with a longer one is no audit log.
const MAX_LINE: usize = 1 << 20;
/// The most files that one search opens.
const MAX_FILES: u32 = 1_000;

/// Searches the file at `path` and its rotated files, `PATH.1` to `PATH.keep`. Links and what is no regular file are
/// not followed.
pub fn search(path: &Path, keep: u32, search: &AuditSearch) -> AuditHits {
    Reading::new(search, MAX_BYTES).files(path, keep)
}

/// A search under way.
struct Reading<'a> {
    search: &'a AuditSearch,
    hits: AuditHits,
    skipped: usize,
    bytes_left: u64,
    started: Instant,
}

impl<'a> Reading<'a> {
    fn new(search: &'a AuditSearch, bytes: u64) -> Self {
        let hits = AuditHits::default();
        Self { search, hits, skipped: 0, bytes_left: bytes, started: Instant::now() }
    }

    fn files(mut self, path: &Path, keep: u32) -> AuditHits {
        // A rotation during the search gives a file that was read the next name.
        let mut seen = BTreeSet::new();
        for number in 0..=keep.min(MAX_FILES) {
            let name = PathBuf::from(numbered(path.as_os_str(), number));
            let is_over = match open(&name) {
                Ok(Some((file, identity))) if seen.insert(identity) => self.file(&file),
                Ok(_) => Ok(ControlFlow::Continue(())),
                Err(error) => Err(error),
            };
            match is_over {
                Ok(ControlFlow::Continue(())) => {}
                Ok(ControlFlow::Break(())) => break,
                Err(error) => {
                    self.hits.incomplete = Some(format!("Cannot read {}: {error}.", name.display()));
                }
            }
        }
        self.hits
    }

    /// Reads one file from its end.
    fn file(&mut self, file: &File) -> io::Result<ControlFlow<()>> {
        let mut position = file.metadata()?.len();
        // The end of a line whose beginning is not yet read.
        let mut rest = Vec::new();
        while position > 0 {
            if let Some(why) = self.limit() {
                self.hits.incomplete = Some(why);
                return Ok(ControlFlow::Break(()));
            }
            let size = CHUNK.min(position);
            position -= size;
            self.bytes_left = self.bytes_left.saturating_sub(size);
            let mut read = vec![0; usize::try_from(size).unwrap_or_default()];
            file.read_exact_at(&mut read, position)?;
            read.append(&mut rest);
            let whole = match read.iter().position(|byte| *byte == b'\n') {
                _ if position == 0 => 0,
                Some(end) => end + 1,
                None if read.len() > MAX_LINE => {
                    return Err(io::Error::other("it has a line that is too long"));
                }
                None => read.len(),
            };
            for line in read[whole..].split(|byte| *byte == b'\n').rev() {
                if self.line(line).is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
            read.truncate(whole);
            rest = read;
        }
        Ok(ControlFlow::Continue(()))
    }

    fn limit(&self) -> Option<String> {
        let after = if self.bytes_left == 0 {
            format!("{} MiB", MAX_BYTES >> 20)
        } else if self.started.elapsed() >= MAX_TIME {
            format!("{} s", MAX_TIME.as_secs())
        } else {
            return None;
        };
        Some(format!(
            "The search stopped after {after}. It did not look at older entries; search the files with `grep`."
        ))
    }

    fn line(&mut self, line: &[u8]) -> ControlFlow<()> {
        let Some(text) = std::str::from_utf8(line).ok().filter(|text| self.search.has(text)) else {
            return ControlFlow::Continue(());
        };
        if self.skipped < self.search.skip {
            self.skipped += 1;
        } else if self.hits.lines.len() < self.search.limit {
            self.hits.lines.push(text.to_owned());
        } else {
            self.hits.has_more = true;
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }
}

/// Opens a regular file, and identifies it. `None` if there is none.
fn open(path: &Path) -> io::Result<Option<(File, (u64, u64))>> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    let flags = i32::try_from(flags.bits()).map_err(io::Error::other)?;
    let Some(file) = if_exists(OpenOptions::new().read(true).custom_flags(flags).open(path))? else {
        return Ok(None);
    };
    let found = file.metadata()?;
    if !found.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    Ok(Some((file, (found.dev(), found.ino()))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn entry(number: usize, tool: &str) -> String {
        format!(
            r#"{{"id":"1-{number}-0","at":"2026-03-02T09:14:07.321Z","action":"task.created","principal":"local","tool":"{tool}","padding":"{}"}}"#,
            "x".repeat(number % 50)
        ) + "\n"
    }

    fn numbers(hits: &AuditHits) -> Vec<usize> {
        let id =
            |line: &String| line.split('-').nth(1).and_then(|number| number.parse().ok()).expect("a number");
        hits.lines.iter().map(id).collect()
    }

    fn wanted(skip: usize, limit: usize) -> AuditSearch {
        AuditSearch { tool: Some("deploy".to_owned()), skip, limit, ..AuditSearch::default() }
    }

    #[test]
    fn entries_are_found_from_the_newest_file_to_the_oldest() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("audit.jsonl");
        // Several chunks, so that lines are cut by them.
        let lines = |from: usize, to: usize| {
            (from..to)
                .map(|number| entry(number, if number % 100 == 0 { "deploy" } else { "other" }))
                .collect::<String>()
        };
        fs::write(&path, lines(8_000, 16_000) + "{half a li").expect("writes");
        fs::write(numbered(path.as_os_str(), 1), lines(4_000, 8_000)).expect("writes");
        fs::write(numbered(path.as_os_str(), 3), lines(0, 4_000)).expect("writes");
        fs::write(numbered(path.as_os_str(), 4), lines(20_000, 20_200)).expect("writes");
        let all = search(&path, 3, &wanted(0, 1_000));
        assert_eq!(numbers(&all), (0..160).rev().map(|hundred| hundred * 100).collect::<Vec<_>>());
        assert!(!all.has_more && all.incomplete.is_none());
        let some = search(&path, 3, &wanted(2, 3));
        assert_eq!((numbers(&some), some.has_more), (vec![15_700, 15_600, 15_500], true));
    }

    #[test]
    fn a_search_reads_no_more_than_its_bound_and_says_so() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("audit.jsonl");
        fs::write(&path, (0..8_000).map(|number| entry(number, "deploy")).collect::<String>())
            .expect("writes");
        let hits = Reading::new(&wanted(0, 100_000), CHUNK).files(&path, 1);
        assert!(!hits.lines.is_empty() && hits.lines.len() < 8_000, "{}", hits.lines.len());
        assert_eq!(numbers(&hits).first(), Some(&7_999));
        assert!(hits.incomplete.is_some_and(|why| why.starts_with("The search stopped after")));
    }

    #[test]
    fn links_and_other_files_are_not_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("audit.jsonl");
        fs::write(folder.path().join("other"), entry(1, "deploy")).expect("writes");
        std::os::unix::fs::symlink("other", &path).expect("links");
        fs::create_dir(numbered(path.as_os_str(), 1)).expect("makes");
        fs::write(numbered(path.as_os_str(), 2), "x".repeat(3 << 20)).expect("writes");
        fs::write(numbered(path.as_os_str(), 3), entry(7, "deploy")).expect("writes");
        let hits = search(&path, 3, &wanted(0, 10));
        assert_eq!(numbers(&hits), [7]);
        assert!(hits.incomplete.is_some_and(|why| why.contains("audit.jsonl")));
    }
}
