//! `toolyard dev`: a project served while one works on it. It is built when its sources
//! change, the host loads what was built, and what happens is shown as it happens.

mod guest_lines;
mod looking_on;
mod show;

use super::build::{open, time};
use super::{WrongUsage, configure};
use crate::assemble::{self, Assembled};
use crate::config::{Flags, StoreChoice};
use crate::project::build::build;
use crate::project::file::Project;
use crate::project::shell::{Output, Said};
use crate::project::sources::{Sources, Watch};
use crate::signals::stop_signal;
use anyhow::Context as _;
use clap::Args;
use looking_on::Onlooking;
use serde_json::json;
use show::{Colour, Show, Shown};
use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use toolyard_dispatch::{Departure, DrainMode};
use toolyard_transport::http;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

/// The options of `dev`.
#[derive(Debug, Args)]
pub struct Options {
    /// The project: a folder with a project.toml.
    #[arg(default_value = ".")]
    dir: PathBuf,
    /// Where to serve; port 0 takes a free one. [key: listen] [default:
    /// 127.0.0.1:7420]
    #[arg(long, value_name = "ADDR:PORT", env = "TOOLYARD_LISTEN")]
    listen: Option<String>,
    /// Print JSON, one event a line.
    #[arg(long)]
    json: bool,
}

/// Lines of a build that may wait to be shown.
const WAITING: usize = 64;

/// Serves, builds and shows until a signal comes.
pub fn run(flags: &Flags, options: &Options) -> anyhow::Result<ExitCode> {
    let mut config = configure(flags, options.listen.as_deref())?;
    let project = open(&options.dir)?;
    config.plugins = project.plugin();
    // What is tried out is not kept.
    config.store = StoreChoice::Memory;
    let colours = !options.json && std::io::stdout().is_terminal();
    let show = Show::start(options.json, colours)?;
    // What is refused is shown by the one who looks on, once.
    let filter = config.log.as_deref().unwrap_or("error,guest=info");
    let filter = tracing_subscriber::EnvFilter::try_new(filter)
        .map_err(|error| WrongUsage(format!("`log`: {error}")))?;
    tracing_subscriber::registry().with(filter).with(guest_lines::GuestLines(show.clone())).init();
    let showing = show.clone();
    let done = assemble::with_runtimes(|guests| async move {
        let stop = stop_signal()?;
        let listener = TcpListener::bind(config.listen)
            .await
            .with_context(|| format!("cannot listen on {}", config.listen))?;
        let url = format!("http://{}/mcp", listener.local_addr()?);
        std::fs::create_dir_all(&config.plugins)
            .with_context(|| format!("{} cannot be made", config.plugins.display()))?;
        // Before the first build, so that nothing that changes during it is missed.
        let watch = Watch::new(Sources::of(&project)).await.map_err(anyhow::Error::msg)?;
        make(&project, &show, &stop).await;
        if *stop.borrow() {
            return Ok(());
        }
        let onlooker = Arc::new(Onlooking::new(show.clone()));
        let assembled = Assembled::start_before(&config, guests, stop.clone(), Some(onlooker)).await?;
        let connect = format!("claude mcp add --transport http {} {url}", project.name);
        show.say(&Shown {
            event: "serving",
            colour: Colour::Green,
            text: format!("{url}   {connect}"),
            json: json!({"url": url, "connect": connect}),
        });
        tokio::join!(
            http::serve(assembled.server.clone(), listener, stop.clone(), async {
                assembled.drain(Duration::ZERO, DrainMode::End(Departure::ShutDown)).await;
            }),
            keep_up(project, watch, &show, stop)
        );
        assembled.close().await;
        Ok(())
    });
    showing.end();
    done.map(|()| ExitCode::SUCCESS)
}

/// Builds whenever the sources have changed.
async fn keep_up(mut project: Project, mut watch: Watch, show: &Arc<Show>, mut stop: watch::Receiver<bool>) {
    while !*stop.borrow() {
        let changed = tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop) => return,
            changed = watch.changed() => changed,
        };
        let opened = match changed {
            Ok(()) => Project::open(&project.folder),
            Err(error) => Err(error),
        };
        match opened {
            // Another name is another plugin, which another run serves.
            Ok(changed) if changed.name == project.name => {
                if changed != project {
                    watch.replace(Sources::of(&changed));
                    project = changed;
                }
                make(&project, show, &stop).await;
            }
            Ok(changed) => failed(
                show,
                &format!("the project is called {} now; start `toolyard dev` again", changed.name),
            ),
            Err(error) => failed(show, &error),
        }
    }
}

/// Builds once, and shows how that goes. What fails leaves the former version.
async fn make(project: &Project, show: &Arc<Show>, stop: &watch::Receiver<bool>) {
    let began = Instant::now();
    show.say(&Shown {
        event: "build",
        colour: Colour::Dim,
        text: format!("{} is being built", project.name),
        json: json!({"project": project.name}),
    });
    let (sender, mut lines) = mpsc::channel(WAITING);
    let output = Output::Lines(sender);
    let building = async {
        let built = build(project, false, &output, stop).await;
        drop(output);
        built
    };
    let showing = async {
        while let Some(said) = lines.recv().await {
            show.whole(&match said {
                Said::Command(command) => Shown {
                    event: "command",
                    colour: Colour::Dim,
                    text: format!("$ {command}"),
                    json: json!({"command": command}),
                },
                Said::Line(line) => {
                    Shown { event: "output", colour: Colour::None, json: json!({"line": line}), text: line }
                }
            })
            .await;
        }
    };
    match tokio::join!(building, showing).0 {
        Ok(built) => show.say(&Shown {
            event: "built",
            colour: Colour::Green,
            text: super::build::summary(project, &built),
            json: json!({
                "bytes": built.bytes, "changed": built.changed, "ms": built.took.as_millis() as u64,
            }),
        }),
        Err(error) if error.was_stopped() => {}
        Err(error) => failed(show, &format!("{error}, after {}", time(began.elapsed()))),
    }
}

fn failed(show: &Show, why: &str) {
    show.say(&Shown {
        event: "failed",
        colour: Colour::Red,
        text: format!("{why}; what was served before goes on"),
        json: json!({"why": why}),
    });
}
