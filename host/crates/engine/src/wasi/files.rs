//! File functions where wasmtime-wasi would let a guest block the host or exhaust its memory. All
//! other file functions are those of wasmtime-wasi.
//!
//! - A granted folder is the handle that was opened when the plugin was loaded.
//! - The host opens nothing that can block. A pipe without a writer would occupy a blocking thread
//!   forever, regardless of the run's limits, and some hundreds of pipes would occupy all of them.
//!   So the host opens only files and folders, without waiting.
//! - A folder is listed in pieces, because its entries occupy memory of the host and a guest can
//!   create any number of them.
//! - No path leads into a mount that did not exist, and was not checked, when the granted folder
//!   was opened ([`beneath`]).
//! - The last quarter of the process's file descriptors is reserved for the host.

mod beneath;
#[cfg(target_os = "linux")]
mod paths;

use crate::grant::{CheckedMounts, OpenFolder};
use crate::guest::state::GuestState;
use cap_std::fs::ReadDir;
use rustix::fs::OFlags;
use rustix::process::{Resource as Limited, getrlimit};
use std::collections::VecDeque;
use std::fs::FileTimes;
use std::io;
use std::os::fd::AsRawFd as _;
use std::time::{Duration, SystemTime};
use wasmtime::StoreContextMut;
use wasmtime::component::{HasSelf, Linker, Resource, ResourceType};
#[cfg(not(target_os = "linux"))]
use wasmtime_wasi::filesystem::WasiFilesystemView as _;
use wasmtime_wasi::filesystem::{Descriptor, Dir, File, OpenMode};
use wasmtime_wasi::p2::FsResult;
use wasmtime_wasi::p2::bindings::filesystem::preopens;
#[cfg(not(target_os = "linux"))]
use wasmtime_wasi::p2::bindings::filesystem::types::HostDescriptor as _;
use wasmtime_wasi::p2::bindings::filesystem::types::{
    DescriptorFlags, DescriptorType, DirectoryEntry, ErrorCode, NewTimestamp, OpenFlags, PathFlags,
};
use wasmtime_wasi::runtime::spawn_blocking;

/// The interface, under wasmtime-wasi's name for it.
const TYPES: &str = "wasi:filesystem/types@0.2.12";
/// The number of entries that are read from a folder at once.
const PIECE: usize = 256;

/// A folder that is being listed.
struct Listing {
    /// `None` at the end of the folder.
    unread: Option<ReadDir>,
    read: VecDeque<Result<DirectoryEntry, ErrorCode>>,
}

type Handle = Resource<Descriptor>;

/// Replaces some of wasmtime-wasi's functions.
pub(crate) fn add_to_linker(linker: &mut Linker<GuestState>) -> wasmtime::Result<()> {
    linker.allow_shadowing(true);
    preopens::add_to_linker::<GuestState, HasSelf<GuestState>>(linker, |run| run)?;
    let mut types = linker.instance(TYPES)?;
    types.func_wrap_async(
        "[method]descriptor.open-at",
        |mut store: StoreContextMut<'_, GuestState>,
         (folder, path, name, open, flags): (Handle, PathFlags, String, OpenFlags, DescriptorFlags)| {
            Box::new(async move { given(open_at(store.data_mut(), &folder, path, name, open, flags).await) })
        },
    )?;
    types.func_wrap_async(
        "[method]descriptor.set-times-at",
        |mut store: StoreContextMut<'_, GuestState>,
         (folder, path, name, accessed, modified): (
            Handle,
            PathFlags,
            String,
            NewTimestamp,
            NewTimestamp,
        )| {
            Box::new(async move {
                given(set_times_at(store.data_mut(), folder, path, name, accessed, modified).await)
            })
        },
    )?;
    types.resource("directory-entry-stream", ResourceType::host::<Listing>(), |mut store, listing| {
        store.data_mut().table.delete(Resource::<Listing>::new_own(listing))?;
        Ok(())
    })?;
    types.func_wrap_async(
        "[method]descriptor.read-directory",
        |mut store: StoreContextMut<'_, GuestState>, (folder,): (Handle,)| {
            Box::new(async move { given(list(store.data_mut(), &folder).await) })
        },
    )?;
    types.func_wrap_async(
        "[method]directory-entry-stream.read-directory-entry",
        |mut store: StoreContextMut<'_, GuestState>, (listing,): (Resource<Listing>,)| {
            Box::new(async move { given(next(store.data_mut(), &listing).await) })
        },
    )?;
    #[cfg(target_os = "linux")]
    paths::add_to_linker(linker)?;
    linker.allow_shadowing(false);
    Ok(())
}

