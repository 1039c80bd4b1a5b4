//! A real host process in its own folder.

use crate::compiled::Compiled;
use crate::http::{Answer, Connection};
use crate::stateless::Client;
use crate::tokens::{stanza, token};
use crate::{LATEST, Session, guests, process};
use hyper::Method;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Output, Stdio};
use std::sync::{Arc, Mutex};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

/// A `toolyard serve` on a free port. Killed when dropped.
pub struct Host {
    /// Declared before the folder, because its drop needs the folder.
    _compiled: Compiled,
    folder: Arc<TempDir>,
    args: Vec<String>,
    variables: Vec<(String, String)>,
    child: Child,
    port: u16,
    log: Arc<Mutex<String>>,
}

/// The setup of a host.
pub struct Setup {
    folder: TempDir,
    args: Vec<String>,
    variables: Vec<(String, String)>,
    fail_point: Option<String>,
}

impl Setup {
    /// A folder with an empty plugin folder in it.
    ///
    /// # Panics
    /// If the folder cannot be made.
    #[must_use]
    pub fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        std::fs::create_dir(folder.path().join("plugins")).expect("a plugin folder");
        Self { folder, args: Vec::new(), variables: Vec::new(), fail_point: None }
    }

    /// The same with the `probe` plugin in it.
    #[must_use]
    pub fn probe() -> Self {
        Self::new().with(&[guests::plugin("probe")])
    }

    /// The same with a fixture guest and this manifest in it.
    #[must_use]
    pub fn fixture(name: &str, manifest: &str) -> Self {
        Self::new().with(&[guests::fixture(name)]).manifest(name, manifest)
    }

    /// The plugin folder.
    pub fn plugins(&self) -> PathBuf {
        self.folder.path().join("plugins")
    }

    /// The folder around the plugin folder, in which the host runs.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Puts components into the plugin folder, under their own names.
    #[must_use]
    pub fn with(self, components: &[PathBuf]) -> Self {
        for component in components {
            install(component, &self.plugins());
        }
        self
    }

    /// Puts a manifest beside a component.
    ///
    /// # Panics
    /// If it cannot be written.
    #[must_use]
    pub fn manifest(self, name: &str, text: &str) -> Self {
        std::fs::write(self.plugins().join(format!("{name}.toml")), text).expect("a manifest");
        self
    }

    /// Writes the configuration file.
    ///
    /// # Panics
    /// If it cannot be written.
    #[must_use]
    pub fn config(self, text: &str) -> Self {
        std::fs::write(self.folder.path().join("toolyard.toml"), text).expect("a configuration");
        self
    }

    /// Configures a token without scopes for each of these principals.
    #[must_use]
    pub fn principals(self, names: &[&str]) -> Self {
        self.config(&names.iter().map(|name| stanza(name, &[])).collect::<String>())
    }

    /// Sets a setting of the host.
    #[must_use]
    pub fn set(mut self, key: &str, value: &str) -> Self {
        self.args.extend(["--set".to_owned(), format!("{key}={value}")]);
        self
    }

    /// Removes the rate limits.
    #[must_use]
    pub fn without_rates(self) -> Self {
        let rates = ["requests", "calls", "creation", "polling", "failed-lookups", "sessions"];
        rates.iter().fold(self, |setup, rate| setup.set(&format!("rates.{rate}"), "none"))
    }

    /// Adds command-line arguments.
    #[must_use]
    pub fn args(mut self, args: &[&str]) -> Self {
        self.args.extend(args.iter().map(|arg| (*arg).to_owned()));
        self
    }

    /// Sets an environment variable of the host.
    #[must_use]
    pub fn variable(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Makes the host stop itself at this fail point, such as `finish.committed`. Other hosts on its folders
    /// have no fail point.
    #[must_use]
    pub fn fail_at(mut self, fail_point: &str) -> Self {
        self.fail_point = Some(fail_point.to_owned());
        self
    }

    /// Starts the host and waits until it serves.
    pub async fn start(self) -> Host {
        Host::start(Arc::new(self.folder), self.args, self.variables, self.fail_point).await
    }

    /// Starts the host and opens a session.
    pub async fn open(self) -> (Host, Session) {
        self.open_as(json!({})).await
    }

    /// Starts the host and opens a session of a client with these capabilities.
    pub async fn open_as(self, capabilities: Value) -> (Host, Session) {
        let host = self.start().await;
        let session = host.open_as(capabilities).await;
        (host, session)
    }

    /// Starts the host, for a client without sessions that supports tasks.
    pub async fn serve_client(self) -> (Host, Client) {
        let host = self.start().await;
        let client = Client::with_tasks(host.port());
        (host, client)
    }

    /// The folder and the arguments, for a process that a test starts itself.
    pub fn into_parts(self) -> (TempDir, Vec<String>) {
        (self.folder, self.args)
    }
}

