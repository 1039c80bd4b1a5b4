//! The mounts of this machine, from `/proc/self/mountinfo`, and the location of a path in its file
//! system.
//!
//! A second mount shows the same files under another path. The inode number of the host's data
//! folder, for example, reveals nothing about a bind mount of its parent folder. Therefore grants
//! and protected paths are also compared by file system and path within that file system.

use super::unlinked::trail;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The maximum nesting of overlays. The kernel allows two.
const MAX_OVERLAYS: usize = 3;

/// A file or folder, identified by its file system and its path from that file system's root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DevicePath {
    device: (u32, u32),
    /// Without a trailing slash; empty for the root.
    path: Vec<u8>,
}

impl DevicePath {
    /// Whether `other` is this path or lies in it.
    pub fn holds(&self, other: &Self) -> bool {
        self.device == other.device && beneath(&other.path, &self.path).is_some()
    }

    /// Whether it lies directly in this folder.
    pub fn is_directly_in(&self, folder: &Self) -> bool {
        let cut = self.path.iter().rposition(|byte| *byte == b'/');
        self.device == folder.device && cut.is_some_and(|cut| self.path[..cut] == folder.path)
    }
}

/// The rest of a path below a folder. Neither has a trailing slash.
fn beneath<'a>(path: &'a [u8], folder: &[u8]) -> Option<&'a [u8]> {
    path.strip_prefix(folder).filter(|rest| rest.is_empty() || rest[0] == b'/')
}

#[derive(Debug)]
pub(crate) struct Mount {
    pub id: u64,
    parent: u64,
    pub device: (u32, u32),
    /// The path within the file system that the mount shows, without a trailing slash.
    root: Vec<u8>,
    /// The mount point, without a trailing slash.
    at: Vec<u8>,
    pub kind: String,
    /// The layers of an overlay, as they were named when it was mounted.
    named_layers: Vec<PathBuf>,
    /// The layers that exist here, with links resolved.
    layers: OnceLock<Vec<PathBuf>>,
}

impl Mount {
    /// Parses a line as described in proc_pid_mountinfo(5).
    fn read(line: &[u8]) -> Option<Self> {
        let mut words = line.split(|byte| *byte == b' ');
        let mut number = || std::str::from_utf8(words.next()?).ok()?.parse().ok();
        let (id, parent) = (number()?, number()?);
        let (major, minor) = std::str::from_utf8(words.next()?).ok()?.split_once(':')?;
        let root = unescaped(words.next()?);
        let at = unescaped(words.next()?);
        let mut words = words.skip_while(|word| *word != b"-").skip(1);
        let kind = String::from_utf8_lossy(&unescaped(words.next()?)).into_owned();
        let named_layers = match kind.as_str() {
            "overlay" => words.nth(1).map(layers).unwrap_or_default(),
            _ => Vec::new(),
        };
        Some(Self {
            id,
            parent,
            device: (major.parse().ok()?, minor.parse().ok()?),
            // The kernel marks a root that was removed after mounting in this way.
            root: trimmed(root.strip_suffix(b"//deleted").unwrap_or(&root)),
            at: trimmed(&at),
            kind,
            named_layers,
            layers: OnceLock::new(),
        })
    }

    pub fn at(&self) -> &Path {
        if self.at.is_empty() { Path::new("/") } else { Path::new(OsStr::from_bytes(&self.at)) }
    }
}

fn trimmed(path: &[u8]) -> Vec<u8> {
    let end = path.iter().rposition(|byte| *byte != b'/').map_or(0, |last| last + 1);
    path[..end].to_vec()
}

/// Decodes escapes: `\040` is a space, for example.
fn unescaped(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, more)) = rest.split_first() {
        let octal = more.get(..3).filter(|_| *first == b'\\');
        let byte = octal.and_then(|octal| u8::from_str_radix(std::str::from_utf8(octal).ok()?, 8).ok());
        out.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &more[3..] } else { more };
    }
    out
}

