//! What a granted folder shows besides its own files: the mounts in it. Those that were there
//! when it was opened are checked like the folder itself; a guest passes into no others.

use super::kernel;
use super::mounts::{Mounts, Place, mount_id};
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// The mounts that the guests of a plugin may pass into.
#[derive(Debug, Default)]
pub(crate) struct CheckedMounts {
    ids: Vec<u64>,
    /// Where the kernel gives the number of a mount that is gone to another one, it must not go.
    held: Vec<OwnedFd>,
    /// Whether a guest has come upon another one.
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

    /// Those of several folders.
    pub fn together(all: impl Iterator<Item = Self>) -> Self {
        let mut together = Self::default();
        for one in all {
            together.ids.extend(one.ids);
            together.held.extend(one.held);
        }
        together
    }

    /// Whether a file was opened in one of them.
    pub fn has(&self, file: impl AsFd) -> bool {
        number(file).is_some_and(|(id, _)| self.ids.contains(&id))
    }

    /// A guest has come upon a mount that is none of them, so the folders are to be checked anew.
    pub fn miss(&self) {
        if !self.is_outdated.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                "a guest came upon a mount in its folder that was made after the folder was opened, and was \
                 not let in; the folder is checked anew"
            );
        }
    }

    pub fn is_outdated(&self) -> bool {
        self.is_outdated.load(Ordering::Relaxed)
    }
}

/// The number of the mount that a file was opened in, and whether no other one ever gets it.
#[cfg(target_os = "linux")]
pub(crate) fn number(file: impl AsFd) -> Option<(u64, bool)> {
    let lasting = super::mounts::lasting_id(&file).map(|id| (id, true));
    lasting.or_else(|| mount_id(file).map(|id| (id, false)))
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn number(_: impl AsFd) -> Option<(u64, bool)> {
    None
}

/// Where the files of a granted folder lie.
#[derive(Debug, Default)]
pub(crate) struct ReachableMounts {
    /// The folder itself.
    pub own: Vec<Place>,
    /// The folders that it lies in.
    pub above: Vec<Place>,
    /// What is mounted in it.
    inner: Vec<Place>,
    /// Those of them that are no folders.
    files: Vec<Place>,
}

impl ReachableMounts {
    /// Finds it for a folder, held open and found at `path`.
    ///
    /// # Errors
    /// If something of the kernel is in it.
    pub fn of(folder: &File, path: &Path, mounts: &Mounts) -> Result<(Self, CheckedMounts), String> {
        let mut checked = CheckedMounts::default();
        checked.add(folder);
        let mut reach = Self {
            own: mounts.places_in(mount_id(folder), path),
            above: path.ancestors().skip(1).flat_map(|above| mounts.places(above)).collect(),
            ..Self::default()
        };
        for (mount, is_met) in mounts.inside(path) {
            // What hides devices in the way of containers, a device over a file, is of no use to a guest.
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
    pub fn with(own: Vec<Place>, inner: Vec<Place>) -> Self {
        Self { own, inner, ..Self::default() }
    }

    fn all(&self) -> impl Iterator<Item = &Place> {
        self.own.iter().chain(&self.inner)
    }

    /// Whether it is or holds one of these.
    pub fn holds_any(&self, places: &[Place]) -> bool {
        self.all().any(|place| places.iter().any(|other| place.holds(other)))
    }

    /// Whether it, or something mounted in it, lies in one of these.
    pub fn lies_in_any(&self, places: &[Place]) -> bool {
        self.all().any(|place| places.iter().any(|other| other.holds(place)))
    }

    /// Whether a file of one of these folders is mounted in it.
    pub fn has_file_of(&self, folders: &[Place]) -> bool {
        self.files.iter().any(|file| folders.iter().any(|folder| file.is_directly_in(folder)))
    }

    /// Whether this folder lies in the other one, so that who may write there can replace it.
    pub fn is_within(&self, outer: &Self) -> bool {
        outer.holds_any(&self.above)
            || self.own.iter().any(|own| outer.all().any(|outer| outer != own && outer.holds(own)))
    }
}

/// Opened so that nothing is done by it, whatever it is.
#[cfg(target_os = "linux")]
fn root_of(path: &Path) -> Option<OwnedFd> {
    use rustix::fs::{Mode, OFlags};
    rustix::fs::open(path, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty()).ok()
}

#[cfg(not(target_os = "linux"))]
const fn root_of(_: &Path) -> Option<OwnedFd> {
    None
}
