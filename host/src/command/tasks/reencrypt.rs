//! `toolyard tasks reencrypt`: encrypts all tasks with the newest key.

use crate::command::{counted, operator};
use crate::config::{Config, encryption};
use crate::spinner::Spinner;
use anyhow::bail;
use clap::Args;
use std::process::ExitCode;
use toolyard_cli::{bail_usage, output, say};
use toolyard_store::{Backend, ReencryptionReport, SealWith};

/// Encrypt all tasks with the newest key, so that older keys can go.
///
/// The newest key is the first of `encryption.key-file` (or of TOOLYARD_ENCRYPTION_KEYS). Hosts may keep
/// running if they were started with it. If a key is still needed, the command names it and exits with code
/// 1.
#[derive(Debug, Args)]
pub struct Options {
    /// Write all tasks in plain text instead, so that no key is needed any more.
    #[arg(long)]
    plain: bool,
    /// Also rewrite the whole file, so that no deleted data remains in it. Needs space for a second copy;
    /// hosts wait meanwhile. Only for the SQLite store.
    #[arg(long)]
    vacuum: bool,
}

/// Runs the command.
pub fn run(config: &Config, options: &Options, json: bool) -> anyhow::Result<ExitCode> {
    let keys = encryption::keys(config.key_file.as_deref())?;
    let with = match (&keys, options.plain) {
        (_, true) => SealWith::Nothing,
        (Some(_), false) => SealWith::Newest,
        (None, false) => {
            let variable = encryption::VARIABLE;
            bail_usage!("there is no key to encrypt with; set `encryption.key-file` or {variable}");
        }
    };
    let how = match (&keys, options.plain) {
        (Some(keys), false) => format!("encrypted with the key {}", keys.newest()),
        _ => "plain".to_owned(),
    };
    if options.vacuum {
        operator::with_sqlite_store(config, "--vacuum", async |store| {
            let done = reseal(&**store, with).await?;
            store.vacuum().await?;
            report(&done, &how, json)
        })
    } else {
        operator::with_bare_store(config, async |store| report(&reseal(store, with).await?, &how, json))
    }
}

async fn reseal(store: &dyn Backend, with: SealWith) -> anyhow::Result<ReencryptionReport> {
    let spinner = Spinner::with_position("looking at", ": {human_pos} tasks");
    Ok(store.reseal(with, &mut |seen| spinner.0.set_position(seen)).await?)
}

/// Prints the outcome.
fn report(done: &ReencryptionReport, how: &str, json: bool) -> anyhow::Result<ExitCode> {
    let needed: Vec<String> = done.needed.iter().map(ToString::to_string).collect();
    if json {
        let unreadable: Vec<String> = done.unreadable.iter().map(ToString::to_string).collect();
        let report = serde_json::json!({
            "tasks": done.seen, "written": done.written, "unreadable": unreadable, "keysNeeded": needed,
        });
        output::json(report);
    } else {
        say!("{}, {} of them rewritten; all are {how}", tasks(done.seen), done.written);
    }
    match (done.unreadable.len(), needed.as_slice()) {
        (0, []) => Ok(ExitCode::SUCCESS),
        (0, needed) => bail!(
            "another process still encrypts with {}; start it with the newest key and do this again",
            needed.join(" and ")
        ),
        (count, _) => {
            bail!("cannot read {}, which stay as they are; the log names them", tasks(count as u64))
        }
    }
}

fn tasks(count: u64) -> String {
    counted(count, "task")
}