/// The layers that an overlay's options name by absolute paths.
fn layers(options: &[u8]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    // The kernel writes a comma within a path as `\054`.
    for option in options.split(|byte| *byte == b',') {
        let Some(equals) = option.iter().position(|byte| *byte == b'=') else { continue };
        let value = unescaped(&option[equals + 1..]);
        match &option[..equals] {
            b"upperdir" | b"lowerdir+" | b"datadir+" => found.push(value),
            // A list. A colon within a path is escaped with a backslash.
            b"lowerdir" => {
                let mut layer = Vec::new();
                let mut bytes = value.into_iter();
                while let Some(byte) = bytes.next() {
                    match byte {
                        b'\\' => layer.extend(bytes.next()),
                        b':' => found.push(std::mem::take(&mut layer)),
                        byte => layer.push(byte),
                    }
                }
                found.push(layer);
            }
            _ => {}
        }
    }
    let paths = found.into_iter().filter(|layer| layer.starts_with(b"/"));
    paths.map(|layer| PathBuf::from(OsStr::from_bytes(&layer))).collect()
}

/// All mounts.
#[derive(Debug)]
pub(crate) struct Mounts {
    all: Vec<Mount>,
    /// The mounts on top of another one, by its id.
    upon: HashMap<u64, Vec<usize>>,
    by_id: HashMap<u64, usize>,
    root: Option<u64>,
    /// Resolves the links of a path; `None` if the path does not exist.
    real: fn(&Path) -> Option<PathBuf>,
}

impl Mounts {
    /// Reads the mounts. `None` if the system does not show them.
    #[cfg(target_os = "linux")]
    pub fn read() -> Option<Self> {
        let text = std::fs::read("/proc/self/mountinfo").ok()?;
        let root = rustix::fs::open(
            "/",
            rustix::fs::OFlags::PATH | rustix::fs::OFlags::CLOEXEC,
            rustix::fs::Mode::empty(),
        );
        Some(Self::of(&text, root.ok().and_then(mount_id), |path| path.canonicalize().ok()))
    }

    #[cfg(not(target_os = "linux"))]
    pub const fn read() -> Option<Self> {
        None
    }

    /// Parses this text. `root` is the id of the mount that contains `/`.
    fn of(text: &[u8], root: Option<u64>, real: fn(&Path) -> Option<PathBuf>) -> Self {
        let all: Vec<Mount> = text.split(|byte| *byte == b'\n').filter_map(Mount::read).collect();
        let mut upon: HashMap<u64, Vec<usize>> = HashMap::new();
        for (n, mount) in all.iter().enumerate().filter(|(_, mount)| mount.id != mount.parent) {
            upon.entry(mount.parent).or_default().push(n);
        }
        let by_id = all.iter().enumerate().map(|(n, mount)| (mount.id, n)).collect();
        // The last mount at `/` covers the earlier ones.
        let root = root.or_else(|| all.iter().rfind(|mount| mount.at.is_empty()).map(|mount| mount.id));
        Self { all, upon, by_id, root, real }
    }

    /// The mount that a path without links leads to. The search follows the kernel: from the root
    /// on, it enters each mount on the way and those that cover it.
    fn leading_to(&self, path: &[u8]) -> Option<&Mount> {
        let mut here = self.root?;
        // A table that was read during a change could contain a cycle.
        for _ in 0..=self.all.len() {
            let upon = self.upon.get(&here).map(Vec::as_slice).unwrap_or_default();
            let met = upon.iter().rev().map(|n| &self.all[*n]);
            let met = met.filter(|mount| mount.id != here && beneath(path, &mount.at).is_some());
            // The first on the way; among several at the same point, the one that was mounted last.
            match met.min_by_key(|mount| mount.at.len()) {
                Some(mount) => here = mount.id,
                None => break,
            }
        }
        self.by_id.get(&here).map(|n| &self.all[*n])
    }

    /// The locations of a path without links: in its file system and, if that is an overlay, in the
    /// file systems of its layers.
    pub fn places(&self, path: &Path) -> Vec<DevicePath> {
        let path = trimmed(path.as_os_str().as_bytes());
        let mut found = Vec::new();
        if let Some(mount) = self.leading_to(&path)
            && let Some(rest) = beneath(&path, &mount.at)
        {
            self.add_places(mount, rest, 0, &mut found);
        }
        found
    }

    /// The locations of a folder that was opened by this path, in this mount.
    pub fn places_in(&self, mount: Option<u64>, path: &Path) -> Vec<DevicePath> {
        let mut found = self.places(path);
        let path = trimmed(path.as_os_str().as_bytes());
        // They differ only if another mount was made there meanwhile.
        if let Some(mount) = mount.and_then(|id| self.by_id.get(&id)).map(|n| &self.all[*n])
            && let Some(rest) = beneath(&path, &mount.at)
        {
            self.add_places(mount, rest, 0, &mut found);
            found.dedup();
        }
        found
    }

