//! `examples/cluster`: one command starts the hosts, the database and the proxy.

use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::{Value, json};
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::process::{Child, Command};
use toolyard_tests::guests::{self, root};
use toolyard_tests::host::install;
use toolyard_tests::stateless::Client;
use toolyard_tests::{Session, eventually, process, until};

/// Time for compiling the tools and for the database's first start.
const PATIENCE: Duration = Duration::from_secs(120);

/// The folder and ports of the example, for any number of starts.
struct Place {
    folder: TempDir,
    /// The ports of the three hosts, and of the proxy.
    ports: [u16; 4],
}

/// The example while it runs. Its processes end with it.
struct Running<'a> {
    place: &'a Place,
    child: Child,
    /// The instructions that the example prints.
    said: String,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        // If the test runs as root, PostgreSQL runs as another user, who must be able to reach its folder in
        // here.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o711)).expect("it is ours");
        let plugins = folder.path().join("plugins");
        fs::create_dir(&plugins).expect("a plugin folder");
        install(&guests::plugin("probe"), &plugins);
        // All ports are bound at the same time, so that they differ.
        let held = [(); 4].map(|()| TcpListener::bind(("127.0.0.1", 0)).expect("a port"));
        let ports = held.map(|port| port.local_addr().expect("an address").port());
        Self { folder, ports }
    }

    const fn proxy(&self) -> u16 {
        self.ports[3]
    }

    fn command(&self) -> Command {
        let [a, b, c, proxy] = self.ports;
        let mut command = Command::new(root().join("examples/cluster/run.sh"));
        let folder = self.folder.path();
        command.env("CLUSTER_DATA", folder.join("data")).env("TOOLYARD_PLUGINS", folder.join("plugins"));
        command.env("CLUSTER_PORT", proxy.to_string()).env("CLUSTER_HOST_PORTS", format!("{a} {b} {c}"));
        command.env("TOOLYARD_BIN", guests::binary()).kill_on_drop(true);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Starts the example and waits until it reports that all is ready. Returns `None` if a tool that it
    /// needs is not installed, which is an error in CI.
    async fn start(&self) -> Option<Running<'_>> {
        let mut child = self.command().spawn().expect("it starts");
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let mut errors = child.stderr.take().expect("piped");
        let mut said = String::new();
        let ready = async {
            while let Some(line) = lines.next_line().await.expect("text") {
                said += &format!("{line}\n");
                if line.starts_with("Ctrl-C") {
                    return true;
                }
            }
            false
        };
        if tokio::time::timeout(PATIENCE, ready).await.expect("it gets ready in time") {
            // The example prints more later, so the pipe must stay open.
            tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
            return Some(Running { place: self, child, said });
        }
        let mut why = String::new();
        errors.read_to_string(&mut why).await.expect("text");
        let missing = why.contains("apt-get install");
        assert!(missing && std::env::var_os("CI").is_none(), "examples/cluster/run.sh did not start:\n{why}");
        crate::say(&format!("SKIPPED: {why}"));
        None
    }

    /// The processes that the example has started and that still live.
    fn processes(&self) -> Vec<String> {
        let all = fs::read_dir("/proc").into_iter().flatten().flatten();
        let ours = |process: &Path| {
            let folder = self.folder.path();
            let line = fs::read(process.join("cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            let there = fs::read_link(process.join("cwd")).is_ok_and(|cwd| cwd.starts_with(folder));
            (there || line.contains(&*folder.to_string_lossy())).then_some(line)
        };
        all.filter_map(|process| ours(&process.path())).collect()
    }
}

impl Running<'_> {
    /// The process of this name, such as `host-1`.
    fn pid(&self, name: &str) -> Option<Pid> {
        let file = self.place.folder.path().join(format!("data/{name}.pid"));
        Pid::from_raw(fs::read_to_string(file).ok()?.trim().parse().ok()?)
    }

    /// Kills a process, and waits until it is gone.
    async fn kill(&self, name: &str) -> Pid {
        let pid = self.pid(name).expect("it runs");
        kill_process(pid, Signal::KILL).expect("it runs");
        until("its end", || async { test_kill_process(pid).is_err() }).await;
        pid
    }

    /// Stops the whole example as Ctrl-C does.
    async fn stop(mut self) {
        process::signal(&self.child, interrupt());
        assert_eq!(process::ended(&mut self.child).await.code(), Some(0));
        assert_eq!(self.place.processes(), Vec::<String>::new());
        for port in self.place.ports {
            drop(TcpListener::bind(("127.0.0.1", port)).expect("the port is free again"));
        }
    }

    /// Runs the printed instructions and returns their output.
    async fn tried(&self) -> String {
        let lines = self.said.lines().skip_while(|line| !line.starts_with("Try")).skip(1);
        // The kill would also cut off the next request of a session on that host, so the script only prints
        // it.
        let lines: Vec<&str> = lines.take_while(|line| line.starts_with("  ")).collect();
        let script = lines.join("\n").replace("kill -9", "echo kill -9");
        assert!(script.contains("echo kill -9 \""), "{}", self.said);
        let output = Command::new("bash").args(["-euc", &script]).output().await.expect("bash runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text")
    }
}

