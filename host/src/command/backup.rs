//! `toolyard backup`: a consistent copy of everything durable, while hosts run.

use super::{operator, run_until_stopped};
use crate::backup::{Header, StoreKind, pack};
use crate::config::{Config, Flags, StoreChoice};
use crate::protect;
use crate::spinner::Spinner;
use crate::system::SystemClock;
use anyhow::{Context as _, bail};
use clap::Args;
use std::fs::{self, DirBuilder, Permissions};
use std::io::{self, BufWriter, IsTerminal as _};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use tempfile::{NamedTempFile, TempDir};
use tokio_util::task::AbortOnDropHandle;
use toolyard_cli::{bail_usage, tell};
use toolyard_dispatch::{Action, By, Clock as _, Entry};
use toolyard_store::backup::CopiedSchema;
use toolyard_store::postgres::{self, PostgresLocation};
use toolyard_store::sqlite;

/// The folder in the data folder with the owners of tool names.
pub const NAMES: &str = "names";
/// The folder in the data folder with the components of journals, and in a backup.
pub const COMPONENTS: &str = sqlite::components::FOLDER;
/// The folder in a backup with the tables of a database.
pub const TABLES: &str = "postgres";

/// Write a consistent copy of the store into one file, while hosts run.
///
/// The file holds all tasks with their journals and components, sessions, permissions, keys for signatures
/// and audit entries that wait for their export, and the owners of tool names. Encrypted values stay encrypted: keep the encryption keys
/// apart from the file. It is made for its owner alone (mode 600), and appears only when it is complete.
#[derive(Debug, Args)]
pub struct Options {
    /// The file to write; `-` is stdout.
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,
    /// Replace the file if it exists.
    #[arg(long)]
    force: bool,
}

/// Runs the command.
pub fn run(flags: &Flags, options: &Options) -> anyhow::Result<ExitCode> {
    let config = operator::configured(flags)?;
    operator::has_store(&config, false)?;
    protect::data_folder(&config)?;
    let to = (options.output != Path::new("-")).then_some(options.output.as_path());
    match to {
        None if io::stdout().is_terminal() => {
            bail_usage!("a terminal cannot show a backup; name a file by -o");
        }
        Some(path) if !options.force && path.symlink_metadata().is_ok() => {
            bail!("{} exists; --force replaces it", path.display())
        }
        _ => {}
    }
    run_until_stopped(async { back_up(&config, to, options.force).await.map(|()| ExitCode::SUCCESS) })
}

async fn back_up(config: &Config, to: Option<&Path>, force: bool) -> anyhow::Result<()> {
    // The copy lies where the file will, so that there is room for both or for none.
    let folder = to.map_or(config.data.as_path(), folder_of);
    let staged = staging(folder, ".toolyard-backup-")?;
    let progress = show_size(staged.path(), "copying");
    let at = SystemClock.now().to_string();
    let (copied, kind, mut names) = copy_store(config, staged.path()).await?;
    names.extend(copy_names(config, staged.path())?);
    let header = Header::new(env!("CARGO_PKG_VERSION").to_owned(), at, kind, copied.number);
    let (from, target) = (staged.path().to_owned(), to.map(Path::to_owned));
    let written = move || write(header, &from, &names, target.as_deref(), force);
    tokio::task::spawn_blocking(written).await.context("writing the backup panicked")??;
    drop(progress);
    drop(staged);
    record(config, copied, Action::BackupWritten).await;
    let shown = to.map_or_else(|| "stdout".to_owned(), |path| path.display().to_string());
    tell!("toolyard: wrote the backup of a {kind} store with schema {} to {shown}", copied.number);
    Ok(())
}

/// Copies the store into a folder. Returns the names of the new files.
async fn copy_store(config: &Config, to: &Path) -> anyhow::Result<(CopiedSchema, StoreKind, Vec<String>)> {
    match &config.store {
        StoreChoice::Memory => bail!("a memory store is not durable"),
        StoreChoice::Sqlite => {
            let (data, to) = (config.data.clone(), to.to_owned());
            let copy = move || copy_sqlite(&data, &to);
            let (copied, names) = tokio::task::spawn_blocking(copy).await.context("the copy panicked")??;
            Ok((copied, StoreKind::Sqlite, names))
        }
        StoreChoice::Postgres(address) => {
            let place = PostgresLocation::parse(address.reveal(), &config.schema)?;
            let folder = to.join(TABLES);
            DirBuilder::new().mode(0o700).create(&folder).context("cannot make a folder")?;
            let copied = postgres::backup::copy(&place, &folder).await?;
            let files = postgres::backup::files(copied.number).into_iter();
            Ok((copied, StoreKind::Postgres, files.map(|file| format!("{TABLES}/{file}")).collect()))
        }
    }
}

