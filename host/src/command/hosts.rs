//! `toolyard hosts`: lists the hosts that share the database, and whether they have the same components.

use super::table::table;
use super::{WrongUsage, operator};
use crate::config::Flags;
use clap::Args;
use std::process::ExitCode;
use toolyard_cli::{output, say};
use toolyard_dispatch::{Neighbour, lacked_components};

/// The options of `hosts`.
#[derive(Debug, Args)]
pub struct Options {
    /// Print JSON instead of a table, one host a line.
    #[arg(long)]
    json: bool,
}

/// Lists the hosts.
pub fn run(flags: &Flags, options: &Options) -> anyhow::Result<ExitCode> {
    let config = operator::configured(flags)?;
    if !config.store.is_shared_by_hosts() {
        let reason = "only hosts that share a PostgreSQL database know of each other; --store names it";
        return Err(WrongUsage(reason.to_owned()).into());
    }
    operator::with_bare_store(&config, async |store| {
        let hosts = store.living().await?;
        if options.json {
            hosts.iter().for_each(|host| output::json(as_json(host)));
        } else {
            print(&hosts);
        }
        Ok(ExitCode::SUCCESS)
    })
}

fn as_json(host: &Neighbour) -> serde_json::Value {
    serde_json::json!({
        "incarnation": host.incarnation.0,
        "name": host.name,
        "since": host.since.to_string(),
        "components": host.components.iter().map(ToString::to_string).collect::<Vec<_>>(),
    })
}

fn print(hosts: &[Neighbour]) {
    if hosts.is_empty() {
        say!("No live hosts.");
        return;
    }
    let mut listed = table(&["HOST", "NAME", "SINCE", "COMPONENTS"]);
    for host in hosts {
        listed.add_row([
            host.incarnation.0.to_string(),
            host.name.clone(),
            host.since.to_string(),
            host.components.len().to_string(),
        ]);
    }
    say!("{listed}");
    let lacked = lacked_components(hosts);
    if lacked.is_empty() {
        say!("\nAll have the same components.");
        return;
    }
    say!("\nNot all have the same components. `toolyard tools` on a host shows the plugin of a digest.");
    let mut differences = table(&["COMPONENT", "NOT ON HOST"]);
    for (component, by) in lacked {
        let by: Vec<String> = by.iter().map(|host| host.incarnation.0.to_string()).collect();
        differences.add_row([component.to_string(), by.join(", ")]);
    }
    say!("{differences}");
}
