//! The measured servers, each in a separate process.

use anyhow::Context as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use toolyard_tests::guests;

/// How long a server may take to print its port; it may have to compile a hundred plugins first.
const START: Duration = Duration::from_secs(180);
/// How long it may take to end after the signal.
const END: Duration = Duration::from_secs(20);
/// `USER_HZ`, which is 100 in every Linux: the unit of `/proc/PID/stat`.
const TICKS_PER_SECOND: u64 = 100;

/// A measured server. Killed when dropped.
pub struct Server {
    child: Child,
    port: u16,
    log: PathBuf,
}

/// The processor time of a process so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cpu {
    /// Its own, in user mode and in the kernel.
    pub own: Duration,
    /// The time of ended child processes.
    pub children: Duration,
}

impl Server {
    /// Starts `toolyard serve` with the folders `plugins` and `data` in `folder`.
    pub async fn toolyard(folder: &Path) -> anyhow::Result<Self> {
        Self::toolyard_with(folder, &[]).await
    }

    /// The same with these settings, each as `KEY=VALUE`.
    pub async fn toolyard_with(folder: &Path, settings: &[&str]) -> anyhow::Result<Self> {
        Self::start_optimized(Command::new(guests::binary()), settings, folder).await
    }

    /// The same with the binary of another build.
    pub async fn toolyard_of(binary: &Path, folder: &Path) -> anyhow::Result<Self> {
        Self::start_optimized(Command::new(std::path::absolute(binary)?), &[], folder).await
    }

    /// The same under valgrind, which logs the number of instructions. Uses few slots: valgrind cannot
    /// reserve the address space of a thousand.
    pub async fn toolyard_counted(binary: &Path, folder: &Path) -> anyhow::Result<Self> {
        let mut command = Command::new("valgrind");
        // Otherwise the functions that copy bytes would depend on the processor, and each byte would count.
        command.env("GLIBC_TUNABLES", "glibc.cpu.hwcaps=-ERMS,-FSRM");
        command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
        // The process that compiles plugins must see the processor that the host sees.
        command.arg("--trace-children=yes").arg(std::path::absolute(binary)?);
        Self::start_optimized(command, &["calls.running=20"], folder).await
    }

    /// Starts `command` as a host, after its components are optimised: it would begin with code that was compiled
    /// quickly.
    async fn start_optimized(command: Command, settings: &[&str], folder: &Path) -> anyhow::Result<Self> {
        let again = |arguments: &[&str]| {
            let mut again = Command::new(command.get_program());
            again.args(command.get_args()).args(arguments).args(["--plugins", "plugins", "--data", "data"]);
            again.args(settings.iter().flat_map(|setting| ["--set", setting]));
            again.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
            again
        };
        std::fs::create_dir_all(folder)?;
        let compiled = again(&["tools"]).current_dir(folder).output()?;
        anyhow::ensure!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
        Self::start(again(&["serve", "--listen", "127.0.0.1:0"]), folder).await
    }

    /// Starts the comparison server.
    pub async fn baseline(folder: &Path) -> anyhow::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("baseline");
        Self::start(command, folder).await
    }

    /// Starts a server that prints `serves http://127.0.0.1:PORT/mcp`.
    pub async fn start(mut command: Command, folder: &Path) -> anyhow::Result<Self> {
        std::fs::create_dir_all(folder)?;
        // A file, not a pipe: this process would otherwise spend time that belongs to the load on reading
        // logs.
        let log = folder.join("log");
        command.current_dir(folder).stdin(Stdio::piped()).stdout(Stdio::null());
        command.stderr(std::fs::File::create(&log)?);
        let child = command.spawn().with_context(|| format!("{command:?} does not start"))?;
        let mut server = Self { child, port: 0, log };
        let until = Instant::now() + START;
        loop {
            let text = server.log()?;
            if let Some(port) = port(&text) {
                server.port = port;
                return Ok(server);
            }
            let ended = server.child.try_wait()?;
            anyhow::ensure!(ended.is_none() && Instant::now() < until, "a server did not start:\n{text}");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// The port of the server.
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// The last lines of its log, for error messages.
    pub fn last_words(&self) -> String {
        let text = self.log().unwrap_or_default();
        let lines: Vec<&str> = text.lines().rev().take(5).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join("\n")
    }

    /// The processor time of the server so far.
    pub fn cpu(&self) -> anyhow::Result<Cpu> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        // The name in parentheses may contain any character. Fields 14 to 17 are the 12th and following ones
        // after it.
        let fields = stat.rsplit_once(") ").map(|(_, rest)| rest).unwrap_or_default();
        let mut ticks = fields.split(' ').skip(11).map_while(|field| field.parse::<u64>().ok());
        let mut next = || {
            let ticks = ticks.next().context("/proc/PID/stat has times")?;
            anyhow::Ok(Duration::from_millis(ticks * 1_000 / TICKS_PER_SECOND))
        };
        Ok(Cpu { own: next()? + next()?, children: next()? + next()? })
    }

    /// The resident memory of the server in KiB.
    pub fn resident_kib(&self) -> anyhow::Result<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let figure = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
        figure.context("/proc/PID/status has VmRSS")
    }

    /// Sends the stop signal, and waits for the end.
    pub async fn stop(mut self) -> anyhow::Result<()> {
        let id = i32::try_from(self.child.id()).ok().and_then(rustix::process::Pid::from_raw);
        let id = id.context("a process has an id")?;
        rustix::process::kill_process(id, rustix::process::Signal::TERM)?;
        let until = Instant::now() + END;
        while self.child.try_wait()?.is_none() {
            anyhow::ensure!(Instant::now() < until, "a server did not stop:\n{}", self.last_words());
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        Ok(())
    }

    fn log(&self) -> anyhow::Result<String> {
        Ok(String::from_utf8_lossy(&std::fs::read(&self.log)?).into_owned())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn port(log: &str) -> Option<u16> {
    let (_, rest) = log.split_once(" serves http://127.0.0.1:")?;
    rest.split_once("/mcp")?.0.parse().ok()
}

/// Makes the folder of a server with these components as plugins.
pub fn folder(work: &Path, name: &str, components: &[PathBuf]) -> anyhow::Result<PathBuf> {
    let folder = work.join(name);
    let plugins = folder.join("plugins");
    std::fs::create_dir_all(&plugins)?;
    for component in components {
        let name = component.file_name().context("a component has a name")?;
        std::fs::copy(component, plugins.join(name))?;
    }
    Ok(folder)
}