/// Splits an outcome into the function's result and traps: an error without an error code is a
/// trap.
fn given<T>(outcome: FsResult<T>) -> wasmtime::Result<(Result<T, ErrorCode>,)> {
    match outcome {
        Ok(value) => Ok((Ok(value),)),
        Err(error) => Ok((Err(error.downcast()?),)),
    }
}

impl preopens::Host for GuestState {
    fn get_directories(&mut self) -> wasmtime::Result<Vec<(Handle, String)>> {
        let Self { table, about, .. } = self;
        let push = |folder: &OpenFolder| {
            Ok((table.push(Descriptor::Dir(folder.dir.clone()))?, folder.grant.guest.clone()))
        };
        about.grants.folders.iter().map(push).collect()
    }
}

fn folder_of(run: &GuestState, handle: &Handle) -> FsResult<Dir> {
    match run.table.get(handle)? {
        Descriptor::Dir(dir) => Ok(dir.clone()),
        Descriptor::File(_) => Err(ErrorCode::NotDirectory.into()),
    }
}

async fn open_at(
    run: &mut GuestState,
    folder: &Handle,
    path: PathFlags,
    name: String,
    open: OpenFlags,
    flags: DescriptorFlags,
) -> FsResult<Handle> {
    let folder = folder_of(run, folder)?;
    let creates = open.contains(OpenFlags::CREATE);
    let truncates = open.contains(OpenFlags::TRUNCATE);
    let writes = creates || truncates || flags.contains(DescriptorFlags::WRITE);
    let reads = flags.contains(DescriptorFlags::READ) || !flags.contains(DescriptorFlags::WRITE);
    let synchronous = DescriptorFlags::FILE_INTEGRITY_SYNC
        | DescriptorFlags::DATA_INTEGRITY_SYNC
        | DescriptorFlags::REQUESTED_WRITE_SYNC;
    if flags.intersects(synchronous) {
        return Err(ErrorCode::Unsupported.into());
    }
    let is_folder = open.contains(OpenFlags::DIRECTORY);
    if is_folder && (creates || truncates || open.contains(OpenFlags::EXCLUSIVE)) {
        return Err(ErrorCode::Invalid.into());
    }
    if writes && folder.perms.write_not_permitted() {
        return Err(ErrorCode::NotPermitted.into());
    }
    let mut how = access(reads, writes);
    how.set(OFlags::DIRECTORY, is_folder);
    how.set(OFlags::NOFOLLOW, !path.contains(PathFlags::SYMLINK_FOLLOW));
    how.set(OFlags::CREATE, creates);
    if creates && open.contains(OpenFlags::EXCLUSIVE) {
        how |= OFlags::EXCL;
    } else {
        how.set(OFlags::TRUNC, truncates);
    }
    let mut mode = OpenMode::empty();
    mode.set(OpenMode::READ, reads);
    mode.set(OpenMode::WRITE, writes);
    let perms = folder.perms;
    let checked = run.about.grants.mounts.clone();
    let opened = spawn_blocking(move || open_promptly(&folder, &name, how, &checked)).await?;
    Ok(run.table.push(match opened {
        Opened::Folder(file) => Descriptor::Dir(Dir::new(file, perms, mode, false)),
        Opened::File(file) => Descriptor::File(File::new(file, perms, mode, false)),
    })?)
}

const fn access(reads: bool, writes: bool) -> OFlags {
    match (reads, writes) {
        (_, false) => OFlags::RDONLY,
        (false, true) => OFlags::WRONLY,
        (true, true) => OFlags::RDWR,
    }
}

enum Opened {
    Folder(std::fs::File),
    File(std::fs::File),
}

/// Opens a file or a folder without ever blocking. Fails for anything else.
fn open_promptly(
    folder: &Dir,
    name: &str,
    how: OFlags,
    checked: &CheckedMounts,
) -> Result<Opened, ErrorCode> {
    let opened = beneath::open(&folder.dir, name, how | OFlags::NONBLOCK | OFlags::NOCTTY, checked)?;
    leave_some(&opened)?;
    let kind = opened.metadata()?.file_type();
    if kind.is_dir() {
        Ok(Opened::Folder(opened))
    } else if kind.is_file() {
        Ok(Opened::File(opened))
    } else {
        Err(ErrorCode::NotPermitted)
    }
}

fn cap(folder: &Dir) -> io::Result<cap_std::fs::Dir> {
    folder.dir.try_clone().map(cap_std::fs::Dir::from_std_file)
}

/// Reserves some of the process's descriptors for the host. A new descriptor has the lowest free
/// number, so its number is a lower bound of the count.
fn leave_some(opened: &std::fs::File) -> Result<(), ErrorCode> {
    let most = getrlimit(Limited::Nofile).current.unwrap_or(u64::MAX);
    let number = u64::try_from(opened.as_raw_fd()).unwrap_or(u64::MAX);
    if number < most / 4 * 3 { Ok(()) } else { Err(ErrorCode::InsufficientMemory) }
}

