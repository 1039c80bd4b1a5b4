//! Secrets that a command prints, such as the command line of a password manager. The configuration of the host names
//! the commands, a manifest only chooses one: who may write a manifest cannot run programs.

use rustix::process::{Pid, Signal, kill_process_group};
use std::io::Read as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// How long a command may run. It may ask a server, but no person.
const TIME: Duration = Duration::from_secs(30);
/// The most bytes of its standard error that are read, of which the first line is shown.
const MAX_ERROR_BYTES: u64 = 4 << 10;

/// Runs a command and returns what it prints, at most `most` bytes.
///
/// # Errors
/// Why there is no value. The text never has what the command printed on standard output.
pub(super) fn run(command: &[String], most: u64) -> Result<Vec<u8>, String> {
    let [program, args @ ..] = command else { return Err("is empty".to_owned()) };
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // A group of its own, so that its children end with it, and so that Ctrl-C at the terminal does not reach it.
    let mut child =
        command.process_group(0).spawn().map_err(|error| format!("cannot be started: {error}"))?;
    let ended = outcome(&mut child, most);
    // Processes that it has left behind would hold the pipes open. An error means that there are none.
    if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        let _ = kill_process_group(group, Signal::KILL);
    }
    let _ = child.wait();
    let (status, printed, said) = ended?;
    if status.success() {
        return Ok(printed);
    }
    let said = String::from_utf8_lossy(&said);
    let line = said.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("it says nothing");
    Err(format!("failed with {status}: {}", line.chars().take(200).collect::<String>()))
}

type Printed = (ExitStatus, Vec<u8>, Vec<u8>);

fn outcome(child: &mut Child, most: u64) -> Result<Printed, String> {
    let until = Instant::now() + TIME;
    let late = || format!("has not ended within {} s", TIME.as_secs());
    let (Some(stdout), Some(stderr)) = (child.stdout.take(), child.stderr.take()) else {
        return Err("has no output".to_owned());
    };
    let printed = read(stdout.take(most + 1));
    let said = read(stderr.take(MAX_ERROR_BYTES));
    let rest = || until.saturating_duration_since(Instant::now());
    let printed = printed.recv_timeout(rest()).map_err(|_| late())?;
    if printed.len() as u64 > most {
        return Err(format!("prints more than {most} bytes"));
    }
    let said = said.recv_timeout(rest()).map_err(|_| late())?;
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Ok((status, printed, said)),
            Ok(None) if rest().is_zero() => return Err(late()),
            Ok(None) => std::thread::sleep(Duration::from_millis(5)),
            Err(error) => return Err(format!("cannot be waited for: {error}")),
        }
    }
}

/// Reads to the end in a thread of its own, which ends when the pipe is closed or the limit is reached.
fn read(mut from: impl std::io::Read + Send + 'static) -> mpsc::Receiver<Vec<u8>> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // Without a receiver, the command took too long.
        let _ = from.read_to_end(&mut bytes).is_ok() && sender.send(bytes).is_ok();
    });
    receiver
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Result<Vec<u8>, String> {
        run(&["sh", "-c", script].map(str::to_owned), 20)
    }

    #[test]
    fn a_command_gives_what_it_prints_and_says_why_it_failed() {
        assert_eq!(shell("printf 'a value\\n'").expect("a value"), b"a value\n");
        for (script, says) in [
            ("echo value; echo 'not logged in' >&2; exit 3", "failed with exit status: 3: not logged in"),
            ("exit 1", "it says nothing"),
            ("yes", "prints more than 20 bytes"),
        ] {
            let error = shell(script).expect_err(says);
            assert!(error.contains(says) && !error.contains("value"), "{error}");
        }
        let error = run(&["/nothing/here".to_owned()], 20).expect_err("no program");
        assert!(error.contains("cannot be started"), "{error}");
    }

    #[test]
    fn a_child_that_it_leaves_behind_is_ended() {
        let folder = tempfile::tempdir().expect("a folder");
        let number = folder.path().join("pid");
        let script = format!("sleep 1000 >/dev/null 2>&1 & echo $! > {}; echo value", number.display());
        assert_eq!(shell(&script).expect("a value"), b"value\n");
        let pid = std::fs::read_to_string(number).expect("a number").trim().parse().expect("a number");
        let until = Instant::now() + Duration::from_secs(20);
        while let Ok(state) = std::fs::read_to_string(format!("/proc/{pid}/stat")) {
            // A zombie, until its new parent looks.
            if state.contains(") Z") {
                break;
            }
            assert!(Instant::now() < until, "it still runs: {state}");
            std::thread::sleep(Duration::from_millis(20));
        }
        let _: i32 = pid;
    }
}
