//! Machine code on disk, keyed by the component that it was compiled from.
//!
//! Loading machine code means trusting it like the host program itself. The cache loads it only
//! from a folder that no other user can write to, from a file that this user owns, and only if the
//! checksum equals the one recorded when the file was written. The folder is opened once and the
//! handle is kept, so a user who can write to the parent folder and rename the cache cannot put
//! another folder in its place.
//!
//! Each component has two files: `KEY.cwasm`, and `KEY.json` with the checksum. Its offer is in a third, `OTHER.offer`,
//! whose key does not depend on the engine, so it is known before the component is compiled again. A component that was
//! made from a core module is also kept, as `KEY.wasm`. These two start with their checksum: a damaged schema would
//! refuse a good plugin.

use crate::error::StartError;
use rustix::fs::{AtFlags, Mode, OFlags, Timespec, Timestamps, UTIME_NOW};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::fs::File;
use std::hash::{Hash, Hasher};
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use toolyard_task::Digest;
use toolyard_task::wire::{PromptDescription, ToolDescription};
use wasmtime::component::Component;

/// The length of a SHA-256 checksum.
const CHECKSUM_BYTES: usize = 32;
/// How many bytes of a file are read at once.
const PIECE_BYTES: usize = 64 << 10;
/// The most bytes of the folder. Beyond it, the files that were used longest ago are removed.
const MAX_BYTES: u64 = 8 << 30;
/// The mode bits that let other users write.
const OTHERS_WRITE: u32 = 0o022;

/// The folder that holds the files.
pub(crate) struct Cache {
    /// The path at which it was opened, for messages and for removal.
    dir: PathBuf,
    handle: Arc<File>,
    /// Whether the host named no folder, so that this temporary one is removed at the end.
    ours_alone: bool,
}

/// The contents of `KEY.json`.
#[derive(Debug, Serialize, Deserialize)]
struct Note {
    code: Check,
}

/// The size and checksum of a file at the time when it was written. They detect damage by a disk or
/// a copy. They do not protect against attackers, who cannot write to the folder. Each start reads
/// all machine code, which is three times as large as its components, so this check must be fast.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Check {
    bytes: u64,
    crc32: u32,
}

impl Check {
    /// Computes the check from the file's beginning, without loading the file into memory.
    fn of(mut file: &File) -> std::io::Result<Self> {
        let mut piece = vec![0; PIECE_BYTES];
        let (mut bytes, mut sum) = (0, crc32fast::Hasher::new());
        loop {
            let read = match file.read(&mut piece) {
                Ok(0) => return Ok(Self { bytes, crc32: sum.finalize() }),
                Ok(read) => read,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            bytes += read as u64;
            sum.update(&piece[..read]);
        }
    }
}

/// The answers of `list-tools` and `list-prompts`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ComponentOffer {
    pub tools: Vec<ToolDescription>,
    pub prompts: Vec<PromptDescription>,
}

