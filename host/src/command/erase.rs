//! `toolyard erase`: erases what the store holds of a principal.

use super::operator;
use super::tasks::said;
use crate::config::{Config, Flags, StoreChoice};
use crate::prompt;
use anyhow::{Context as _, bail};
use clap::Args;
use serde_json::json;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use toolyard_cli::{bail_usage, output, say, tell};
use toolyard_dispatch::{By, Caller, DataOwner, Dispatch, Fault, Holdings, TaskQuestion, visible};
use toolyard_store::Backend;
use toolyard_store::sqlite::kept_copies;

/// The most live tasks that are read at once.
const PAGE: u32 = 500;
/// How long the command goes on cancelling tasks that the principal begins meanwhile.
const MAX_WAIT: Duration = Duration::from_secs(30);

/// The options of `erase`.
#[derive(Debug, Args)]
pub struct Options {
    /// The principal, as the audit log names it: local, token:NAME, ISSUER#SUBJECT, or anonymous (all anonymous
    /// clients).
    principal: String,
    /// Print what would be erased, and erase nothing.
    #[arg(long)]
    dry_run: bool,
    /// Do not ask. Needed without a terminal.
    #[arg(long)]
    yes: bool,
    /// Do not rewrite the SQLite file. Then parts of it may contain traces of removed data until they are used
    /// again.
    #[arg(long)]
    no_vacuum: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// The outcome of the command.
#[derive(Debug, Default)]
struct Report {
    cancelled: u64,
    erased: Holdings,
    /// Whether the person at the terminal said no.
    declined: bool,
}

/// Runs the command.
pub fn run(flags: &Flags, options: &Options) -> anyhow::Result<ExitCode> {
    let Some(of) = DataOwner::parse(&options.principal) else {
        bail_usage!(
            "`{}` is no principal that owns data; write local, anonymous, token:NAME or ISSUER#SUBJECT, as the \
             audit log does",
            visible::line(&options.principal)
        );
    };
    let config = operator::configured(flags)?;
    if !operator::has_store(&config, true)? {
        report(&config, &of, options, &Report::default(), false);
        return Ok(ExitCode::SUCCESS);
    }
    let done = operator::with_store(&config, async |dispatch, store| {
        erase(&dispatch, &*store, &config, &of, options).await
    })?;
    if done.declined {
        tell!("Nothing was erased.");
        return Ok(ExitCode::FAILURE);
    }
    // Audit entries have left the file by now. With --yes, the file is rewritten even if nothing was left to erase:
    // the tasks that ended long ago have left traces as well, and an earlier attempt may have failed.
    let something = done.erased.total() > 0 || options.yes;
    let rewrites = config.store == StoreChoice::Sqlite && something && !options.dry_run && !options.no_vacuum;
    if rewrites {
        let vacuum = operator::with_sqlite_store(&config, "this", async |store| {
            store.vacuum().await?;
            Ok(ExitCode::SUCCESS)
        });
        vacuum.context(
            "the data is erased, but the file of the store cannot be rewritten and may contain traces of it; run \
             this again with --yes",
        )?;
    }
    report(&config, &of, options, &done, rewrites);
    Ok(ExitCode::SUCCESS)
}

async fn erase(
    dispatch: &Dispatch,
    store: &dyn Backend,
    config: &Config,
    of: &DataOwner,
    options: &Options,
) -> anyhow::Result<Report> {
    let held = store.holdings(of).await?;
    if options.dry_run {
        return Ok(Report { erased: held, ..Report::default() });
    }
    if held.total() == 0 {
        return Ok(Report::default());
    }
    if !options.yes && !confirmed(config, of, &held).await? {
        return Ok(Report { declined: true, ..Report::default() });
    }
    let (mut done, until) = (Report::default(), Instant::now() + MAX_WAIT);
    let by = By::principal("operator", None);
    loop {
        for id in store.select(TaskQuestion::LiveOf(of.clone()), PAGE).await? {
            let id = id.to_string();
            match dispatch.tasks().await?.cancel_task(&Caller::operator(), &id).await {
                Ok(_) => done.cancelled += 1,
                // It has ended meanwhile, which is fine.
                Err(Fault::AlreadyOver(_) | Fault::UnknownTask) => {}
                Err(fault) => return Err(said(&fault, &id)),
            }
        }
        let batch = store.erase(of, &by).await?;
        done.erased.add(batch);
        if batch.total() > 0 {
            continue;
        }
        match store.holdings(of).await?.total() {
            0 => return Ok(done),
            _ if Instant::now() < until => {}
            _ => bail!(
                "{} goes on working, so not all of its data is erased ({} so far); take its token back and run this \
                 again",
                visible::line(&of.to_string()),
                done.erased
            ),
        }
    }
}

/// Asks the person at the terminal.
async fn confirmed(config: &Config, of: &DataOwner, held: &Holdings) -> anyhow::Result<bool> {
    if !prompt::is_attended() {
        bail_usage!("there is no terminal to ask on; --dry-run shows what would be erased, --yes erases it");
    }
    tell!("{} owns {held} in {}.", visible::line(&of.to_string()), place(config));
    if held.live_tasks > 0 {
        tell!("Live tasks are cancelled first.");
    }
    let answer = prompt::read_line("Erase all of it? It cannot be restored. Type yes or no:\n").await?;
    Ok(answer.as_deref() == Some("yes"))
}

fn report(config: &Config, of: &DataOwner, options: &Options, done: &Report, rewritten: bool) {
    let Report { cancelled, erased, .. } = done;
    for copy in kept_copies(&config.data).unwrap_or_default() {
        tell!(
            "{} is from before an upgrade, and nothing is erased there; remove it.",
            visible::line(&copy.display().to_string())
        );
    }
    if options.json {
        let mut report = json!(erased);
        report["principal"] = of.to_string().into();
        report["dryRun"] = options.dry_run.into();
        report["cancelled"] = json!(cancelled);
        report["rewritten"] = rewritten.into();
        output::json(report);
        return;
    }
    let (name, place) = (of.to_string(), place(config));
    let name = visible::line(&name);
    if erased.total() == 0 {
        say!("Nothing of {name} in {place}.");
    } else if options.dry_run {
        say!("would erase {erased} of {name}");
    } else {
        say!("erased {erased} of {name}");
    }
    if options.dry_run || (erased.total() == 0 && !rewritten) {
        return;
    }
    if *cancelled > 0 {
        tell!("{cancelled} of the tasks were cancelled first.");
    }
    match config.store {
        StoreChoice::Sqlite if rewritten => {
            tell!("The file of the store was rewritten without removed data.")
        }
        StoreChoice::Sqlite => {
            tell!(
                "The file of the store was not rewritten (--no-vacuum); it may contain traces of the data."
            );
        }
        StoreChoice::Postgres(_) => {
            tell!("The database removes the deleted rows from its files at its next VACUUM.");
        }
        StoreChoice::Memory => {}
    }
    tell!("The audit log keeps what {name} did, without contents, until it is rotated away.");
    if *of != DataOwner::Local {
        tell!("A client that still has a valid token can open a session again.");
    }
}

/// The name of the store, for a person.
fn place(config: &Config) -> String {
    match config.store {
        StoreChoice::Sqlite | StoreChoice::Memory => config.data.display().to_string(),
        StoreChoice::Postgres(_) => "the database".to_owned(),
    }
}