impl Default for Setup {
    fn default() -> Self {
        Self::new()
    }
}

/// Puts a component into a folder by rename, as a careful installer would.
///
/// # Panics
/// If it cannot be copied.
pub fn install(component: &Path, folder: &Path) {
    let name = component.file_name().expect("a component has a name");
    install_as(component, folder, name.to_str().expect("names are plain"));
}

/// Puts a component with these bytes into a plugin folder, under this name.
///
/// # Panics
/// If it cannot be written.
pub fn install_bytes(folder: PathBuf, name: &str, bytes: &[u8]) {
    let partial = folder.join(format!(".{name}.partial"));
    std::fs::write(&partial, bytes).expect("a write");
    std::fs::rename(partial, folder.join(name)).expect("a rename");
}

/// As [`install`], under another name.
///
/// # Panics
/// If it cannot be copied.
pub fn install_as(component: &Path, folder: &Path, name: &str) {
    let partial = folder.join(format!(".{name}.partial"));
    std::fs::copy(component, &partial).expect("a copy");
    std::fs::rename(partial, folder.join(name)).expect("a rename");
}

/// Sets the mode of a file or folder.
///
/// # Panics
/// If it cannot be set.
pub fn set_mode(path: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("sets");
}

/// Writes a file that only this user can read, such as one with keys.
///
/// # Panics
/// If it cannot be written.
pub fn write_private(path: &Path, text: &str) {
    std::fs::write(path, text).expect("writes");
    set_mode(path, 0o600);
}

/// A command of the binary on the plugin and data folders in `folder`.
pub fn command(name: &str, folder: &Path, args: &[impl AsRef<str>]) -> Command {
    command_of(&guests::binary(), name, folder, args)
}

/// Runs this command.
///
/// # Panics
/// If it cannot be run.
pub async fn run(name: &str, folder: &Path, args: &[impl AsRef<str>]) -> Output {
    command(name, folder, args).output().await.expect("it runs")
}

fn command_of(program: &Path, name: &str, folder: &Path, args: &[impl AsRef<str>]) -> Command {
    let mut command = Command::new(program);
    command.arg(name).arg("--plugins").arg(folder.join("plugins")).arg("--data").arg(folder.join("data"));
    command.args(args.iter().map(AsRef::as_ref)).current_dir(folder).kill_on_drop(true);
    if !has_bridge(args) {
        command.env("TOOLYARD_BRIDGE_ENABLED", "false");
    }
    command
}

/// Whether a host has the bridge: only if the test sets one of its settings. Without the bridge, clients that
/// declare no tasks can stand for those that do, and lists contain no tools of the host.
pub fn has_bridge(args: &[impl AsRef<str>]) -> bool {
    args.iter().any(|arg| arg.as_ref().starts_with("bridge."))
}

impl Host {
    /// A host with these components.
    pub async fn with(components: &[PathBuf]) -> Self {
        Setup::new().with(components).start().await
    }

    /// A host with the `probe` plugin.
    pub async fn with_probe() -> Self {
        Setup::probe().start().await
    }