/// Copies the file and the components that its journals name. Returns the names of the new files.
fn copy_sqlite(data: &Path, to: &Path) -> anyhow::Result<(CopiedSchema, Vec<String>)> {
    let mut names = vec![sqlite_name()];
    let copied = sqlite::backup::copy(data, &to.join(sqlite_name()))?;
    for digest in sqlite::backup::components(&to.join(sqlite_name()))? {
        let name = format!("{COMPONENTS}/{digest}");
        let (from, into) = (data.join(&name), to.join(&name));
        let cannot = || format!("cannot copy {}", from.display());
        DirBuilder::new().recursive(true).mode(0o700).create(to.join(COMPONENTS)).with_context(cannot)?;
        match fs::copy(&from, &into) {
            // The journal that named it has gone meanwhile, or it was lost: then its tasks cannot resume.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                tell!("toolyard: {} does not exist; tasks that need it cannot be resumed", from.display());
            }
            done => {
                done.with_context(cannot)?;
                names.push(name);
            }
        }
    }
    Ok((copied, names))
}

/// The name of the SQLite file, in a data folder and in a backup.
pub fn sqlite_name() -> String {
    let path = sqlite::backup::path(Path::new(""));
    path.to_string_lossy().into_owned()
}

/// Whether this is the name of a file with the owners of tool names.
pub fn is_name_file(name: &str) -> bool {
    name.strip_suffix(".json")
        .is_some_and(|stem| stem.len() == 16 && stem.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// Copies the owners of tool names. A host replaces these files by renaming, so each is whole.
fn copy_names(config: &Config, to: &Path) -> anyhow::Result<Vec<String>> {
    let from = config.data.join(NAMES);
    let mut names = Vec::new();
    for file in fs::read_dir(&from).into_iter().flatten().flatten() {
        let name = file.file_name().to_string_lossy().into_owned();
        if !is_name_file(&name) || !file.file_type().is_ok_and(|kind| kind.is_file()) {
            continue;
        }
        let (into, cannot) = (to.join(NAMES), || format!("cannot copy {}", file.path().display()));
        DirBuilder::new().recursive(true).mode(0o700).create(&into).with_context(cannot)?;
        fs::copy(file.path(), into.join(&name)).with_context(cannot)?;
        names.push(format!("{NAMES}/{name}"));
    }
    names.sort_unstable();
    Ok(names)
}

fn write(
    header: Header,
    from: &Path,
    names: &[String],
    to: Option<&Path>,
    force: bool,
) -> anyhow::Result<()> {
    let Some(path) = to else {
        return pack(header, from, names, BufWriter::new(io::stdout())).context("cannot write to stdout");
    };
    let cannot = || format!("cannot write {}", path.display());
    // Created with mode 600, and removed unless it is renamed to its final name.
    let mut partial = NamedTempFile::new_in(folder_of(path)).with_context(cannot)?;
    pack(header, from, names, BufWriter::new(&mut partial)).with_context(cannot)?;
    partial.as_file().sync_all().with_context(cannot)?;
    match force {
        true => drop(partial.persist(path).with_context(cannot)?),
        // Another program may have made it meanwhile.
        false => drop(partial.persist_noclobber(path).with_context(cannot)?),
    }
    fs::File::open(folder_of(path)).and_then(|folder| folder.sync_all()).with_context(cannot)
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// A new folder for the files of a backup, for its owner alone.
pub fn staging(folder: &Path, prefix: &str) -> anyhow::Result<TempDir> {
    let mut builder = tempfile::Builder::new();
    let builder = builder.prefix(prefix).permissions(Permissions::from_mode(0o700));
    builder.tempdir_in(folder).with_context(|| format!("cannot make a folder in {}", folder.display()))
}

/// Records the action in the audit log of the store, if that needs no upgrade of the store.
pub async fn record(config: &Config, copied: CopiedSchema, action: Action) {
    if copied.is_current {
        return operator::note(config, Entry::new(action, &By::principal("local", None))).await;
    }
    let why = "the store has an older schema, which the next start of a host upgrades";
    tell!("toolyard: the audit log does not record this: {why}");
}

/// How often the size of a folder is looked at.
const LOOK: Duration = Duration::from_millis(250);

/// Shows on a terminal how many bytes a folder holds by now, until both parts are dropped.
pub fn show_size(folder: &Path, message: &str) -> (AbortOnDropHandle<()>, Spinner) {
    let spinner = Spinner::with_position(message, ": {bytes}");
    let (bar, folder) = (spinner.0.clone(), folder.to_owned());
    let polls = tokio::spawn(async move {
        loop {
            bar.set_position(size(&folder));
            tokio::time::sleep(LOOK).await;
        }
    });
    (AbortOnDropHandle::new(polls), spinner)
}

/// The bytes of the files in a folder and in its folders.
fn size(folder: &Path) -> u64 {
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    files
        .filter_map(|file| {
            let found = file.metadata().ok()?;
            Some(if found.is_dir() { size(&file.path()) } else { found.len() })
        })
        .sum()
}
