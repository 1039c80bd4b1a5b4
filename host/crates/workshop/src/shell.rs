//! Runs the commands of a project with the shell in the project's folder. Each runs in its own process group,
//! so that it can be ended together with all processes that it started.

use rustix::process::{Pid, Signal, kill_process_group};
use std::ffi::OsString;
use std::os::fd::AsFd as _;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, BufReader};
use tokio::process::Command;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use toolyard_cli::tell;

/// How long a command may take to end after SIGTERM.
const END_TIME: Duration = Duration::from_secs(2);
/// Longer lines are split.
const MAX_LINE_BYTES: u64 = 64 << 10;

/// The destination of the output of commands.
#[derive(Clone)]
pub enum Output {
    /// The standard error of this process.
    Terminal,
    /// A queue, line by line.
    Lines(mpsc::Sender<Said>),
}

/// A line that a build prints.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Said {
    /// A command begins.
    Command(String),
    /// The command writes a line.
    Line(String),
}

/// The reason why a command failed.
#[derive(Debug, thiserror::Error)]
pub enum Failed {
    /// The shell or the folder does not exist.
    #[error("did not start: {0}")]
    NotStarted(std::io::Error),
    /// The command ended with this status.
    #[error("failed: {0}")]
    Status(ExitStatus),
    /// The command was stopped.
    #[error("was stopped")]
    Stopped,
}

/// Runs a command to its end. If `stop` is cancelled, ends it and all processes that it started.
///
/// # Errors
/// [`Failed`].
pub async fn run(
    command: &str,
    folder: &Path,
    output: &Output,
    stop: &CancellationToken,
) -> Result<(), Failed> {
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(command).current_dir(folder).stdin(Stdio::null()).process_group(0).kill_on_drop(true);
    if let Ok(program) = std::env::current_exe() {
        shell.env("PATH", path_with(program.parent())).env("TOOLYARD", program);
    }
    match output {
        Output::Terminal => {
            tell!("$ {command}");
            let ours = || std::io::stderr().as_fd().try_clone_to_owned().map_err(Failed::NotStarted);
            shell.stdout(ours()?).stderr(ours()?);
        }
        Output::Lines(lines) => {
            // The receiver is dropped only when the whole build ends.
            drop(lines.send(Said::Command(command.to_owned())).await);
            shell.stdout(Stdio::piped()).stderr(Stdio::piped());
        }
    }
    let mut child = shell.spawn().map_err(Failed::NotStarted)?;
    let group = Group(child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw));
    let (out, err) = (child.stdout.take(), child.stderr.take());
    let telling = async {
        if let Output::Lines(lines) = output {
            tokio::join!(pass_on(out, lines), pass_on(err, lines));
        }
    };
    let waiting = async {
        let ended = tokio::select! {
            biased;
            ended = child.wait() => ended.map_err(Failed::NotStarted),
            () = stop.cancelled() => {
                group.signal(Signal::TERM);
                drop(tokio::time::timeout(END_TIME, child.wait()).await);
                Err(Failed::Stopped)
            }
        };
        // A process that the command left running would hold its pipes, and outlive this program.
        drop(group);
        ended
    };
    let (ended, ()) = tokio::join!(waiting, telling);
    match ended? {
        status if status.success() => Ok(()),
        status => Err(Failed::Status(status)),
    }
}

/// A process group that is killed when this value is dropped.
struct Group(Option<Pid>);

impl Group {
    fn signal(&self, signal: Signal) {
        if let Some(group) = self.0 {
            // All of its processes may have ended.
            let _ = kill_process_group(group, signal);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}

/// Forwards the output of a command line by line.
async fn pass_on(from: Option<impl AsyncRead + Unpin>, lines: &mpsc::Sender<Said>) {
    let Some(from) = from else { return };
    let mut from = BufReader::new(from);
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = (&mut from).take(MAX_LINE_BYTES).read_until(b'\n', &mut line).await;
        if !line.is_empty() {
            drop(lines.send(said(&line)).await);
        }
        if !matches!(read, Ok(1..)) {
            return;
        }
    }
}

fn said(line: &[u8]) -> Said {
    Said::Line(String::from_utf8_lossy(line).trim_end_matches(['\r', '\n']).to_owned())
}

/// The search path with this folder in front.
fn path_with(folder: Option<&Path>) -> OsString {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = folder.map(Path::to_path_buf).into_iter().chain(std::env::split_paths(&path));
    std::env::join_paths(folders).unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn said_by(command: &str) -> (Result<(), Failed>, Vec<Said>) {
        let (sender, mut receiver) = mpsc::channel(64);
        let stop = CancellationToken::new();
        let output = Output::Lines(sender);
        let running = async {
            let ended = run(command, Path::new("/"), &output, &stop).await;
            drop(output);
            ended
        };
        let reading = async {
            let mut all = Vec::new();
            while let Some(said) = receiver.recv().await {
                all.push(said);
            }
            all
        };
        tokio::join!(running, reading)
    }

    #[tokio::test]
    async fn output_comes_line_by_line_and_the_status_counts() {
        let (ended, said) = said_by("echo one; printf two; exit 3").await;
        assert!(matches!(ended, Err(Failed::Status(status)) if status.code() == Some(3)));
        let lines = ["one", "two"].map(|line| Said::Line(line.to_owned()));
        assert_eq!(said[1..], lines);
        let (ended, said) = said_by("pwd; test -x \"$TOOLYARD\" && echo \"${PATH%%:*}\" >&2").await;
        assert!(ended.is_ok(), "the program itself is named, and found first: {said:?}");
    }

    #[tokio::test]
    async fn what_a_command_leaves_running_ends_with_it() {
        // It holds the pipe: if it continued, the lines would not end.
        let (ended, said) = said_by("sleep 1000 & echo $!").await;
        assert!(ended.is_ok());
        let Said::Line(pid) = &said[1] else { panic!("{said:?}") };
        let pid = Pid::from_raw(pid.parse().expect("a process id"));
        let gone = || rustix::process::test_kill_process(pid.expect("not zero")).is_err() || is_zombie(pid);
        while !gone() {
            tokio::task::yield_now().await;
        }
    }

    /// Killed, but not yet reaped by the process that inherited it.
    fn is_zombie(pid: Option<Pid>) -> bool {
        let path = format!("/proc/{}/stat", pid.map_or(0, Pid::as_raw_pid));
        std::fs::read_to_string(path).is_ok_and(|stat| stat.contains(") Z "))
    }

    #[tokio::test]
    async fn a_command_that_is_stopped_ends_with_all_it_started() {
        let (sender, mut receiver) = mpsc::channel(64);
        let stop = CancellationToken::new();
        let output = Output::Lines(sender);
        let running =
            run("trap '' TERM; echo ready; while :; do sleep 1000; done", Path::new("/"), &output, &stop);
        let reading = async {
            while receiver.recv().await != Some(Said::Line("ready".to_owned())) {}
            stop.cancel();
        };
        let (ended, ()) = tokio::join!(running, reading);
        assert!(matches!(ended, Err(Failed::Stopped)), "though it does not want to");
    }
}
