//! The mounts in a granted folder. Mounts that exist when the folder is opened are checked like the
//! folder itself. A guest cannot enter any others.

use super::kernel;
use super::mounts::{DevicePath, Mounts, mount_id};
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// The mounts that the guests of a plugin may enter.
#[derive(Debug, Default)]
pub(crate) struct CheckedMounts {
    ids: Vec<u64>,
    /// Handles of mounts whose ids the kernel could reuse. Open handles keep the mounts alive.
    held: Vec<OwnedFd>,
    /// Whether a guest has encountered another mount.
    is_outdated: AtomicBool,
}

impl CheckedMounts {
    fn add(&mut self, file: impl AsFd) {
        let Some((id, lasts)) = number(&file) else { return };
        self.ids.push(id);
        if !lasts {
            self.held.extend(file.as_fd().try_clone_to_owned().ok());
        }
    }

    /// Merges the mounts of several folders.
    pub fn together(all: impl Iterator<Item = Self>) -> Self {
        let mut together = Self::default();
        for one in all {
            together.ids.extend(one.ids);
            together.held.extend(one.held);
        }
        together
    }

    /// Whether a file was opened in one of these mounts.
    pub fn has(&self, file: impl AsFd) -> bool {
        number(file).is_some_and(|(id, _)| self.ids.contains(&id))
    }

    /// Records that a guest encountered an unchecked mount, so that the folders are checked again.
    pub fn miss(&self) {
        if !self.is_outdated.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                event = "grant.unchecked_mount",
                "guest refused at a mount in its folder that is newer than the last check"
            );
        }
    }

    pub fn is_outdated(&self) -> bool {
        self.is_outdated.load(Ordering::Relaxed)
    }
}

/// The id of the mount that a file was opened in, and whether the kernel never reuses it.
#[cfg(target_os = "linux")]
pub(crate) fn number(file: impl AsFd) -> Option<(u64, bool)> {
    let lasting = super::mounts::lasting_id(&file).map(|id| (id, true));
    lasting.or_else(|| mount_id(file).map(|id| (id, false)))
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn number(_: impl AsFd) -> Option<(u64, bool)> {
    None
}

/// The locations of a granted folder's files.
#[derive(Debug, Default)]
pub(crate) struct ReachableMounts {
    /// The folder itself.
    pub own: Vec<DevicePath>,
    /// The folders above it.
    pub above: Vec<DevicePath>,
    /// The mounts inside it.
    inner: Vec<DevicePath>,
    /// The mounts inside it that are not folders.
    files: Vec<DevicePath>,
}

impl ReachableMounts {
    /// Determines the mounts for a folder that is open and was found at `path`.
    ///
    /// # Errors
    /// If the folder contains a kernel file system.
    pub fn of(folder: &File, path: &Path, mounts: &Mounts) -> Result<(Self, CheckedMounts), String> {
        let mut checked = CheckedMounts::default();
        checked.add(folder);
        let mut reach = Self {
            own: mounts.places_in(mount_id(folder), path),
            above: path.ancestors().skip(1).flat_map(|above| mounts.places(above)).collect(),
            ..Self::default()
        };
        for (mount, is_met) in mounts.inside(path) {
            // Containers hide devices by mounting a device over a file. Such a mount is of no use
            // to a guest.
            if kernel::is_of_kernel(mount) {
                if is_met && kernel::is_device(mount.at()) {
                    continue;
                }
                return Err(kernel::inside_reason(mount));
            }
            if !is_met {
                continue;
            }
            let roots = mounts.roots(mount);
            if let Some(root) = root_of(mount.at()).filter(|root| mount_id(root) == Some(mount.id)) {
                let is_folder = rustix::fs::fstat(&root).is_ok_and(|found| {
                    rustix::fs::FileType::from_raw_mode(found.st_mode) == rustix::fs::FileType::Directory
                });
                if !is_folder {
                    reach.files.extend(roots.iter().cloned());
                }
                checked.add(root);
            }
            reach.inner.extend(roots);
        }
        Ok((reach, checked))
    }

    #[cfg(test)]
    pub fn with(own: Vec<DevicePath>, inner: Vec<DevicePath>) -> Self {
        Self { own, inner, ..Self::default() }
    }

    fn all(&self) -> impl Iterator<Item = &DevicePath> {
        self.own.iter().chain(&self.inner)
    }

    /// Whether it is one of these or contains one.
    pub fn holds_any(&self, places: &[DevicePath]) -> bool {
        self.all().any(|place| places.iter().any(|other| place.holds(other)))
    }

    /// Whether it, or a mount inside it, lies in one of these.
    pub fn lies_in_any(&self, places: &[DevicePath]) -> bool {
        self.all().any(|place| places.iter().any(|other| other.holds(place)))
    }

    /// Whether a file of one of these folders is mounted in it.
    pub fn has_file_of(&self, folders: &[DevicePath]) -> bool {
        self.files.iter().any(|file| folders.iter().any(|folder| file.is_directly_in(folder)))
    }

    /// Whether this folder lies in `outer`, so that a user who may write there can replace it.
    pub fn is_within(&self, outer: &Self) -> bool {
        outer.holds_any(&self.above)
            || self.own.iter().any(|own| outer.all().any(|outer| outer != own && outer.holds(own)))
    }
}

/// Opens a file of any kind without side effects.
#[cfg(target_os = "linux")]
fn root_of(path: &Path) -> Option<OwnedFd> {
    use rustix::fs::{Mode, OFlags};
    rustix::fs::open(path, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty()).ok()
}

#[cfg(not(target_os = "linux"))]
const fn root_of(_: &Path) -> Option<OwnedFd> {
    None
}
