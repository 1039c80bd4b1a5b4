//! `toolyard hosts`: lists the hosts that share the database, and whether they have the same components.

use super::operator;
use super::table::{Column, list_or, table};
use crate::config::Flags;
use clap::Args;
use serde_json::json;
use std::process::ExitCode;
use toolyard_cli::{bail_usage, say};
use toolyard_dispatch::{Neighbour, lacked_components};

const COLUMNS: [Column<Neighbour>; 5] = [
    Column::new("HOST", "incarnation", |host| host.incarnation.0.into()),
    Column::new("NAME", "name", |host| host.name.as_str().into()),
    Column::new("SINCE", "since", |host| host.since.to_string().into()),
    Column::shown("COMPONENTS", |host| host.components.len().into()),
    Column::member("components", |host| {
        json!(host.components.iter().map(ToString::to_string).collect::<Vec<_>>())
    }),
];

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
        bail_usage!("only hosts that share a PostgreSQL database know of each other; --store names it");
    }
    operator::with_bare_store(&config, async |store| {
        let hosts = store.living().await?;
        list_or(&COLUMNS, &hosts, options.json, format_args!("No live hosts."));
        if !options.json && !hosts.is_empty() {
            print_differences(&hosts);
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// Prints the components that some hosts lack.
fn print_differences(hosts: &[Neighbour]) {
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