async fn set_times_at(
    run: &mut GuestState,
    folder: Handle,
    path: PathFlags,
    name: String,
    accessed: NewTimestamp,
    modified: NewTimestamp,
) -> FsResult<()> {
    if !path.contains(PathFlags::SYMLINK_FOLLOW) {
        // Sets the times of the name itself and opens nothing.
        #[cfg(target_os = "linux")]
        return paths::set_times_of_name(run, folder, name, (accessed, modified)).await;
        #[cfg(not(target_os = "linux"))]
        return run.filesystem().set_times_at(folder, path, name, accessed, modified).await;
    }
    let folder = folder_of(run, &folder)?;
    if folder.perms.write_not_permitted() {
        return Err(ErrorCode::NotPermitted.into());
    }
    let mut times = FileTimes::new();
    if let Some(time) = moment(accessed)? {
        times = times.set_accessed(time);
    }
    if let Some(time) = moment(modified)? {
        times = times.set_modified(time);
    }
    let checked = run.about.grants.mounts.clone();
    let set = move || -> Result<(), ErrorCode> {
        let open = |writes: bool| open_promptly(&folder, &name, access(!writes, writes), &checked);
        // A writable file need not be readable.
        let (Opened::Folder(file) | Opened::File(file)) = match open(false) {
            Err(ErrorCode::Access) => open(true)?,
            opened => opened?,
        };
        Ok(file.set_times(times)?)
    };
    Ok(spawn_blocking(set).await?)
}

fn moment(given: NewTimestamp) -> Result<Option<SystemTime>, ErrorCode> {
    let since = match given {
        NewTimestamp::NoChange => return Ok(None),
        NewTimestamp::Now => SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default(),
        NewTimestamp::Timestamp(time) => Duration::from_secs(time.seconds)
            .checked_add(Duration::from_nanos(u64::from(time.nanoseconds)))
            .ok_or(ErrorCode::Overflow)?,
    };
    SystemTime::UNIX_EPOCH.checked_add(since).map(Some).ok_or(ErrorCode::Overflow)
}

async fn list(run: &mut GuestState, folder: &Handle) -> FsResult<Resource<Listing>> {
    let folder = folder_of(run, folder)?;
    let begin = move || -> Result<ReadDir, ErrorCode> {
        // The listing needs as many descriptors as this.
        leave_some(&folder.dir.try_clone()?)?;
        Ok(cap(&folder)?.entries()?)
    };
    let unread = spawn_blocking(begin).await?;
    Ok(run.table.push(Listing { unread: Some(unread), read: VecDeque::new() })?)
}

async fn next(run: &mut GuestState, listing: &Resource<Listing>) -> FsResult<Option<DirectoryEntry>> {
    let listing = run.table.get_mut(listing)?;
    if listing.read.is_empty()
        && let Some(mut unread) = listing.unread.take()
    {
        let piece = move || {
            let read: VecDeque<_> = unread.by_ref().take(PIECE).map(entry).collect();
            (read, unread)
        };
        let (read, unread) = spawn_blocking(piece).await;
        listing.unread = (read.len() == PIECE).then_some(unread);
        listing.read = read;
    }
    Ok(listing.read.pop_front().transpose()?)
}

fn entry(found: io::Result<cap_std::fs::DirEntry>) -> Result<DirectoryEntry, ErrorCode> {
    let found = found?;
    let kind = found.file_type()?;
    let type_ = if kind.is_dir() {
        DescriptorType::Directory
    } else if kind.is_file() {
        DescriptorType::RegularFile
    } else if kind.is_symlink() {
        DescriptorType::SymbolicLink
    } else {
        DescriptorType::Unknown
    };
    // A guest cannot express such a name, so it cannot use it.
    let name = found.file_name().into_string().map_err(|_| ErrorCode::IllegalByteSequence)?;
    Ok(DirectoryEntry { type_, name })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::{Rlimit, setrlimit};

    #[test]
    fn the_last_quarter_of_the_descriptors_is_left_to_the_host() {
        let before = getrlimit(Limited::Nofile);
        let most = before.current.unwrap_or(u64::MAX).min(4_096);
        setrlimit(Limited::Nofile, Rlimit { current: Some(most), ..before }).expect("lowers");
        let file = tempfile::tempfile().expect("a file");
        assert_eq!(leave_some(&file).ok(), Some(()));
        let last = i32::try_from(most / 4 * 3).expect("a descriptor");
        let high = std::fs::File::from(rustix::io::fcntl_dupfd_cloexec(&file, last).expect("is free"));
        assert_eq!(leave_some(&high).ok(), None);
    }
}