impl Cache {
    pub fn open(dir: Option<&Path>) -> Result<Self, StartError> {
        let (dir, ours_alone) = match dir {
            Some(dir) => (dir.to_owned(), false),
            None => (std::env::temp_dir().join(format!("toolyard-{}", unique())), true),
        };
        let refuse = |why: String| StartError::Cache { path: dir.display().to_string(), why };
        let made = std::fs::DirBuilder::new().recursive(!ours_alone).mode(0o700).create(&dir);
        made.map_err(|error| refuse(error.to_string()))?;
        let found = std::fs::symlink_metadata(&dir).map_err(|error| refuse(error.to_string()))?;
        if !found.is_dir() {
            return Err(refuse("it is not a folder".to_owned()));
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let handle =
            rustix::fs::open(&dir, flags, Mode::empty()).map_err(|error| refuse(error.to_string()))?;
        let handle = File::from(handle);
        let found = handle.metadata().map_err(|error| refuse(error.to_string()))?;
        if found.uid() != rustix::process::geteuid().as_raw() {
            return Err(refuse("it belongs to another user".to_owned()));
        }
        if found.mode() & OTHERS_WRITE != 0 {
            return Err(refuse("others may write to it; `chmod 700` it".to_owned()));
        }
        Ok(Self { dir, handle: Arc::new(handle), ours_alone })
    }

    /// The cache key of this component's code of this kind.
    pub fn key(&self, engine: &wasmtime::Engine, digest: &str, kind: &[u8]) -> String {
        let mut hasher = Sha256::new();
        hasher.update(kind);
        hasher.update(compatibility(engine));
        hasher.update(digest);
        hex(&hasher.finalize())
    }

    /// Whether there is an entry of this key. It may be damaged.
    pub fn has(&self, key: &str) -> bool {
        let is_there = |file: Result<Option<File>, String>| file.is_ok_and(|file| file.is_some());
        is_there(self.open_own(&note_name(key))) && is_there(self.open_own(&code_name(key)))
    }

    /// The machine code of this key, if the cache has an undamaged copy.
    pub fn load(&self, engine: &wasmtime::Engine, key: &str) -> Option<Component> {
        self.take(engine, key).unwrap_or_else(|why| {
            let path = self.dir.join(code_name(key));
            tracing::warn!(
                event = "cache.entry_rejected", kind = "code", path = %path.display(), reason = %why,
                "cache entry is not usable; making it again"
            );
            None
        })
    }

    /// As `load`: `None` if the code is missing, an error if it is unusable.
    fn take(&self, engine: &wasmtime::Engine, key: &str) -> Result<Option<Component>, String> {
        let Some(note) = self.note(key)? else { return Ok(None) };
        let Some(file) = self.open_own(&code_name(key))? else { return Ok(None) };
        if Check::of(&file).map_err(|error| error.to_string())? != note.code {
            return Err("it is damaged".to_owned());
        }
        component_of(engine, &file).map(Some).map_err(|error| format!("{error:#}"))
    }

    /// The note of this key; `None` also if the file is not a valid note.
    fn note(&self, key: &str) -> Result<Option<Note>, String> {
        let note = self.read_own(&note_name(key))?;
        Ok(note.and_then(|note| serde_json::from_slice(&note).ok()))
    }

    /// Opens a file of the folder, if it exists.
    ///
    /// # Errors
    /// If another user could have written it, or it is not a regular file.
    fn open_own(&self, name: &str) -> Result<Option<File>, String> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = match rustix::fs::openat(&*self.handle, name, flags, Mode::empty()) {
            Ok(file) => File::from(file),
            Err(rustix::io::Errno::NOENT) => return Ok(None),
            Err(error) => return Err(error.to_string()),
        };
        let found = file.metadata().map_err(|error| error.to_string())?;
        if !found.is_file() {
            return Err("it is not a regular file".to_owned());
        }
        if found.uid() != rustix::process::geteuid().as_raw() || found.mode() & OTHERS_WRITE != 0 {
            return Err("another user could have written it".to_owned());
        }
        // When it was used, for `trim`. A failure only makes the file older.
        let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
        let _ = rustix::fs::futimens(&file, &Timestamps { last_access: now, last_modification: now });
        Ok(Some(file))
    }

    fn read_own(&self, name: &str) -> Result<Option<Vec<u8>>, String> {
        let Some(mut file) = self.open_own(name)? else { return Ok(None) };
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(|error| error.to_string())?;
        Ok(Some(bytes))
    }

    /// The handle of the folder, for a process that works in it.
    pub fn handle(&self) -> Arc<File> {
        self.handle.clone()
    }