    async fn start(
        folder: Arc<TempDir>,
        args: Vec<String>,
        variables: Vec<(String, String)>,
        fail_point: Option<String>,
    ) -> Self {
        let program = match fail_point {
            Some(_) => guests::binary_with_fail_points(),
            None => guests::binary(),
        };
        let compiled = Compiled::given_to(&folder.path().join("data"));
        let mut child = command_of(&program, "serve", folder.path(), &args)
            // A busy machine may compile for longer than the usual start wait, and tests call at once.
            .env("TOOLYARD_PLUGINS_START_WAIT", "60s")
            .envs(variables.iter().cloned())
            .envs(fail_point.map(|name| ("TOOLYARD_FAILPOINT", name)))
            .args(["--listen", "127.0.0.1:0"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the host starts");
        let stderr = child.stderr.take().expect("stderr is piped");
        let log = Arc::new(Mutex::new(String::new()));
        let mut lines = BufReader::new(stderr).lines();
        let mut port = None;
        while port.is_none() {
            let line = lines.next_line().await.expect("stderr is text");
            let Some(line) = line else { panic!("the host did not start:\n{}", log.lock().expect("log")) };
            port = line
                .split_once("http://127.0.0.1:")
                .and_then(|(_, rest)| rest.split_once("/mcp").and_then(|(port, _)| port.parse::<u16>().ok()));
            push(&log, &line);
        }
        let follow = log.clone();
        tokio::spawn(async move {
            while let Ok(Some(line)) = lines.next_line().await {
                push(&follow, &line);
            }
        });
        Self { _compiled: compiled, folder, args, variables, child, port: port.expect("found above"), log }
    }

    /// Opens a session of a client with these capabilities.
    pub async fn open_as(&self, capabilities: Value) -> Session {
        Session::open_as(self.port, LATEST, capabilities).await.session
    }

    /// Opens a session of the principal of this name.
    pub async fn session_of(&self, name: &str) -> Session {
        self.session_as(name, json!({})).await
    }

    /// Opens a session of the principal of this name, of a client with these capabilities.
    pub async fn session_as(&self, name: &str, capabilities: Value) -> Session {
        Session::open_by(self.port, LATEST, capabilities, Some(&token(name))).await.session
    }

    /// The port that it serves on.
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// Its plugin folder.
    pub fn plugins(&self) -> PathBuf {
        self.folder.path().join("plugins")
    }

    /// The working folder of the host.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Its data folder.
    pub fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// Its stderr output so far.
    ///
    /// # Panics
    /// If the reader of stderr has panicked.
    pub fn log(&self) -> String {
        self.log.lock().expect("log").clone()
    }

    /// Sends a request on a new connection, as [`Connection::send`].
    pub async fn send(&self, method: Method, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        Connection::open(self.port).await.send(method, path, headers, body.to_owned()).await
    }

    /// Waits until its log has this text.
    pub async fn logs(&self, text: &str) {
        crate::until(&format!("the log to say {text}"), || async { self.log().contains(text) }).await;
    }

    /// Its process id.
    ///
    /// # Panics
    /// If it has ended.
    pub fn pid(&self) -> rustix::process::Pid {
        process::pid(&self.child)
    }

    /// Sends it a signal.
    ///
    /// # Panics
    /// If it has ended.
    pub fn signal(&self, signal: rustix::process::Signal) {
        process::signal(&self.child, signal);
    }

    /// Stops it, and waits until each of its threads has stopped: the other threads continue until one of
    /// them has taken the signal.
    ///
    /// # Panics
    /// If it has ended, or does not stop.
    pub async fn stop(&self) {
        self.signal(rustix::process::Signal::STOP);
        let threads = format!("/proc/{}/task", self.pid().as_raw_nonzero());
        crate::until("every thread to be stopped", || async {
            let threads = std::fs::read_dir(&threads).expect("it runs").flatten();
            // The state follows the name, which is in parentheses.
            let state = |stat: String| stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
            let mut states = threads.filter_map(|one| std::fs::read_to_string(one.path().join("stat")).ok());
            states.all(|stat| state(stat) == Some('T'))
        })
        .await;
    }

    /// Waits until it has ended.
    ///
    /// # Panics
    /// If that takes longer than [`crate::wait::PATIENCE`].
    pub async fn ended(&mut self) -> ExitStatus {
        process::ended(&mut self.child).await
    }

    /// Waits until it was killed, as a fail point does.
    ///
    /// # Panics
    /// If it ends in another way, or not in time.
    pub async fn was_killed(&mut self) {
        use std::os::unix::process::ExitStatusExt as _;
        let status = self.ended().await;
        let kill = rustix::process::Signal::KILL.as_raw();
        assert_eq!(status.signal(), Some(kill), "{status}:\n{}", self.log());
    }

    /// Kills it as `kill -9` does.
    ///
    /// # Panics
    /// If it cannot be killed.
    pub async fn kill(&mut self) {
        self.child.kill().await.expect("the host can be killed");
    }

    /// A host on the folders of another process, running or not.
    pub async fn on(folder: Arc<TempDir>, args: Vec<String>) -> Self {
        Self::start(folder, args, Vec::new(), None).await
    }

    /// Starts another host on the same folders, whether this one runs or not.
    pub async fn another(&self) -> Self {
        Self::start(self.folder.clone(), self.args.clone(), self.variables.clone(), None).await
    }

    /// Kills it, and starts another host on the same folders.
    pub async fn killed_and_restarted(mut self) -> Self {
        self.kill().await;
        self.another().await
    }

    /// As [`Host::another`], for a host that stops itself at this fail point.
    pub async fn another_to_fail_at(&self, fail_point: &str) -> Self {
        let fail_point = Some(fail_point.to_owned());
        Self::start(self.folder.clone(), self.args.clone(), self.variables.clone(), fail_point).await
    }

    /// As [`Host::another`], with further arguments, which take precedence.
    pub async fn another_with(&self, args: &[&str]) -> Self {
        let further = args.iter().map(|arg| (*arg).to_owned());
        let args = self.args.iter().cloned().chain(further).collect();
        Self::start(self.folder.clone(), args, self.variables.clone(), None).await
    }

    /// Runs a command of the same binary on the same folders.
    ///
    /// # Panics
    /// If it cannot be run.
    pub async fn command(&self, args: &[&str]) -> Output {
        let mut command = Command::new(guests::binary());
        command.args(args).arg("--plugins").arg(self.plugins()).arg("--data").arg(self.data());
        command.current_dir(self.folder.path()).output().await.expect("the command runs")
    }

    /// As [`Host::command`], for one that succeeds; returns its output.
    pub async fn prints(&self, args: &[&str]) -> String {
        succeeds(&self.command(args).await)
    }

    /// The lines of its output, which are JSON.
    ///
    /// # Panics
    /// If one is not.
    pub async fn lines(&self, args: &[&str]) -> Vec<Value> {
        let printed = self.prints(args).await;
        printed.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }

    /// As [`Host::command`], for one that ends with this code and an error that says this.
    pub async fn refuses(&self, args: &[&str], code: i32, says: &str) -> String {
        ends(&self.command(args).await, code, says)
    }
}

/// The output of a command that has succeeded.
///
/// # Panics
/// If it has not.
pub fn succeeds(done: &Output) -> String {
    let (out, err) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success(), "{}: {out}{err}", done.status);
    out.into_owned()
}

/// The errors of a command that has ended with this code; they say this.
///
/// # Panics
/// If it has ended otherwise, or they do not.
pub fn ends(done: &Output, code: i32, says: &str) -> String {
    let (out, err) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    let is_so = done.status.code() == Some(code) && err.contains(says);
    assert!(is_so, "{}, which is not {code}, or `{says}` is missing: {out}{err}", done.status);
    err.into_owned()
}

/// The most bytes of a log that are kept. A soak logs gigabytes.
const MAX_LOG_BYTES: usize = 64 << 20;

fn push(log: &Mutex<String>, line: &str) {
    let mut log = log.lock().expect("log");
    if log.len() > MAX_LOG_BYTES {
        let middle = log.floor_char_boundary(MAX_LOG_BYTES / 2);
        log.drain(..middle);
    }
    log.push_str(line);
    log.push('\n');
}
