//! `toolyard build`: runs the commands of a project, and copies the component to the plugin folder.

use crate::project::{NOTES, Project};
use crate::shell::{self, Failed, Output};
use crate::time::shown_time;
use anyhow::Context as _;
use sha2::{Digest as _, Sha256};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;
use toolyard_cli::read::if_exists;
use toolyard_cli::replace::{readable, replace};
use toolyard_cli::{INTERRUPTED, say};
use toolyard_dispatch::visible;
use toolyard_engine::Engine;

/// `toolyard build`: builds the project, and prints what its component offers. The commands of `setup` run
/// again if `sets_up` is true. The engine that inspects the component is started after the build.
///
/// # Errors
/// If the build fails, or the component cannot be a plugin.
pub async fn build(
    project: &Project,
    sets_up: bool,
    start_engine: impl FnOnce() -> anyhow::Result<Arc<Engine>>,
    stop: &CancellationToken,
) -> anyhow::Result<ExitCode> {
    let built = match make(project, sets_up, &Output::Terminal, stop).await {
        Ok(built) => built,
        Err(error) => return ended(&error),
    };
    let engine = start_engine()?;
    let report = tokio::select! {
        biased;
        report = engine.check(&built.component) => {
            report.with_context(|| format!("{} is not a plugin", built.shown(project)))?
        }
        () = stop.cancelled() => return Ok(ExitCode::from(INTERRUPTED)),
    };
    let tools: Vec<&str> = report.tools.iter().map(|tool| tool.name.as_str()).collect();
    let mut offers = Vec::new();
    if !tools.is_empty() {
        offers.push(tools.join(", "));
    }
    let prompts: Vec<&str> = report.prompts.iter().map(|prompt| prompt.name.as_str()).collect();
    if !prompts.is_empty() {
        offers.push(format!("the prompts {}", prompts.join(", ")));
    }
    if report.has_resources {
        offers.push("resources".to_owned());
    }
    say!("{}: {}", built.summary(project), visible::line(&offers.join("; ")));
    let absent =
        report.grants.secrets.iter().filter(|secret| !secret.is_there).map(|secret| secret.name.as_str());
    let absent: Vec<&str> = absent.collect();
    if !absent.is_empty() {
        say!("before you serve it, set what the manifest names as its secrets: {}", absent.join(", "));
    }
    Ok(ExitCode::SUCCESS)
}

/// The exit code of the program after a failed build.
///
/// # Errors
/// The failure, unless the build was stopped.
pub fn ended(error: &NotBuilt) -> anyhow::Result<ExitCode> {
    match error.was_stopped() {
        true => Ok(ExitCode::from(INTERRUPTED)),
        false => anyhow::bail!("{error}"),
    }
}

/// A built component.
#[derive(Debug, Clone)]
pub struct Built {
    /// The component, in the plugin folder.
    pub component: PathBuf,
    /// The size of the component, in bytes.
    pub bytes: u64,
    /// Whether it differs from the previous one.
    pub changed: bool,
    /// How long the build took.
    pub took: Duration,
}

impl Built {
    /// The component, its size and the time of the build, on one line.
    pub fn summary(&self, project: &Project) -> String {
        let changed = if self.changed { "" } else { ", the same as before" };
        let size = bytesize::ByteSize(self.bytes).display().iec();
        format!("{} ({size}{changed}) in {}", self.shown(project), shown_time(self.took))
    }

    fn shown(&self, project: &Project) -> String {
        self.component.strip_prefix(&project.folder).unwrap_or(&self.component).display().to_string()
    }
}

/// The reason why a build failed.
#[derive(Debug, thiserror::Error)]
pub enum NotBuilt {
    /// A command failed; its own output contains the details.
    #[error("`{0}` {1}")]
    Command(String, Failed),
    /// The commands did not make the component.
    #[error("the build ended well, and made no {0}, which `component` names")]
    NoComponent(String),
    /// A file could not be read or written.
    #[error("{0}: {1}")]
    File(String, std::io::Error),
}

impl NotBuilt {
    /// Whether the build was stopped, which is no failure.
    pub const fn was_stopped(&self) -> bool {
        matches!(self, Self::Command(_, Failed::Stopped))
    }
}

/// Builds a project. The commands of `setup` run the first time, when they have changed, and if `sets_up` is
/// true.
///
/// # Errors
/// [`NotBuilt`]; the previous component then remains.
pub async fn make(
    project: &Project,
    sets_up: bool,
    output: &Output,
    stop: &CancellationToken,
) -> Result<Built, NotBuilt> {
    let began = Instant::now();
    let run = async |command: &String| {
        let ended = shell::run(command, &project.folder, output, stop).await;
        ended.map_err(|failed| NotBuilt::Command(command.clone(), failed))
    };
    let stamp = Stamp::of(project);
    if sets_up || !stamp.is_there() {
        for command in &project.setup {
            run(command).await?;
        }
        stamp.put()?;
    }
    for command in &project.build {
        run(command).await?;
    }
    let (made, shipped) = (project.folder.join(&project.component), project.shipped());
    let told = project.component.display().to_string();
    // Copying megabytes would block a thread that other work waits for.
    let placed = tokio::task::spawn_blocking({
        let shipped = shipped.clone();
        move || place(&made, &shipped)
    });
    match placed.await {
        Ok(Ok(Some((bytes, changed)))) => {
            Ok(Built { component: shipped, bytes, changed, took: began.elapsed() })
        }
        Ok(Ok(None)) => Err(NotBuilt::NoComponent(told)),
        Ok(Err(error)) => Err(NotBuilt::File(told, error)),
        Err(panic) => Err(NotBuilt::File(told, std::io::Error::other(panic))),
    }
}