    fn add_places(&self, mount: &Mount, rest: &[u8], overlays: usize, found: &mut Vec<DevicePath>) {
        let path = [&mount.root, rest].concat();
        if overlays < MAX_OVERLAYS && !mount.named_layers.is_empty() {
            // Layers that do not exist were named in another mount namespace and lead nowhere in
            // this one.
            let layers = || mount.named_layers.iter().filter_map(|layer| (self.real)(layer)).collect();
            for layer in mount.layers.get_or_init(layers) {
                let layer = trimmed(layer.as_os_str().as_bytes());
                // An overlay does not show mounts that lie in its layers.
                if let Some(below) = self.leading_to(&layer)
                    && let Some(inner) = beneath(&layer, &below.at)
                {
                    self.add_places(below, &[inner, &path].concat(), overlays + 1, found);
                }
            }
        }
        found.push(DevicePath { device: mount.device, path });
    }

    /// The mounts in this folder, and whether a path leads to each.
    pub fn inside<'a>(&'a self, folder: &Path) -> impl Iterator<Item = (&'a Mount, bool)> {
        let folder = trimmed(folder.as_os_str().as_bytes());
        let is_inside =
            move |mount: &&Mount| beneath(&mount.at, &folder).is_some_and(|rest| !rest.is_empty());
        let leads =
            |mount: &'a Mount| (mount, self.leading_to(&mount.at).is_some_and(|met| met.id == mount.id));
        self.all.iter().filter(is_inside).map(leads)
    }

    /// The locations of the mount's own root.
    pub fn roots(&self, mount: &Mount) -> Vec<DevicePath> {
        let mut found = Vec::new();
        self.add_places(mount, b"", 0, &mut found);
        found
    }

    pub fn of_device(&self, device: (u32, u32)) -> impl Iterator<Item = &Mount> {
        self.all.iter().filter(move |mount| mount.device == device)
    }
}

/// The id of the mount that a file was opened in, as in `mountinfo`.
#[cfg(target_os = "linux")]
pub(super) fn mount_id(file: impl std::os::fd::AsFd) -> Option<u64> {
    use rustix::fs::StatxFlags;
    stated_id(&file, StatxFlags::MNT_ID).or_else(|| {
        // Before Linux 5.8.
        let number = std::os::fd::AsRawFd::as_raw_fd(&file.as_fd());
        let text = std::fs::read_to_string(format!("/proc/self/fdinfo/{number}")).ok()?;
        text.lines().find_map(|line| line.strip_prefix("mnt_id:")?.trim().parse().ok())
    })
}

#[cfg(not(target_os = "linux"))]
pub(super) fn mount_id(_: impl std::os::fd::AsFd) -> Option<u64> {
    None
}

/// An id that is never reused, even after the mount is gone. Since Linux 6.8.
#[cfg(target_os = "linux")]
pub(super) fn lasting_id(file: impl std::os::fd::AsFd) -> Option<u64> {
    /// `STATX_MNT_ID_UNIQUE`
    const UNIQUE: u32 = 0x4000;
    stated_id(file, rustix::fs::StatxFlags::from_bits_retain(UNIQUE))
}

#[cfg(target_os = "linux")]
fn stated_id(file: impl std::os::fd::AsFd, which: rustix::fs::StatxFlags) -> Option<u64> {
    use rustix::fs::AtFlags;
    let found = rustix::fs::statx(file, "", AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC, which).ok()?;
    (found.stx_mask & which.bits() != 0).then_some(found.stx_mnt_id)
}

/// All folders and links that a path leads through, by identity and by location.
#[derive(Debug, Clone, Default)]
pub(crate) struct Way {
    pub steps: Vec<super::unlinked::Identity>,
    pub places: Vec<DevicePath>,
    /// The locations of its end; empty if the path does not exist.
    pub end: Vec<DevicePath>,
}

impl Way {
    /// The way to a path. The path may be missing in part.
    pub fn to(path: &Path, mounts: Option<&Mounts>) -> Self {
        let trail = trail(path);
        let mut way = Self::default();
        for (here, identity) in &trail.steps {
            way.steps.push(*identity);
            if let Some(mounts) = mounts {
                way.places.extend(mounts.places(here));
            }
        }
        if let (Some(mounts), Some((end, _)), true) = (mounts, trail.steps.last(), trail.is_whole) {
            way.end = mounts.places(end);
        }
        way
    }
}

#[cfg(test)]
mod tests;
