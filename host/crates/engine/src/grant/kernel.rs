//! Folders whose files are not files: through them the kernel shows the memory and the
//! environment of this process, and the devices of the machine.

use super::unlinked::{Identity, identity};
use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Their file systems, by the number of `statfs`. That of `devtmpfs` is the number of
/// `tmpfs`, so it is found by its mount alone.
#[cfg(target_os = "linux")]
const NUMBERS: [(u64, &str); 20] = [
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
];

/// Why a folder, held open and found at `path`, is one of them or has one in it, if so.
pub(super) fn fault(folder: &File, path: &Path, above: &[Identity]) -> Option<String> {
    number_fault(folder).or_else(|| device_fault(folder, above)).or_else(|| mount_fault(folder, path))
}

fn is_of(kind: &str) -> String {
    format!("is of the kernel ({kind}): its files are devices or processes, this host among them")
}

#[cfg(target_os = "linux")]
fn number_fault(folder: &File) -> Option<String> {
    // Its type differs between architectures; the number has 32 bits.
    #[allow(clippy::unnecessary_cast, reason = "not everywhere")]
    let number = rustix::fs::fstatfs(folder).ok()?.f_type as u64 & 0xffff_ffff;
    NUMBERS.iter().find(|(known, _)| *known == number).map(|(_, kind)| is_of(kind))
}

#[cfg(not(target_os = "linux"))]
const fn number_fault(_: &File) -> Option<String> {
    None
}

/// Refuses `/dev` under any name and from any mount. Mounts in it that have no devices, such as
/// `/dev/shm`, are allowed.
fn device_fault(folder: &File, above: &[Identity]) -> Option<String> {
    let devices = identity(&std::fs::metadata("/dev").ok()?);
    let root = identity(&std::fs::metadata("/").ok()?);
    let here = identity(&folder.metadata().ok()?);
    let is_in_it = here == devices || above.contains(&devices);
    let is_its_mount = here.0 == devices.0 && devices.0 != root.0;
    (is_its_mount || is_in_it && here.0 == devices.0).then(|| is_of("/dev"))
}

/// By the mounts of this process: of the folder itself, and of what is in it. Where they
/// are not shown, the numbers have to do.
fn mount_fault(folder: &File, path: &Path) -> Option<String> {
    let mounts = std::fs::read("/proc/self/mountinfo").ok()?;
    let device = folder.metadata().ok()?.dev();
    let device = (rustix::fs::major(device), rustix::fs::minor(device));
    mounts.split(|byte| *byte == b'\n').filter_map(Mount::read).filter(Mount::is_of_kernel).find_map(
        |mount| {
            if mount.device == device {
                Some(is_of(&mount.kind))
            } else if mount.at.starts_with(path) {
                let (kind, at) = (&mount.kind, mount.at);
                Some(format!("has a folder of the kernel in it ({kind} at {at:?}); name one that has not"))
            } else {
                None
            }
        },
    )
}

struct Mount {
    device: (u32, u32),
    at: PathBuf,
    kind: String,
}

impl Mount {
    /// A line of `mountinfo`, as proc_pid_mountinfo(5) describes it.
    fn read(line: &[u8]) -> Option<Self> {
        let mut words = line.split(|byte| *byte == b' ');
        let device = std::str::from_utf8(words.nth(2)?).ok()?;
        let (major, minor) = device.split_once(':')?;
        let at = unescaped(words.nth(1)?);
        let kind = words.skip_while(|word| *word != b"-").nth(1)?;
        Some(Self {
            device: (major.parse().ok()?, minor.parse().ok()?),
            at: OsStr::from_bytes(&at).into(),
            kind: String::from_utf8_lossy(kind).into_owned(),
        })
    }

    fn is_of_kernel(&self) -> bool {
        self.kind == "devtmpfs" || NAMES.contains(&self.kind.as_str())
    }
}

/// Those of the numbers that tell of processes and devices. The others hold nothing that
/// a folder around them could not be granted with.
const NAMES: [&str; 3] = ["proc", "sysfs", "devpts"];

/// `\040` is a space, and so on.
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

#[cfg(test)]
mod tests {
    use super::super::unlinked::{above, open_folder};
    use super::*;

    fn fault_of(path: &str) -> Option<String> {
        let folder = open_folder(Path::new(path)).expect("opens");
        fault(&folder, Path::new(path), &above(&folder).expect("known"))
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
        assert!(fault_of("/").is_some_and(|fault| fault.contains("/proc")));
        let folder = tempfile::tempdir().expect("a folder");
        assert_eq!(fault_of(folder.path().canonicalize().expect("there").to_str().expect("plain")), None);
    }

    #[test]
    fn mounts_are_read_as_the_kernel_writes_them() {
        let line = b"36 35 98:0 /mnt1 /mnt\\040two/a\\134b rw,noatime master:1 - devtmpfs /dev/root rw";
        let mount = Mount::read(line).expect("a line");
        assert_eq!(
            (mount.device, mount.at.to_str(), mount.is_of_kernel()),
            ((98, 0), Some("/mnt two/a\\b"), true)
        );
        let plain =
            Mount::read(b"36 35 8:1 / /srv rw shared:1 master:2 - ext4 /dev/sda1 rw").expect("a line");
        assert!(!plain.is_of_kernel());
        assert!(Mount::read(b"").is_none() && Mount::read(b"a b c d e f - ").is_none());
        assert_eq!(unescaped(b"\\0"), b"\\0");
        assert_eq!(unescaped(b"\\999x"), b"\\999x");
    }
}
