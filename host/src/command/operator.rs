//! What the commands share that look into the store of a host, beside it or while it
//! does not run.

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

/// The configuration of such a command; what it does is on record as what a host does.
///
/// # Errors
/// [`WrongUsage`] if there is nothing to look into: what is kept in memory is seen by
/// its host only.
pub fn configured(flags: &Flags) -> anyhow::Result<Config> {
    let mut config = configure(flags, None)?;
    config.limits.audit_to.or_file();
    start_log(&config, "warn")?;
    if config.store == StoreChoice::Memory {
        return Err(WrongUsage("what is kept in memory is seen by its host only".to_owned()).into());
    }
    Ok(config)
}

/// Whether there is a store; without one, whoever `lists` finds nothing in it.
///
/// # Errors
/// If there is none and something in it is asked for.
pub fn has_store(config: &Config, lists: bool) -> anyhow::Result<bool> {
    match config.data.is_dir() {
        true => Ok(true),
        // The folder is not where it is.
        false if matches!(config.store, StoreChoice::Postgres(_)) => Ok(true),
        false if lists => Ok(false),
        false => bail!("there is no data folder at {}; --data names another", config.data.display()),
    }
}

/// Opens the store, does what `act` does with it, and closes it with all that was
/// written.
///
/// # Errors
/// If the store cannot be opened, or what `act` says.
pub fn with_store<F: Future<Output = anyhow::Result<ExitCode>>>(
    config: &Config,
    act: impl FnOnce(Arc<Dispatch>) -> F,
) -> anyhow::Result<ExitCode> {
    assemble::with_runtimes(|guests| async move {
        let store = open_store(config).await?;
        let stores = assemble::stores_in(&store);
        let exporter = assemble::exporter(config, &stores)?;
        let dispatch = Dispatch::new(
            // Whoever only looks into the store runs nothing.
            Settings { adopts: false, ..assemble::dispatch_settings(config, u32::MAX) },
            stores,
            Arc::new(crate::system::SystemClock),
            Arc::new(crate::system::RandomIds),
            guests,
        );
        let done = act(dispatch).await;
        if let Some(exporter) = exporter {
            exporter.finish().await;
        }
        store.shut_down().await;
        done
    })
}

/// As [`with_store`], for what is done with the store alone. Ends at Ctrl-C.
///
/// # Errors
/// If the store cannot be opened, or what `act` says.
pub fn with_bare_store(
    config: &Config,
    act: impl AsyncFnOnce(&dyn Backend) -> anyhow::Result<ExitCode>,
) -> anyhow::Result<ExitCode> {
    assemble::with_runtimes(|_| async move {
        let store = open_store(config).await?;
        until_done(config, store.clone(), act(&*store)).await
    })
}

/// As [`with_bare_store`], for what only the store in a file can do, and what that is called.
///
/// # Errors
/// [`WrongUsage`] for another store; else as [`with_bare_store`].
pub fn with_sqlite_store(
    config: &Config,
    what: &str,
    act: impl AsyncFnOnce(&Arc<SqliteStore>) -> anyhow::Result<ExitCode>,
) -> anyhow::Result<ExitCode> {
    if config.store != StoreChoice::Sqlite {
        return Err(WrongUsage(format!("{what} works on the store in SQLite only")).into());
    }
    assemble::with_runtimes(|_| async move {
        let store = assemble::open_sqlite(config)?;
        until_done(config, store.clone(), act(&store)).await
    })
}

/// Does it, or ends at Ctrl-C, and closes the store with all that was written.
async fn until_done(
    config: &Config,
    store: Arc<dyn Backend>,
    act: impl Future<Output = anyhow::Result<ExitCode>>,
) -> anyhow::Result<ExitCode> {
    let stop = stop_signal()?;
    let exporter = assemble::exporter(config, &assemble::stores_in(&store))?;
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
