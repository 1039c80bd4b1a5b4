//! `toolyard componentize`: makes a component from a core module.

use super::WrongUsage;
use crate::config::Flags;
use anyhow::Context as _;
use clap::Args;
use std::path::PathBuf;
use toolyard_cli::replace::{readable, replace};
use toolyard_cli::{read, tell};
use toolyard_engine::componentize;

/// The largest module that is read, in bytes. A component is loaded up to `plugins.component`. Debug
/// information, which is stripped later, may be several times that size.
const MAX_BYTES: u64 = 512 << 20;

/// The options of `componentize`.
#[derive(Debug, Args)]
pub struct Options {
    /// The core module.
    module: PathBuf,
    /// The file for the component; without it, MODULE is replaced.
    #[arg(long, short)]
    output: Option<PathBuf>,
    /// The WIT package, a folder or a file, that the module was built against. Only a module that does not
    /// carry its type needs it.
    #[arg(long)]
    wit: Option<PathBuf>,
    /// The world in it; required if the package has several.
    #[arg(long, requires = "wit")]
    world: Option<String>,
}

/// Makes the component.
pub fn run(_: &Flags, options: &Options) -> anyhow::Result<()> {
    let shown = options.module.display();
    let module = read::bytes(&options.module, MAX_BYTES)
        .map_err(|why| WrongUsage(format!("cannot read {shown}: {why}")))?;
    let world = options.wit.as_deref().map(|wit| (wit, options.world.as_deref()));
    let component = componentize(&module, world).map_err(|why| anyhow::anyhow!("{shown}: {why}"))?;
    let output = options.output.as_ref().unwrap_or(&options.module);
    replace(output, &component, readable()).with_context(|| format!("cannot write {}", output.display()))?;
    tell!("{}: a component of {} bytes", output.display(), component.len());
    Ok(())
}
