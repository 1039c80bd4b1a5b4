//! `toolyard restore`: makes a store from a backup.

use super::backup::{COMPONENTS, NAMES, TABLES, is_name_file, record, show_size, sqlite_name, staging};
use super::{operator, run_until_stopped};
use crate::backup::{Header, StoreKind, unpack};
use crate::config::{Config, Flags, StoreChoice, encryption};
use crate::protect;
use anyhow::{Context as _, bail, ensure};
use clap::Args;
use std::fs::{self, DirBuilder, File};
use std::io::{BufReader, ErrorKind};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tempfile::TempPath;
use toolyard_cli::tell;
use toolyard_dispatch::Action;
use toolyard_store::backup::CopiedSchema;
use toolyard_store::postgres::{self, PostgresLocation};
use toolyard_store::sqlite;
use toolyard_trust::Digest;

/// The beginning of the names of folders that an interrupted restore leaves.
const STAGING: &str = ".toolyard-restore-";

/// Make a store from a file that `backup` wrote.
///
/// The data folder must not hold a store yet, and of PostgreSQL the schema must be empty. Everything is
/// checked first, and the store appears at once or not at all. The next host that starts settles the tasks
/// that were live, as after a crash. An encrypted store needs its keys.
#[derive(Debug, Args)]
pub struct Options {
    /// The file to read.
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

/// Runs the command.
pub fn run(flags: &Flags, options: &Options) -> anyhow::Result<ExitCode> {
    let config = operator::configured(flags)?;
    let cannot = || format!("cannot read {}", options.file.display());
    let file = File::open(&options.file).with_context(cannot)?;
    protect::data_folder(&config)?;
    run_until_stopped(async { restore(&config, &options.file, file).await.map(|()| ExitCode::SUCCESS) })
}

async fn restore(config: &Config, path: &Path, file: File) -> anyhow::Result<()> {
    remove_left(&config.data);
    if config.store == StoreChoice::Sqlite {
        sqlite::backup::check_empty(&config.data)?;
    }
    let staged = staging(&config.data, STAGING)?;
    let progress = show_size(staged.path(), "unpacking");
    let (folder, expected) = (staged.path().to_owned(), kind_of(&config.store)?);
    let unpacked = move || unpack(BufReader::new(file), &folder, |header| accept(header, expected));
    let header = tokio::task::spawn_blocking(unpacked).await.context("reading the backup panicked")?;
    let header = header.with_context(|| format!("cannot restore {}; nothing was changed", path.display()))?;
    #[cfg(feature = "failpoints")]
    toolyard_failpoint::reach("restore.unpacked");
    let copied = match &config.store {
        StoreChoice::Postgres(address) => {
            let place = PostgresLocation::parse(address.reveal(), &config.schema)?;
            let keys = encryption::keys(config.key_file.as_deref())?;
            let (tables, wait) = (staged.path().join(TABLES), postgres::START_WAIT);
            let copied = postgres::backup::restore(&place, header.schema, &tables, keys, wait).await?;
            // Last, because the database may refuse.
            place_names(config, &header, staged.path())?;
            copied
        }
        _ => {
            let (config, header, staged) = (config.clone(), header.clone(), staged.path().to_owned());
            let placed = move || place_sqlite(&config, &header, &staged);
            tokio::task::spawn_blocking(placed).await.context("the restore panicked")??
        }
    };
    drop(progress);
    drop(staged);
    record(config, copied, Action::BackupRestored).await;
    let (kind, schema) = (header.store, copied.number);
    tell!("toolyard: restored a {kind} store with schema {schema}, as it was at {}", header.at);
    Ok(())
}

fn kind_of(store: &StoreChoice) -> anyhow::Result<StoreKind> {
    match store {
        StoreChoice::Memory => bail!("a memory store cannot be restored"),
        StoreChoice::Sqlite => Ok(StoreKind::Sqlite),
        StoreChoice::Postgres(_) => Ok(StoreKind::Postgres),
    }
}

/// Refuses a backup of another kind of store, and one whose members are not those of a store.
fn accept(header: &Header, expected: StoreKind) -> anyhow::Result<()> {
    let found = header.store;
    ensure!(
        found == expected,
        "it is the backup of a {found} store, and `store` names a {expected} store here; restore \
         it into a {found} store"
    );
    let store = match found {
        StoreKind::Sqlite => vec![sqlite_name()],
        StoreKind::Postgres => {
            let files = postgres::backup::files(header.schema).into_iter();
            files.map(|file| format!("{TABLES}/{file}")).collect()
        }
    };
    let (mine, others): (Vec<&str>, Vec<&str>) =
        header.names().partition(|name| store.iter().any(|member| member == name));
    ensure!(mine.len() == store.len(), "it does not hold all files of a store with schema {}", header.schema);
    let is_known = |name: &str| {
        name.split_once('/').is_some_and(|(at, name)| match at {
            NAMES => is_name_file(name),
            COMPONENTS => found == StoreKind::Sqlite && sqlite::components::is_name(name),
            _ => false,
        })
    };
    match others.into_iter().find(|name| !is_known(name)) {
        Some(name) => {
            let release = &header.toolyard;
            bail!(
                "release {release} wrote it, with `{name}`, which this release does not know; use that release"
            )
        }
        None => Ok(()),
    }
}

/// Checks the unpacked file, and moves it to its place. The store is there with the last step.
fn place_sqlite(config: &Config, header: &Header, staged: &Path) -> anyhow::Result<CopiedSchema> {
    let from = staged.join(sqlite_name());
    let keys = encryption::keys(config.key_file.as_deref())?;
    let copied = sqlite::backup::check(&from, keys)?;
    place_names(config, header, staged)?;
    place_components(config, header, staged)?;
    // A host may have started meanwhile.
    sqlite::backup::check_empty(&config.data)?;
    #[cfg(feature = "failpoints")]
    toolyard_failpoint::reach("restore.placing");
    let to = sqlite::backup::path(&config.data);
    let cannot = || format!("cannot write {}", to.display());
    TempPath::try_from_path(from).with_context(cannot)?.persist_noclobber(&to).with_context(cannot)?;
    File::open(&config.data).and_then(|folder| folder.sync_all()).with_context(cannot)?;
    Ok(copied)
}

/// Moves the owners of tool names to their place. A file that exists belongs to a host that used the data
/// folder before, and stays.
fn place_names(config: &Config, header: &Header, staged: &Path) -> anyhow::Result<()> {
    let folder = config.data.join(NAMES);
    for name in header.names().filter(|name| name.starts_with(NAMES)) {
        let to = config.data.join(name);
        let cannot = || format!("cannot write {}", to.display());
        DirBuilder::new().recursive(true).mode(0o700).create(&folder).with_context(cannot)?;
        let moved = TempPath::try_from_path(staged.join(name)).with_context(cannot)?.persist_noclobber(&to);
        match moved.map_err(|error| error.error) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                tell!("toolyard: {} exists, and stays as it is", to.display());
            }
            moved => moved.with_context(cannot)?,
        }
        File::open(&folder).and_then(|folder| folder.sync_all()).with_context(cannot)?;
    }
    Ok(())
}

/// Moves the components to their place. A file that exists has the same name and so the same bytes.
fn place_components(config: &Config, header: &Header, staged: &Path) -> anyhow::Result<()> {
    let folder = config.data.join(COMPONENTS);
    for name in header.names().filter(|name| name.starts_with(COMPONENTS)) {
        let to = config.data.join(name);
        let cannot = || format!("cannot write {}", to.display());
        let digest = Digest::of(&fs::read(staged.join(name)).with_context(cannot)?).hex();
        ensure!(name.ends_with(&digest), "the backup has another component in place of `{name}`");
        DirBuilder::new().recursive(true).mode(0o700).create(&folder).with_context(cannot)?;
        fs::rename(staged.join(name), &to).with_context(cannot)?;
        File::open(&folder).and_then(|folder| folder.sync_all()).with_context(cannot)?;
    }
    Ok(())
}

/// Removes the folders that interrupted restores left. Another restore into this data folder that still runs
/// fails, and changes nothing.
fn remove_left(data: &Path) {
    for file in fs::read_dir(data).into_iter().flatten().flatten() {
        if file.file_name().to_string_lossy().starts_with(STAGING) {
            // If it stays, it only takes space.
            drop(fs::remove_dir_all(file.path()));
        }
    }
}
