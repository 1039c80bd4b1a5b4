//! `toolyard grants`: lists and revokes the permissions and refusals that people gave plugins for all time.

use super::operator;
use super::table::{Column, list_or, object};
use crate::config::{Config, Flags};
use clap::{Args, Subcommand};
use serde_json::json;
use toolyard_cli::{output, say};
use toolyard_dispatch::{Caller, Dispatch, Grant, GrantFilter, GrantId, owner_name, visible};

/// The number of digest characters that the table shows.
const SHORT_DIGEST: usize = 12;

const COLUMNS: [Column<Grant>; 10] = [
    Column::new("GRANT", "grantId", |grant| grant.id.to_string().into()),
    Column::new("PRINCIPAL", "principal", |grant| owner_name(&grant.owner).into()),
    Column::member("by", |grant| json!(grant.by)),
    Column::new("PLUGIN", "plugin", |grant| grant.plugin.as_str().into()),
    Column::shown("DIGEST", |grant| grant.digest.0.chars().take(SHORT_DIGEST).collect::<String>().into()),
    Column::member("digest", |grant| grant.digest.to_string().into()),
    Column::shown("WHAT", |grant| grant.wanted.to_string().into()),
    Column::member("what", |grant| json!(grant.wanted)),
    Column::new("VERDICT", "verdict", |grant| grant.verdict.as_str().into()),
    Column::new("GIVEN", "givenAt", |grant| grant.given_at.to_string().into()),
];

/// The options of `grants`.
#[derive(Debug, Args)]
pub struct Options {
    #[command(subcommand)]
    action: Action,
    /// Print JSON instead of a table.
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List the permissions and refusals that hold for all time, the oldest first.
    List(Which),
    /// Revoke a permission or refusal: the next use asks the person again.
    Revoke {
        /// The id, as `list` shows it.
        // The conflicts are declared here, because `list` has the options of `Which` and no `id`: completions for
        // zsh cannot be generated for a conflict with an unknown argument.
        #[arg(required_unless_present = "all", conflicts_with_all = ["all", "plugin", "principal"])]
        id: Option<String>,
        /// All of them, or all that match --plugin and --principal.
        #[arg(long)]
        all: bool,
        #[command(flatten)]
        which: Which,
    },
}

/// Selects grants.
#[derive(Debug, Args)]
struct Which {
    /// Only those of this plugin file.
    #[arg(long, value_name = "FILE")]
    plugin: Option<String>,
    /// Only those of this principal: local, token:NAME, ISSUER#SUBJECT, or anonymous.
    #[arg(long, value_name = "PRINCIPAL")]
    principal: Option<String>,
}

impl Which {
    fn filter(&self) -> GrantFilter {
        GrantFilter { plugin: self.plugin.clone(), principal: self.principal.clone() }
    }
}

/// Runs the chosen command.
pub fn run(flags: &Flags, options: &Options) -> anyhow::Result<()> {
    let config = operator::configured(flags)?;
    if !operator::has_store(&config, matches!(options.action, Action::List(_)))? {
        show(&[], &config, options.json);
        return Ok(());
    }
    operator::with_store(&config, async |dispatch, _| act(&dispatch, &config, options).await)
}

async fn act(dispatch: &Dispatch, config: &Config, options: &Options) -> anyhow::Result<()> {
    let (access, operator) = (dispatch.access(), Caller::operator());
    match &options.action {
        Action::List(which) => show(&access.find_grants(&which.filter()).await?, config, options.json),
        Action::Revoke { id: Some(id), .. } => {
            let unknown = || anyhow::anyhow!("no grant {id} in this store; `toolyard grants list` shows all");
            let id = GrantId::parse(id).ok_or_else(unknown)?;
            let grant = access.revoke_grant(&operator, id).await?.ok_or_else(unknown)?;
            say_revoked(&[grant], options.json);
        }
        Action::Revoke { id: None, which, .. } => {
            say_revoked(&access.revoke_grants(&operator, &which.filter()).await?, options.json);
        }
    }
    Ok(())
}

fn say_revoked(grants: &[Grant], json: bool) {
    match grants {
        _ if json => grants.iter().for_each(|grant| output::json(object(&COLUMNS, grant))),
        [Grant { id, wanted, verdict, .. }] => {
            say!("revoked {id}: {} ({})", visible::line(&wanted.to_string()), verdict.as_str());
        }
        _ => say!("revoked {}", grants.len()),
    }
}

fn show(grants: &[Grant], config: &Config, json: bool) {
    list_or(&COLUMNS, grants, json, format_args!("No grants in {}.", config.data.display()));
}
