//! Shared parts of the commands that read a host's store, beside a running host or without one.

use super::{WrongUsage, configure, start_log};
use crate::assemble::{self, open_store};
use crate::config::{Config, Flags, StoreChoice};
use crate::signals::stop_signal;
use anyhow::bail;
use std::process::ExitCode;
use std::sync::Arc;
use toolyard_cli::INTERRUPTED;
use toolyard_dispatch::{Dispatch, Settings};
use toolyard_store::{Backend, SqliteStore};

/// The configuration of such a command. The audit log records its actions like those of a host.
///
/// # Errors
/// [`WrongUsage`] for the memory store, which only its own host can read.
pub fn configured(flags: &Flags) -> anyhow::Result<Config> {
    let mut config = configure(flags, None)?;
    config.limits.audit_to.or_file();
    start_log(&config, "warn")?;
    if !config.store.is_seen_by_other_processes() {
        return Err(WrongUsage(
            "only its own host can read a memory store; name another store by --store".to_owned(),
        )
        .into());
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
pub fn with_store<F: Future<Output = anyhow::Result<ExitCode>>>(
    config: &Config,
    act: impl FnOnce(Arc<Dispatch>, Arc<dyn Backend>) -> F,
) -> anyhow::Result<ExitCode> {
    assemble::with_runtimes(|guests| async move {
        let store = open_store(config).await?;
        let stores = assemble::stores_in(&store);
        let exporter = assemble::exporter(config, &stores)?;
        let dispatch = Dispatch::new(
            // A command that only uses the store runs no tasks.
            Settings { adopts: false, ..assemble::dispatch_settings(config, u32::MAX) },
            stores,
            Arc::new(crate::system::SystemClock),
            Arc::new(crate::system::RandomIds),
            guests,
        );
        let done = act(dispatch, store.clone()).await;
        if let Some(exporter) = exporter {
            exporter.finish().await;
        }
        store.shut_down().await;
        done
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
        until_done(Some(config), store.clone(), act(&*store)).await
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
        until_done(None, store.clone(), act(&*store)).await
    })
}

/// Like [`with_bare_store`], for an option that only SQLite supports. `what` names the option in the error.
///
/// # Errors
/// [`WrongUsage`] for another store; else as [`with_bare_store`].
pub fn with_sqlite_store(
    config: &Config,
    what: &str,
    act: impl AsyncFnOnce(&Arc<SqliteStore>) -> anyhow::Result<ExitCode>,
) -> anyhow::Result<ExitCode> {
    if config.store != StoreChoice::Sqlite {
        return Err(WrongUsage(format!("{what} works only on a SQLite store (`store`)")).into());
    }
    assemble::with_runtimes(|_| async move {
        let store = assemble::open_sqlite(config)?;
        until_done(Some(config), store.clone(), act(&store)).await
    })
}

/// Awaits the work or Ctrl-C, and closes the store with everything written. With a configuration, audit entries are
/// exported as it says.
async fn until_done(
    config: Option<&Config>,
    store: Arc<dyn Backend>,
    act: impl Future<Output = anyhow::Result<ExitCode>>,
) -> anyhow::Result<ExitCode> {
    let stop = stop_signal()?;
    let stores = assemble::stores_in(&store);
    let exporter = config.map(|config| assemble::exporter(config, &stores)).transpose()?.flatten();
    let done = tokio::select! {
        biased;
        done = act => done,
        () = stop.cancelled() => Ok(ExitCode::from(INTERRUPTED)),
    };
    if let Some(exporter) = exporter {
        exporter.finish().await;
    }
    store.shut_down().await;
    done
}