/// Replaces a file by renaming, if the new one differs. Returns its size, and whether it differed. `None` if
/// there is no new file.
fn place(made: &Path, shipped: &Path) -> std::io::Result<Option<(u64, bool)>> {
    let Some(bytes) = if_exists(std::fs::read(made))? else { return Ok(None) };
    let size = bytes.len() as u64;
    if std::fs::read(shipped).is_ok_and(|former| former == bytes) {
        return Ok(Some((size, false)));
    }
    let folder = shipped.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder)?;
    replace(shipped, &bytes, readable())?;
    Ok(Some((size, true)))
}

/// Records that a project was set up with exactly these commands.
struct Stamp {
    path: PathBuf,
    says: String,
}

impl Stamp {
    fn of(project: &Project) -> Self {
        let mut hash = Sha256::new();
        for command in &project.setup {
            hash.update((command.len() as u64).to_le_bytes());
            hash.update(command);
        }
        let says = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        Self { path: project.folder.join(NOTES).join("setup"), says }
    }

    fn is_there(&self) -> bool {
        std::fs::read_to_string(&self.path).is_ok_and(|text| text.trim() == self.says)
    }

    fn put(&self) -> Result<(), NotBuilt> {
        let folder = self.path.parent().unwrap_or(Path::new("."));
        std::fs::create_dir_all(folder)
            .and_then(|()| std::fs::write(&self.path, format!("{}\n", self.says)))
            .map_err(|error| NotBuilt::File(NOTES.to_owned(), error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Made {
        folder: tempfile::TempDir,
        project: Project,
    }

    fn made(setup: &str, build: &str) -> Made {
        let folder = tempfile::tempdir().expect("a folder");
        let text = format!("name = 'a'\nsetup = ['{setup}']\nbuild = ['{build}']\ncomponent = 'out'\n");
        std::fs::write(folder.path().join("project.toml"), text).expect("written");
        let project = Project::open(folder.path()).expect("a project");
        Made { folder, project }
    }

    impl Made {
        async fn build(&self, sets_up: bool) -> Result<Built, NotBuilt> {
            let stop = CancellationToken::new();
            let (sender, mut receiver) = tokio::sync::mpsc::channel(1);
            let output = Output::Lines(sender);
            let building = async {
                let built = make(&self.project, sets_up, &output, &stop).await;
                drop(output);
                built
            };
            tokio::join!(building, async { while receiver.recv().await.is_some() {} }).0
        }

        fn read(&self, name: &str) -> String {
            std::fs::read_to_string(self.folder.path().join(name)).unwrap_or_default()
        }
    }

    #[tokio::test]
    async fn what_is_made_is_placed_and_what_is_the_same_is_left_alone() {
        let made = made("true", "cat in > out");
        std::fs::write(made.folder.path().join("in"), "one").expect("written");
        let built = made.build(false).await.expect("built");
        assert!(built.changed && built.bytes == 3 && made.read("plugin/a.wasm") == "one");
        let touched = || std::fs::metadata(&built.component).expect("there").modified().expect("a time");
        let before = touched();
        assert!(!made.build(false).await.expect("built").changed);
        assert_eq!(touched(), before);
        std::fs::write(made.folder.path().join("in"), "two").expect("written");
        assert!(made.build(false).await.expect("built").changed && made.read("plugin/a.wasm") == "two");
        let left = std::fs::read_dir(made.folder.path().join("plugin")).expect("a folder").count();
        assert_eq!(left, 1, "nothing half done stays");
    }

    #[tokio::test]
    async fn a_project_is_set_up_once_and_again_when_that_changes() {
        let mut made = made("echo s >> set", "echo > out");
        for _ in 0..2 {
            made.build(false).await.expect("built");
        }
        assert_eq!(made.read("set"), "s\n");
        made.build(true).await.expect("built");
        assert_eq!(made.read("set"), "s\ns\n", "if it is wanted");
        made.project.setup.push("echo t >> set".to_owned());
        made.build(false).await.expect("built");
        assert_eq!(made.read("set"), "s\ns\ns\nt\n");
        made.project.setup.push("false".to_owned());
        for _ in 0..2 {
            let error = made.build(false).await.expect_err("it fails").to_string();
            assert!(error.contains("`false` failed"), "it is not taken for done: {error}");
        }
    }

    #[tokio::test]
    async fn a_failure_leaves_what_was_there() {
        let mut made = made("true", "echo one > out");
        made.build(false).await.expect("built");
        made.project.build = vec!["echo two > out".to_owned(), "exit 4".to_owned()];
        let error = made.build(false).await.expect_err("it fails").to_string();
        assert!(error.contains("`exit 4` failed: exit status: 4"), "{error}");
        assert_eq!(made.read("plugin/a.wasm"), "one\n");
        made.project.build = vec!["rm out".to_owned()];
        let error = made.build(false).await.expect_err("nothing made").to_string();
        assert!(error.contains("made no out"), "{error}");
    }
}