/// The signal that Ctrl-C sends. Shells make background processes ignore it, and no script can change that;
/// in that case, another signal that the script treats alike.
fn interrupt() -> Signal {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|digits| u64::from_str_radix(digits.trim(), 16).ok()).unwrap_or_default();
    match ignored & 1 << (Signal::INT.as_raw() - 1) {
        0 => Signal::INT,
        _ => Signal::TERM,
    }
}

/// One command starts the cluster, a host may die, and after Ctrl-C only the data is left.
#[tokio::test]
#[ignore = "nightly: packages"]
async fn a_cluster_starts_by_one_command_survives_a_host_and_ends_without_a_trace() {
    let place = Place::new();
    let Some(running) = place.start().await else { return };
    let session = Session::open(place.proxy()).await;
    let at = |host: usize| session.at(place.ports[host - 1]);
    let done = session.complete("wait", json!({"ms": 1})).await;
    let (on_1, on_3) = (
        at(1).create("spin", json!({"ms": 600_000})).await,
        at(3).create("spin", json!({"ms": 600_000})).await,
    );
    let stateless = Client::with_tasks(place.proxy());
    let batch = stateless.create("batch", json!({"steps": 1, "ms": 1})).await;

    let killed = running.kill("host-1").await;
    // The proxy sends self-contained requests to all hosts in turn, and those of a session to the host of
    // that session.
    for _ in 0..8 {
        assert_eq!(session.task(&done).await["status"], "completed");
        assert_eq!(session.task(&on_3).await["status"], "working");
        let seen: Value = stateless.task(&batch).await;
        assert!(["working", "completed", "failed"].iter().any(|status| seen["status"] == *status), "{seen}");
    }
    let failed = session.until(&on_1, "failed").await;
    assert!(
        failed["statusMessage"].as_str().is_some_and(|why| why.contains("may have had effects")),
        "{failed}"
    );
    session.complete("wait", json!({"ms": 1})).await;
    stateless.complete("batch", json!({"steps": 1, "ms": 1})).await;

    // The killed host comes back.
    eventually("another process", || async { running.pid("host-1").filter(|pid| *pid != killed) }).await;
    assert_eq!(at(1).task(&on_3).await["status"], "working");

    let tried = running.tried().await;
    assert!(tried.contains("127.0.0.1:") && tried.matches("\"status\":\"working\"").count() >= 2, "{tried}");
    // Otherwise the shutdown would wait for this task.
    session.result("tasks/cancel", json!({"taskId": on_3})).await;
    running.stop().await;

    let running = place.start().await.expect("as before");
    assert_eq!(session.task(&done).await["status"], "completed");
    assert_eq!(session.task(&on_3).await["status"], "cancelled");
    running.stop().await;
}

/// The script reports a missing requirement before it starts anything.
#[tokio::test]
async fn a_cluster_that_cannot_start_says_why_and_leaves_nothing() {
    let place = Place::new();
    let nowhere = place.folder.path().join("nowhere");
    let mut command = place.command();
    command.env("TOOLYARD_PLUGINS", &nowhere).env("TOOLYARD_BIN", nowhere.join("toolyard"));
    let output = command.output().await.expect("bash runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("nowhere/toolyard: make build") && said.contains("nowhere with tools"), "{said}");
    assert!(!place.folder.path().join("data").exists());
    assert_eq!(place.processes(), Vec::<String>::new());
}
