//! The functions of `wasi:filesystem` that take a path, except opening. [`beneath`] resolves the
//! path up to its last name. wasmtime-wasi then performs the operation on that name; it would enter
//! any mount if it resolved the whole path.

use super::beneath;
use super::{Handle, TYPES, folder_of, given};
use crate::grant::CheckedMounts;
use crate::guest::state::GuestState;
use futures_util::FutureExt as _;
use rustix::fs::OFlags;
use std::fs::File;
use std::sync::Arc;
use wasmtime::StoreContextMut;
use wasmtime::component::{Linker, ResourceTable};
use wasmtime_wasi::filesystem::{
    Descriptor, Dir, File as OpenFile, OpenMode, WasiFilesystemCtx, WasiFilesystemCtxView,
    WasiFilesystemView as _,
};
use wasmtime_wasi::p2::FsResult;
use wasmtime_wasi::p2::bindings::filesystem::types::{
    DescriptorStat, ErrorCode, HostDescriptor as _, MetadataHashValue, NewTimestamp, PathFlags,
};
use wasmtime_wasi::runtime::spawn_blocking;

/// Replaces wasmtime-wasi's functions.
pub(super) fn add_to_linker(linker: &mut Linker<GuestState>) -> wasmtime::Result<()> {
    let mut types = linker.instance(TYPES)?;
    types.func_wrap_async(
        "[method]descriptor.stat-at",
        |mut store: StoreContextMut<'_, GuestState>, (folder, flags, path): (Handle, PathFlags, String)| {
            Box::new(async move { given(stat_at(store.data_mut(), &folder, flags, path).await) })
        },
    )?;
    types.func_wrap_async(
        "[method]descriptor.metadata-hash-at",
        |mut store: StoreContextMut<'_, GuestState>, (folder, flags, path): (Handle, PathFlags, String)| {
            Box::new(async move { given(hash_at(store.data_mut(), &folder, flags, path).await) })
        },
    )?;
    types.func_wrap_async(
        "[method]descriptor.readlink-at",
        |mut store: StoreContextMut<'_, GuestState>, (folder, path): (Handle, String)| {
            Box::new(async move { given(read_link(store.data_mut(), folder, path).await) })
        },
    )?;
    for (name, act) in [
        ("[method]descriptor.create-directory-at", Act::Make),
        ("[method]descriptor.remove-directory-at", Act::Remove),
        ("[method]descriptor.unlink-file-at", Act::Delete),
    ] {
        types.func_wrap_async(
            name,
            move |mut store: StoreContextMut<'_, GuestState>, (folder, path): (Handle, String)| {
                let act = act.clone();
                Box::new(async move { given(at_name(store.data_mut(), folder, path, act).await.map(drop)) })
            },
        )?;
    }
    types.func_wrap_async(
        "[method]descriptor.symlink-at",
        |mut store: StoreContextMut<'_, GuestState>, (folder, target, path): (Handle, String, String)| {
            Box::new(async move {
                given(at_name(store.data_mut(), folder, path, Act::Link(target)).await.map(drop))
            })
        },
    )?;
    types.func_wrap_async(
        "[method]descriptor.link-at",
        |mut store: StoreContextMut<'_, GuestState>,
         (folder, flags, path, other, new): (Handle, PathFlags, String, Handle, String)| {
            Box::new(async move {
                let two = Two::Link(flags);
                given(at_names(store.data_mut(), (folder, path), (other, new), two).await)
            })
        },
    )?;
    types.func_wrap_async(
        "[method]descriptor.rename-at",
        |mut store: StoreContextMut<'_, GuestState>,
         (folder, path, other, new): (Handle, String, Handle, String)| {
            Box::new(async move {
                given(at_names(store.data_mut(), (folder, path), (other, new), Two::Rename).await)
            })
        },
    )?;
    Ok(())
}

/// An operation on one name.
#[derive(Clone)]
enum Act {
    Make,
    Remove,
    Delete,
    ReadLink,
    Link(String),
    Times(NewTimestamp, NewTimestamp),
}

impl Act {
    const fn changes(&self) -> bool {
        !matches!(self, Self::ReadLink)
    }

    /// Whether trailing slashes are stripped instead of leading into the folder of that name.
    const fn strips_slashes(&self) -> bool {
        matches!(self, Self::Make)
    }

    /// Whether the operation would affect a mount at the name. The other operations fail there.
    const fn enters_mounts(&self) -> bool {
        matches!(self, Self::ReadLink | Self::Times(..))
    }

