//! `toolyard dev`: serves a project while its author works on it.

use super::{configure, filter};
use crate::assemble::{self, Assembled, Start};
use crate::config::{Flags, StoreChoice};
use crate::signals::stop_signal;
use crate::system::SystemClock;
use anyhow::Context as _;
use clap::Args;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use toolyard_dispatch::{Departure, DrainMode};
use toolyard_engine::QuickCode;
use toolyard_transport::http::{self, Listener};
use toolyard_workshop::{Dev, Project};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

/// The options of `dev`.
#[derive(Debug, Args)]
pub struct Options {
    /// The project: a folder with a project.toml.
    #[arg(default_value = ".")]
    dir: PathBuf,
    /// The address to serve at; port 0 takes a free one. [key: listen] [default: 127.0.0.1:7420]
    #[arg(long, value_name = "ADDR:PORT", env = "TOOLYARD_LISTEN")]
    listen: Option<String>,
    /// Print JSON, one event a line.
    #[arg(long)]
    json: bool,
}

/// Serves, builds and shows calls until a signal comes.
pub fn run(flags: &Flags, options: &Options) -> anyhow::Result<ExitCode> {
    let mut config = configure(flags, options.listen.as_deref())?;
    config.check_address()?;
    let project = Project::open(&options.dir)?;
    config.set_plugins(project.plugin());
    config.quick_code = QuickCode::Make;
    // Tasks of a trial are not stored.
    config.store = StoreChoice::Memory;
    let dev = Dev::start(options.json, Arc::new(SystemClock))?;
    // The call log shows refused plugins, so the host's log need not.
    let filter = filter(&config, "error,guest=info")?;
    tracing_subscriber::registry().with(filter).with(dev.guest_lines()).init();
    let done = assemble::with_runtimes(|guests| serve(config, project, &dev, guests));
    dev.end();
    done
}

async fn serve(
    config: crate::config::Config,
    project: Project,
    dev: &Dev,
    guests: tokio::runtime::Handle,
) -> anyhow::Result<ExitCode> {
    let stop = stop_signal()?;
    let listener = TcpListener::bind(config.listen)
        .await
        .with_context(|| format!("cannot listen on {} (`listen`)", config.listen))?;
    let address = listener.local_addr()?;
    let session = dev.begin(project, &stop).await?;
    if stop.is_cancelled() {
        return Ok(ExitCode::SUCCESS);
    }
    let assembled =
        Assembled::start(&config, guests, &stop, Start::for_operator(Some(dev.call_log()))).await?;
    session.serving(&format!("http://{address}/mcp"));
    let draining = async {
        assembled.drain(Duration::ZERO, DrainMode::End(Departure::ShutDown)).await;
    };
    tokio::join!(
        http::serve(assembled.server.clone(), Listener::Tcp(listener), stop.clone(), draining),
        session.keep_up(&stop)
    );
    assembled.close().await;
    Ok(ExitCode::SUCCESS)
}
