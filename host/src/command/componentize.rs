//! `toolyard componentize`: a component of a core module.

use super::WrongUsage;
use crate::output::tell;
use crate::replace::{readable, replace};
use anyhow::Context as _;
use clap::Args;
use rustix::fs::OFlags;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use toolyard_engine::componentize;

/// The largest module that is read. A component of it is loaded up to `plugins.component`;
/// what debuggers want, and is taken out later, may be several times that.
const MAX_BYTES: u64 = 512 << 20;

/// The options of `componentize`.
#[derive(Debug, Args)]
pub struct Options {
    /// The core module.
    module: PathBuf,
    /// Where the component goes; without it, MODULE is replaced.
    #[arg(long, short)]
    output: Option<PathBuf>,
    /// The WIT package, a folder or a file, that the module is made for. Only a
    /// module that does not carry its type needs it.
    #[arg(long)]
    wit: Option<PathBuf>,
    /// The world in it; needed where the package has several.
    #[arg(long, requires = "wit")]
    world: Option<String>,
}

/// Makes the component.
pub fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let shown = options.module.display();
    let module = read(&options.module).map_err(|why| WrongUsage(format!("{shown} cannot be read: {why}")))?;
    let world = options.wit.as_deref().map(|wit| (wit, options.world.as_deref()));
    let component = componentize(&module, world).map_err(|why| anyhow::anyhow!("{shown}: {why}"))?;
    let output = options.output.as_ref().unwrap_or(&options.module);
    replace(output, &component, readable())
        .with_context(|| format!("{} cannot be written", output.display()))?;
    tell!("{}: a component of {} bytes", output.display(), component.len());
    Ok(ExitCode::SUCCESS)
}

/// Reads a file, and neither waits for a pipe nor takes all that a device gives.
fn read(path: &Path) -> Result<Vec<u8>, String> {
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = File::options().read(true).custom_flags(flags.bits() as i32).open(path);
    let file = file.map_err(|error| error.to_string())?;
    let found = file.metadata().map_err(|error| error.to_string())?;
    if !found.is_file() {
        return Err("it is not a regular file".to_owned());
    }
    let too_large = || format!("it is larger than {} MiB", MAX_BYTES >> 20);
    if found.len() > MAX_BYTES {
        return Err(too_large());
    }
    let mut bytes = Vec::new();
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    if bytes.len() as u64 > MAX_BYTES { Err(too_large()) } else { Ok(bytes) }
}
