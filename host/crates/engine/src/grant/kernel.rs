//! Folders of kernel file systems, which give access to the memory and the environment of this
//! process and to the devices of the machine.

use super::mounts::{Mount, Mounts};
use super::unlinked::{Identity, identity};
use std::fs::File;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::Path;

/// The kernel's file systems, by `statfs` number and by the kind that mounts show. Their files are
/// processes, devices, machine settings or memory of other programs. They store no user data, so no
/// grant can be meant for them. `devtmpfs` shares its number with `tmpfs`, so only its mount
/// reveals it.
const KINDS: [(u64, &str); 27] = [
    (0x0000_9fa0, "proc"),
    (0x6265_6572, "sysfs"),
    (0x0000_1cd1, "devpts"),
    (0x0027_e0eb, "cgroup"),
    (0x6367_7270, "cgroup2"),
    (0x6462_6720, "debugfs"),
    (0x7472_6163, "tracefs"),
    (0x7363_6673, "securityfs"),
    (0x6265_6570, "configfs"),
    (0xde5e_81e4, "efivarfs"),
    (0xf97c_ff8c, "selinuxfs"),
    (0x4341_5d53, "smackfs"),
    (0xcafe_4a11, "bpf"),
    (0x6165_676c, "pstore"),
    (0x1980_0202, "mqueue"),
    (0x6e73_6673, "nsfs"),
    (0x4249_4e4d, "binfmt_misc"),
    (0x6573_5543, "fusectl"),
    (0x6c6f_6f70, "binder"),
    (0x6759_6969, "rpc_pipefs"),
    (0x9584_58f6, "hugetlbfs"),
    (0x0765_5821, "resctrl"),
    (0x6e66_7364, "nfsd"),
    (0xabba_1974, "xenfs"),
    (0x5049_4446, "pidfs"),
    (0x0000_9fa1, "openpromfs"),
    (0xaee7_1ee7, "gadgetfs"),
];

/// Why an open folder belongs to the kernel; `None` if it does not.
pub(super) fn fault(folder: &File, above: &[Identity], mounts: Option<&Mounts>) -> Option<String> {
    number_fault(folder).or_else(|| device_fault(folder, above)).or_else(|| mount_fault(folder, mounts?))
}

fn kernel_reason(kind: &str) -> String {
    format!("is of the kernel ({kind}): its files are devices or processes, this host among them")
}

/// Why a folder that contains this mount is refused.
pub(super) fn inside_reason(mount: &Mount) -> String {
    let (kind, at) = (&mount.kind, mount.at());
    format!("has a folder of the kernel in it ({kind} at {at:?}); name one that has not")
}

#[cfg(target_os = "linux")]
fn number_fault(folder: &File) -> Option<String> {
    // The type of `f_type` differs between architectures; the number has 32 bits.
    #[allow(clippy::unnecessary_cast, reason = "not everywhere")]
    let number = rustix::fs::fstatfs(folder).ok()?.f_type as u64 & 0xffff_ffff;
    KINDS.iter().find(|(known, _)| *known == number).map(|(_, kind)| kernel_reason(kind))
}

#[cfg(not(target_os = "linux"))]
const fn number_fault(_: &File) -> Option<String> {
    None
}

/// Refuses `/dev` under any name and through any mount. Mounts in it that have no devices, such as
/// `/dev/shm`, are allowed.
fn device_fault(folder: &File, above: &[Identity]) -> Option<String> {
    let devices = identity(&std::fs::metadata("/dev").ok()?);
    let here = identity(&folder.metadata().ok()?);
    let is_in_it = here == devices || above.contains(&devices);
    let is_its_mount = device_of_devices() == Some(here.0);
    (is_its_mount || is_in_it && here.0 == devices.0).then(|| kernel_reason("/dev"))
}

/// The device number of `/dev`, if it is a separate file system.
fn device_of_devices() -> Option<u64> {
    let device = std::fs::metadata("/dev").ok()?.dev();
    (std::fs::metadata("/").ok()?.dev() != device).then_some(device)
}

/// Checks the mount that contains the folder.
fn mount_fault(folder: &File, mounts: &Mounts) -> Option<String> {
    let device = numbers(folder.metadata().ok()?.dev());
    mounts.of_device(device).find(|mount| is_named(&mount.kind)).map(|mount| kernel_reason(&mount.kind))
}

fn numbers(device: u64) -> (u32, u32) {
    // Its width differs between systems.
    let device = device as rustix::fs::Dev;
    (rustix::fs::major(device), rustix::fs::minor(device))
}

fn is_named(kind: &str) -> bool {
    kind == "devtmpfs" || KINDS.iter().any(|(_, known)| *known == kind)
}

/// Whether a mount shows a kernel file system, or `/dev` where that is an ordinary one, as in a
/// container.
pub(super) fn is_of_kernel(mount: &Mount) -> bool {
    is_named(&mount.kind) || device_of_devices().map(numbers) == Some(mount.device)
}

/// Whether this is a character device. No guest may open one.
pub(super) fn is_device(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_char_device())
}

#[cfg(test)]
mod tests {
    use super::super::checked::ReachableMounts;
    use super::super::unlinked::{above, open_folder};
    use super::*;

    fn fault_of(path: &str) -> Option<String> {
        let folder = open_folder(Path::new(path)).expect("opens");
        let mounts = Mounts::read().expect("shown");
        let inside = || ReachableMounts::of(&folder, Path::new(path), &mounts).err();
        fault(&folder, &above(&folder).expect("known"), Some(&mounts)).or_else(inside)
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn folders_of_the_kernel_are_known_and_so_is_what_has_one_in_it() {
        let own = format!("/proc/{}/task", std::process::id());
        for path in ["/proc", own.as_str(), "/proc/sys", "/sys", "/sys/kernel", "/dev"] {
            if Path::new(path).is_dir() {
                let fault = fault_of(path).unwrap_or_else(|| panic!("{path} is none of the kernel"));
                assert!(fault.starts_with("is of the kernel ("), "{path}: {fault}");
            }
        }
        assert!(fault_of("/").is_some_and(|fault| fault.contains("has a folder of the kernel in it")));
        let folder = tempfile::tempdir().expect("a folder");
        assert_eq!(fault_of(folder.path().canonicalize().expect("there").to_str().expect("plain")), None);
    }

    #[test]
    fn every_file_system_of_the_kernel_is_known_by_its_name() {
        for name in "proc sysfs devpts devtmpfs debugfs tracefs securityfs cgroup cgroup2 bpf configfs \
                     pstore efivarfs mqueue hugetlbfs fusectl binfmt_misc nsfs selinuxfs rpc_pipefs"
            .split(' ')
        {
            assert!(is_named(name), "{name}");
        }
        for name in ["ext4", "tmpfs", "overlay", "btrfs", "fuse.sshfs", "nfs4", "procfs", ""] {
            assert!(!is_named(name), "{name}");
        }
    }
}