    async fn on(
        self,
        mut files: WasiFilesystemCtxView<'_>,
        folder: Handle,
        name: String,
    ) -> FsResult<Option<String>> {
        match self {
            Self::Make => files.create_directory_at(folder, name).await,
            Self::Remove => files.remove_directory_at(folder, name).await,
            Self::Delete => files.unlink_file_at(folder, name).await,
            Self::ReadLink => return files.readlink_at(folder, name).await.map(Some),
            Self::Link(target) => files.symlink_at(folder, target, name).await,
            Self::Times(accessed, modified) => {
                files.set_times_at(folder, PathFlags::empty(), name, accessed, modified).await
            }
        }
        .map(|()| None)
    }
}

/// An operation on two names.
#[derive(Clone, Copy)]
enum Two {
    Link(PathFlags),
    Rename,
}

impl Two {
    async fn on(
        self,
        mut files: WasiFilesystemCtxView<'_>,
        (folder, name): (Handle, String),
        (other, new): (Handle, String),
    ) -> FsResult<()> {
        match self {
            Self::Link(flags) => files.link_at(folder, flags, name, other, new).await,
            Self::Rename => files.rename_at(folder, name, other, new).await,
        }
    }
}

/// The location of a path's last name.
#[derive(Debug, PartialEq, Eq)]
enum Last<'a> {
    /// In the folder where the path starts.
    Here,
    /// In the folder with this path.
    In(&'a str, &'a str),
    /// The path leads to the folder itself.
    Folder,
}

fn last(path: &str, strips_slashes: bool) -> Result<Last<'_>, ErrorCode> {
    if path.starts_with('/') {
        return Err(ErrorCode::NotPermitted);
    }
    let bare = path.trim_end_matches('/');
    let (folder, name) = bare.rsplit_once('/').unwrap_or(("", bare));
    if matches!(name, "." | "..") || bare.len() < path.len() && !strips_slashes {
        return Ok(Last::Folder);
    }
    if folder.is_empty() { Ok(Last::Here) } else { Ok(Last::In(folder, &path[folder.len() + 1..])) }
}

/// Opens the folder that contains the last name of a path. Returns that name too.
fn parent(
    folder: &Dir,
    path: &str,
    strips_slashes: bool,
    checked: &CheckedMounts,
) -> Result<(File, String), ErrorCode> {
    let open = |path| beneath::open(&folder.dir, path, OFlags::PATH | OFlags::DIRECTORY, checked);
    Ok(match last(path, strips_slashes)? {
        Last::Here => (folder.dir.try_clone()?, path.to_owned()),
        Last::In(folder, name) => (open(folder)?, name.to_owned()),
        Last::Folder => (open(path)?, ".".to_owned()),
    })
}

fn handle(table: &mut ResourceTable, folder: File, like: &Dir) -> FsResult<Handle> {
    // This thread is meant for blocking work.
    let mode = OpenMode::READ | OpenMode::WRITE;
    Ok(table.push(Descriptor::Dir(Dir::new(folder, like.perms, mode, true)))?)
}

/// Completes a wasmtime-wasi function on a thread for blocking work, where it never waits.
fn at_once<T>(outcome: impl Future<Output = FsResult<T>>) -> FsResult<T> {
    outcome.now_or_never().unwrap_or_else(|| Err(ErrorCode::Io.into()))
}

pub(super) async fn set_times_of_name(
    run: &mut GuestState,
    folder: Handle,
    path: String,
    (accessed, modified): (NewTimestamp, NewTimestamp),
) -> FsResult<()> {
    at_name(run, folder, path, Act::Times(accessed, modified)).await.map(drop)
}

async fn read_link(run: &mut GuestState, folder: Handle, path: String) -> FsResult<String> {
    at_name(run, folder, path, Act::ReadLink).await.map(Option::unwrap_or_default)
}

async fn at_name(run: &mut GuestState, folder: Handle, path: String, act: Act) -> FsResult<Option<String>> {
    let dir = folder_of(run, &folder)?;
    if act.changes() && dir.perms.write_not_permitted() {
        return Err(ErrorCode::NotPermitted.into());
    }
    if last(&path, act.strips_slashes())? == Last::Here && !act.enters_mounts() {
        return act.on(run.filesystem(), folder, path).await;
    }
    let checked = checked(run);
    spawn_blocking(move || {
        let (parent, name) = parent(&dir, &path, act.strips_slashes(), &checked)?;
        if act.enters_mounts() {
            beneath::open(&parent, &name, OFlags::PATH | OFlags::NOFOLLOW, &checked)?;
        }
        let (mut table, mut ctx) = (ResourceTable::new(), WasiFilesystemCtx::default());
        let folder = handle(&mut table, parent, &dir)?;
        at_once(act.on(WasiFilesystemCtxView { ctx: &mut ctx, table: &mut table }, folder, name))
    })
    .await
}

