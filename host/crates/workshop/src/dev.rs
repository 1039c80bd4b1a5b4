//! `toolyard dev`: serves a project while its author works on it. When the sources change, it builds the
//! project and the host loads the new component; it shows calls as they happen.

mod call_log;
mod guest_lines;
mod show;

pub use call_log::CallLog;
pub use guest_lines::GuestLines;

use crate::build::make;
use crate::project::Project;
use crate::shell::{Output, Said};
use crate::sources::{Sources, Watch};
use crate::time::shown_time;
use anyhow::Context as _;
use serde_json::json;
use show::{DIM, GREEN, RED, RESET, Show};
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use toolyard_dispatch::Clock;

/// The most build lines that may wait to be shown.
const MAX_WAITING: usize = 64;

/// The terminal of `toolyard dev`.
pub struct Dev {
    show: Arc<Show>,
}

impl Dev {
    /// Starts the thread that prints, either for people or one JSON object per line. `clock` gives the time
    /// in front of each line.
    ///
    /// # Errors
    /// If the system cannot start another thread.
    pub fn start(json: bool, clock: Arc<dyn Clock>) -> anyhow::Result<Self> {
        Ok(Self { show: Show::start(json, clock)? })
    }

    /// A log layer that shows lines of guests, and log messages of the host.
    pub fn guest_lines(&self) -> GuestLines {
        GuestLines(self.show.clone())
    }

    /// An observer of calls that shows them.
    pub fn call_log(&self) -> Arc<CallLog> {
        Arc::new(CallLog::new(self.show.clone()))
    }

    /// Watches the sources of a project, makes its plugin folder, and builds it once. It shows a failed
    /// build; [`Session::keep_up`] builds again.
    ///
    /// # Errors
    /// If the folder cannot be made, or there are too many files to watch.
    pub async fn begin(&self, project: Project, stop: &CancellationToken) -> anyhow::Result<Session> {
        let folder = project.plugin();
        std::fs::create_dir_all(&folder)
            .with_context(|| format!("cannot make the folder {}", folder.display()))?;
        // Before the first build, so that no change during the build is missed.
        let watch = Watch::new(Sources::of(&project)).await.map_err(anyhow::Error::msg)?;
        let session = Session { project, watch, show: self.show.clone() };
        session.build(stop).await;
        Ok(session)
    }

    /// Waits until all lines are written.
    pub fn end(&self) {
        self.show.end();
    }
}

/// A project that is rebuilt whenever its sources change.
pub struct Session {
    project: Project,
    watch: Watch,
    show: Arc<Show>,
}

impl Session {
    /// Shows the address at which the project is served.
    pub fn serving(&self, url: &str) {
        let connect = format!("claude mcp add --transport http {} {url}", self.project.name);
        let text = format!("{url}   {connect}");
        self.show.say("serving", GREEN, &text, json!({"url": url, "connect": connect}));
    }

    /// Builds whenever the sources have changed, until `stop` is cancelled.
    pub async fn keep_up(mut self, stop: &CancellationToken) {
        while !stop.is_cancelled() {
            let changed = tokio::select! {
                biased;
                () = stop.cancelled() => return,
                changed = self.watch.changed() => changed,
            };
            match changed.and_then(|()| Project::read(&self.project.folder)) {
                // A different name means a different plugin, which needs a new run.
                Ok(changed) if changed.name == self.project.name => {
                    if changed != self.project {
                        self.watch.replace(Sources::of(&changed));
                        self.project = changed;
                    }
                    self.build(stop).await;
                }
                Ok(changed) => self.failed(&format!(
                    "the project is called {} now; start `toolyard dev` again",
                    changed.name
                )),
                Err(error) => self.failed(&error),
            }
        }
    }

    /// Builds once, and shows the outcome. After a failure, the previous version stays in service.
    async fn build(&self, stop: &CancellationToken) {
        let Self { project, show, .. } = self;
        let began = Instant::now();
        let text = format!("{} is being built", project.name);
        show.say("build", DIM, &text, json!({"project": project.name}));
        let (sender, lines) = mpsc::channel(MAX_WAITING);
        let output = Output::Lines(sender);
        let building = async {
            let built = make(project, false, &output, stop).await;
            drop(output);
            built
        };
        match tokio::join!(building, show_lines(show, lines)).0 {
            Ok(built) => {
                let ms = built.took.as_millis() as u64;
                let json = json!({"bytes": built.bytes, "changed": built.changed, "ms": ms});
                show.say("built", GREEN, &built.summary(project), json);
            }
            Err(error) if error.was_stopped() => {}
            Err(error) => self.failed(&format!("{error}, after {}", shown_time(began.elapsed()))),
        }
    }

    fn failed(&self, why: &str) {
        let text = format!("{why}; what was served before goes on");
        self.show.say("failed", RED, &text, json!({"why": why}));
    }
}

/// Shows the commands of a build, and their output.
async fn show_lines(show: &Show, mut lines: mpsc::Receiver<Said>) {
    while let Some(said) = lines.recv().await {
        match said {
            Said::Command(command) => {
                let text = format!("$ {command}");
                show.whole("command", DIM, &text, json!({"command": command})).await;
            }
            Said::Line(line) => show.whole("output", RESET, &line, json!({"line": line})).await,
        }
    }
}