    /// The name of a temporary file for the compiler's input or output. Dropping it removes the
    /// file.
    pub fn scratch(&self, suffix: &str) -> Scratch<'_> {
        Scratch { cache: self, name: format!(".{}.{suffix}", unique()) }
    }

    /// Stores code under this key and loads it from there.
    pub fn keep(
        &self,
        engine: &wasmtime::Engine,
        key: &str,
        code: &Scratch<'_>,
    ) -> Result<Component, String> {
        let failed = |error: std::io::Error| format!("the machine code could not be stored: {error}");
        let gone = || "the machine code is gone".to_owned();
        let file = self.open_own(&code.name)?.ok_or_else(gone)?;
        let note = Note { code: Check::of(&file).map_err(failed)? };
        code.rename(&code_name(key)).map_err(failed)?;
        let scratch = self.scratch("json");
        let noted = serde_json::to_vec(&note).map_err(std::io::Error::other);
        noted
            .and_then(|note| scratch.write(&note))
            .and_then(|()| scratch.rename(&note_name(key)))
            .map_err(failed)?;
        if let Err(error) = self.trim() {
            tracing::warn!(
                event = "cache.not_trimmed", path = %self.dir.display(), %error,
                "cannot remove old entries of the cache"
            );
        }
        let taken = self.take(engine, key).map_err(|why| format!("the machine code is not taken: {why}"))?;
        taken.ok_or_else(gone)
    }

    /// Removes the files that were used longest ago, until at most [`MAX_BYTES`] are left.
    fn trim(&self) -> std::io::Result<()> {
        let mut files = Vec::new();
        for entry in rustix::fs::Dir::read_from(&*self.handle)? {
            let name = entry?.file_name().to_owned();
            let is_temporary = name.to_bytes().starts_with(b".");
            // Another host that shares the folder may have removed it meanwhile.
            let found = rustix::fs::statat(&*self.handle, &*name, AtFlags::SYMLINK_NOFOLLOW);
            if let (Ok(found), false) = (found, is_temporary) {
                files.push((found.st_mtime, u64::try_from(found.st_size).unwrap_or(0), name));
            }
        }
        files.sort_unstable();
        let mut bytes: u64 = files.iter().map(|(_, bytes, _)| bytes).sum();
        for (_, its, name) in files {
            if bytes <= MAX_BYTES {
                break;
            }
            bytes -= its;
            let _ = rustix::fs::unlinkat(&*self.handle, &*name, AtFlags::empty());
        }
        Ok(())
    }

    /// The offer of this component, if the cache has an undamaged copy.
    pub fn offer(&self, digest: &Digest) -> Option<ComponentOffer> {
        serde_json::from_slice(&self.load_summed("description", &offer_name(digest))?).ok()
    }

    /// Stores a component's offer. A failure only costs time later.
    pub fn keep_offer(&self, digest: &Digest, offer: &ComponentOffer) {
        if let Ok(text) = serde_json::to_vec(offer) {
            self.keep_summed("description", &offer_name(digest), &text);
        }
    }

    /// The component made from the core module of this key, if the cache has an undamaged copy.
    pub fn load_component(&self, key: &str) -> Option<Vec<u8>> {
        self.load_summed("component", &component_name(key))
    }

    /// Stores such a component. A failure only costs time later.
    pub fn keep_component(&self, key: &str, component: &[u8]) {
        self.keep_summed("component", &component_name(key), component);
    }

    /// The content of a file that starts with its checksum, if the file is there and undamaged.
    fn load_summed(&self, kind: &'static str, name: &str) -> Option<Vec<u8>> {
        let reject = |reason: &str| {
            tracing::warn!(
                event = "cache.entry_rejected",
                kind,
                reason,
                "cache entry is not usable; making it again"
            );
        };
        let mut kept = self.read_own(name).inspect_err(|why| reject(why)).ok()??;
        let is_whole = kept
            .split_first_chunk::<CHECKSUM_BYTES>()
            .is_some_and(|(sum, content)| Sha256::digest(content)[..] == sum[..]);
        if !is_whole {
            reject("its checksum does not match");
            return None;
        }
        kept.drain(..CHECKSUM_BYTES);
        Some(kept)
    }

    fn keep_summed(&self, kind: &'static str, name: &str, content: &[u8]) {
        let scratch = self.scratch(kind);
        let kept = [&Sha256::digest(content)[..], content].concat();
        if let Err(error) = scratch.write(&kept).and_then(|()| scratch.rename(name)) {
            tracing::warn!(event = "cache.entry_not_written", kind, %error, "cannot write cache entry");
        }
    }
}

