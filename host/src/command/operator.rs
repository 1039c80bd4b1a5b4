//! Shared parts of the commands that read a host's store, beside a running host or without one.

use super::{configure, start_log, until_stopped};
use crate::assemble::{self, open_store};
use crate::config::{Config, Flags, StoreChoice};
use anyhow::bail;
use std::process::ExitCode;
use std::sync::Arc;
use toolyard_cli::{bail_usage, tell};
use toolyard_dispatch::search::{Direction, Filter};
use toolyard_dispatch::{Caller, Dispatch, Entry, Settings, Summary, TaskStatus, Tasks};
use toolyard_store::{Backend, SqliteStore};

/// The tasks that are read at once.
const PAGE: u32 = 500;

/// The configuration of such a command. The audit log records its actions like those of a host.
///
/// # Errors
/// [`WrongUsage`](toolyard_cli::WrongUsage) for the memory store, which only its own host can read.
pub fn configured(flags: &Flags) -> anyhow::Result<Config> {
    let mut config = configure(flags, None)?;
    config.limits.audit_to.or_file();
    start_log(&config, "warn")?;
    if !config.store.is_seen_by_other_processes() {
        bail_usage!("only its own host can read a memory store; name another store by --store");
    }
    Ok(config)
}

/// Whether there is a store. Without one, a command that only `lists` finds nothing.
///
/// # Errors
/// If there is no store and the command needs something in it.
pub fn has_store(config: &Config, lists: bool) -> anyhow::Result<bool> {
    match config.data.is_dir() {
        true => Ok(true),
        // The store is not in the folder.
        false if config.store.is_shared_by_hosts() => Ok(true),
        false if lists => Ok(false),
        false => bail!("there is no data folder at {}; --data names another", config.data.display()),
    }
}

/// Opens the store, runs `act` with it and with the application on it, and closes the store with everything written.
///
/// # Errors
/// If the store cannot be opened, or the error of `act`.
pub fn with_store<T, F: Future<Output = anyhow::Result<T>>>(
    config: &Config,
    act: impl FnOnce(Arc<Dispatch>, Arc<dyn Backend>) -> F,
) -> anyhow::Result<T> {
    assemble::with_runtimes(|guests| async move {
        let store = open_store(config).await?;
        let dispatch = Dispatch::new(
            // A command that only uses the store runs no tasks.
            Settings { adopts: false, ..assemble::dispatch_settings(config, u32::MAX) },
            assemble::stores_in(&store),
            Arc::new(crate::system::SystemClock),
            Arc::new(crate::system::RandomIds),
            guests,
        );
        until_closed(config, store.clone(), act(dispatch, store)).await
    })
}

/// Like [`with_store`], for commands that need only the store. Ends at Ctrl-C.
///
/// # Errors
/// If the store cannot be opened, or the error of `act`.
pub fn with_bare_store(
    config: &Config,
    act: impl AsyncFnOnce(&dyn Backend) -> anyhow::Result<ExitCode>,
) -> anyhow::Result<ExitCode> {
    assemble::with_runtimes(|_| async move {
        let store = open_store(config).await?;
        until_closed(config, store.clone(), until_stopped(act(&*store))).await
    })
}

/// Like [`with_bare_store`], for commands that change nothing.
///
/// # Errors
/// If the store cannot be opened, or the error of `act`.
pub fn with_store_to_read(
    config: &Config,
    act: impl AsyncFnOnce(&dyn Backend) -> anyhow::Result<ExitCode>,
) -> anyhow::Result<ExitCode> {
    assemble::with_runtimes(|_| async move {
        let store = open_store(config).await?;
        let done = until_stopped(act(&*store)).await;
        store.shut_down().await;
        done
    })
}

/// Like [`with_bare_store`], for an option that only SQLite supports. `what` names the option in the error.
///
/// # Errors
/// [`WrongUsage`](toolyard_cli::WrongUsage) for another store; else as [`with_bare_store`].
pub fn with_sqlite_store(
    config: &Config,
    what: &str,
    act: impl AsyncFnOnce(&Arc<SqliteStore>) -> anyhow::Result<ExitCode>,
) -> anyhow::Result<ExitCode> {
    if config.store != StoreChoice::Sqlite {
        bail_usage!("{what} works only on a SQLite store (`store`)");
    }
    assemble::with_runtimes(|_| async move {
        let sqlite = assemble::open_sqlite(config)?;
        until_closed(config, sqlite.clone(), until_stopped(act(&sqlite))).await
    })
}

/// All tasks with one of these statuses, or with any, the oldest first.
///
/// # Errors
/// If they cannot be read.
pub async fn find_tasks(tasks: &Tasks, statuses: Option<&[TaskStatus]>) -> anyhow::Result<Vec<Summary>> {
    let (operator, mut after, mut found) = (Caller::operator(), None, Vec::new());
    let filter = Filter { statuses: statuses.map(<[_]>::to_vec), ..Filter::default() };
    loop {
        let page = tasks.find_tasks(&operator, filter.clone(), Direction::Ascending, after, PAGE).await?;
        found.extend(page.tasks);
        match page.next {
            Some(next) => after = Some(next),
            None => return Ok(found),
        }
    }
}

/// Writes an entry to the audit log. A store that cannot be reached loses the entry, not the action that it records.
pub async fn note(config: &Config, entry: Entry) {
    let noted = async {
        let store = open_store(config).await?;
        let noting = async {
            store.note(entry);
            anyhow::Ok(())
        };
        until_closed(config, store.clone(), noting).await
    };
    if let Err(error) = noted.await {
        tell!("toolyard: the audit log does not record this: {error:#}");
    }
}

/// Awaits the work, and closes the store with everything written and exported.
async fn until_closed<T>(
    config: &Config,
    store: Arc<dyn Backend>,
    act: impl Future<Output = anyhow::Result<T>>,
) -> anyhow::Result<T> {
    let exporter = assemble::exporter(config, &assemble::stores_in(&store))?;
    let done = act.await;
    if let Some(exporter) = exporter {
        exporter.finish().await;
    }
    store.shut_down().await;
    done
}