async fn at_names(
    run: &mut GuestState,
    (folder, path): (Handle, String),
    (other, new): (Handle, String),
    two: Two,
) -> FsResult<()> {
    let (dir, other_dir) = (folder_of(run, &folder)?, folder_of(run, &other)?);
    if dir.perms.write_not_permitted() || other_dir.perms.write_not_permitted() {
        return Err(ErrorCode::NotPermitted.into());
    }
    let strips = matches!(two, Two::Rename);
    if last(&path, strips)? == Last::Here && last(&new, strips)? == Last::Here {
        return two.on(run.filesystem(), (folder, path), (other, new)).await;
    }
    let checked = checked(run);
    spawn_blocking(move || {
        let (from, name) = parent(&dir, &path, strips, &checked)?;
        let (to, new) = parent(&other_dir, &new, strips, &checked)?;
        let (mut table, mut ctx) = (ResourceTable::new(), WasiFilesystemCtx::default());
        let from = handle(&mut table, from, &dir)?;
        let to = handle(&mut table, to, &other_dir)?;
        at_once(two.on(WasiFilesystemCtxView { ctx: &mut ctx, table: &mut table }, (from, name), (to, new)))
    })
    .await
}

fn checked(run: &GuestState) -> Arc<CheckedMounts> {
    run.about.grants.mounts.clone()
}

/// Opens the target of a path for inspection and queries wasmtime-wasi about it.
async fn look<T: Send + 'static>(
    run: &mut GuestState,
    folder: &Handle,
    (flags, path): (PathFlags, String),
    ask: impl FnOnce(&mut ResourceTable, Handle) -> FsResult<T> + Send + 'static,
) -> FsResult<T> {
    let dir = folder_of(run, folder)?;
    let checked = checked(run);
    let mut how = OFlags::PATH;
    how.set(OFlags::NOFOLLOW, !flags.contains(PathFlags::SYMLINK_FOLLOW));
    spawn_blocking(move || {
        let found = beneath::open(&dir.dir, &path, how, &checked)?;
        let mut table = ResourceTable::new();
        let found = OpenFile::new(found, dir.perms, OpenMode::READ, true);
        let found = table.push(Descriptor::File(found))?;
        ask(&mut table, found)
    })
    .await
}

async fn stat_at(
    run: &mut GuestState,
    folder: &Handle,
    flags: PathFlags,
    path: String,
) -> FsResult<DescriptorStat> {
    look(run, folder, (flags, path), |table, found| {
        let mut ctx = WasiFilesystemCtx::default();
        at_once(WasiFilesystemCtxView { ctx: &mut ctx, table }.stat(found))
    })
    .await
}

async fn hash_at(
    run: &mut GuestState,
    folder: &Handle,
    flags: PathFlags,
    path: String,
) -> FsResult<MetadataHashValue> {
    look(run, folder, (flags, path), |table, found| {
        let mut ctx = WasiFilesystemCtx::default();
        at_once(WasiFilesystemCtxView { ctx: &mut ctx, table }.metadata_hash(found))
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_name_of_a_path_is_found() {
        let found = |path, strips| last(path, strips).map_err(|_| ());
        for strips in [false, true] {
            for (path, is) in [
                ("a", Last::Here),
                ("a/b", Last::In("a", "b")),
                ("a/./b", Last::In("a/.", "b")),
                ("../b", Last::In("..", "b")),
                ("a//b", Last::In("a/", "b")),
                (".", Last::Folder),
                ("..", Last::Folder),
                ("a/.", Last::Folder),
                ("a/../", Last::Folder),
                ("", Last::Here),
            ] {
                assert_eq!(found(path, strips), Ok(is), "{path}");
            }
            for path in ["/", "/a", "//a/b"] {
                assert_eq!(found(path, strips), Err(()), "{path}");
            }
        }
        assert_eq!(found("a/", false), Ok(Last::Folder));
        assert_eq!(found("a//", true), Ok(Last::Here));
        assert_eq!(found("a/b/", true), Ok(Last::In("a", "b/")));
    }
}