/// The file of a component's offer, for this version of the contract and of the file.
fn offer_name(digest: &Digest) -> String {
    format!("{}.offer", hex(&Sha256::digest(format!("toolyard:plugin@0.1.0 2 {}", digest.0))))
}

fn code_name(key: &str) -> String {
    format!("{key}.cwasm")
}

fn component_name(key: &str) -> String {
    format!("{key}.wasm")
}

fn note_name(key: &str) -> String {
    format!("{key}.json")
}

/// The component in an open file of the cache. The file is mapped if it can be named by its
/// descriptor, and copied otherwise.
fn component_of(engine: &wasmtime::Engine, file: &File) -> wasmtime::Result<Component> {
    let descriptor = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
    if descriptor.exists() {
        // SAFETY: this program wrote the file for an engine of this configuration. Only this user
        // can write to it and to its folder, both of which are held open, and the checksum recorded
        // at that time matches.
        return unsafe { Component::deserialize_file(engine, &descriptor) };
    }
    let mut code = Vec::new();
    rustix::fs::seek(file, rustix::fs::SeekFrom::Start(0))?;
    { file }.read_to_end(&mut code)?;
    // SAFETY: as above.
    unsafe { Component::deserialize(engine, &code) }
}

impl Drop for Cache {
    fn drop(&mut self) {
        if self.ours_alone {
            // Mapped code stays mapped. A failure leaves a folder behind in the system's temporary
            // folder.
            let _ = std::fs::remove_dir_all(&self.dir);
        }
    }
}

/// A temporary file that is not yet part of the cache.
pub(crate) struct Scratch<'a> {
    cache: &'a Cache,
    /// The name of the file in the folder of the cache.
    pub name: String,
}

impl Scratch<'_> {
    pub fn write(&self, bytes: &[u8]) -> std::io::Result<()> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR;
        let file = rustix::fs::openat(&*self.cache.handle, self.name.as_str(), flags, mode)?;
        File::from(file).write_all(bytes)
    }

    pub fn read(&self) -> Result<Vec<u8>, String> {
        self.cache.read_own(&self.name)?.ok_or_else(|| "it is gone".to_owned())
    }

    fn rename(&self, name: &str) -> std::io::Result<()> {
        let handle = &*self.cache.handle;
        Ok(rustix::fs::renameat(handle, self.name.as_str(), handle, name)?)
    }
}

impl Drop for Scratch<'_> {
    fn drop(&mut self) {
        // The file no longer exists if it was renamed.
        let _ = rustix::fs::unlinkat(&*self.cache.handle, self.name.as_str(), AtFlags::empty());
    }
}

/// A hash of the part of an engine's configuration that machine code depends on, including
/// wasmtime's version.
pub(crate) fn compatibility(engine: &wasmtime::Engine) -> [u8; 32] {
    struct Sink(Sha256);
    impl Hasher for Sink {
        fn finish(&self) -> u64 {
            0
        }
        fn write(&mut self, bytes: &[u8]) {
            self.0.update(bytes);
        }
    }
    let mut sink = Sink(Sha256::new());
    engine.precompile_compatibility_hash().hash(&mut sink);
    sink.0.finalize().into()
}

/// Encodes bytes as lower-case hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut out, byte| {
        let _ = write!(out, "{byte:02x}");
        out
    })
}

/// A name that no other live process has used.
fn unique() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let nanos = std::time::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_nanos());
    format!("{}-{nanos:x}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}
