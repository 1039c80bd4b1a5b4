//! A PostgreSQL server for tests: it has its own folder, socket and port, and ends with the process that
//! started it. The tests of the store compile this file too, so it needs only the standard library.

use std::fs;
use std::io::Write as _;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock, mpsc};
use std::time::{Duration, Instant};

/// A server answers within this time, even on a slow machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Whether acknowledged changes are flushed to the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flushing {
    /// The usual behaviour of a server.
    On,
    /// No flushing, for tests that do not test the disk.
    Off,
}

/// A running server.
#[derive(Debug)]
pub struct Server {
    bin: PathBuf,
    folder: PathBuf,
    port: u16,
    child: Mutex<Option<Child>>,
}

/// The server that the tests of one process share; `None` if PostgreSQL is not installed.
///
/// # Panics
/// In CI, if it is not installed; anywhere, if it does not start.
pub fn shared() -> Option<&'static Server> {
    static SHARED: OnceLock<Option<Server>> = OnceLock::new();
    SHARED.get_or_init(|| Server::start(Flushing::Off)).as_ref()
}

impl Server {
    /// Starts a server; if PostgreSQL is not installed, prints so and returns `None`.
    ///
    /// # Panics
    /// In CI, if it is not installed; anywhere, if it does not start.
    pub fn start(flushing: Flushing) -> Option<Self> {
        let Some(bin) = programs() else {
            let missing = "PostgreSQL is not installed (tests/postgres/install.sh)";
            assert!(std::env::var_os("CI").is_none(), "{missing}");
            eprintln!("SKIPPED: {missing}");
            return None;
        };
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        remove_left();
        let folder = std::env::temp_dir().join(format!("toolyard-postgres-{}-{number}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        if is_root() {
            run(Command::new("chown").arg("nobody").arg(&folder));
        }
        let data = folder.join("data");
        let mut make = unprivileged(&bin.join("initdb"));
        make.args("--username=toolyard --auth=trust --encoding=UTF8 --locale=C --no-sync -D".split(' '));
        run(make.arg(&data));
        let free = TcpListener::bind(("127.0.0.1", 0)).and_then(|free| free.local_addr());
        let server = Self { bin, folder, port: free.expect("a port").port(), child: Mutex::new(None) };
        let fsync = if flushing == Flushing::Off { "off" } else { "on" };
        let settings = format!(
            "listen_addresses = '127.0.0.1'\nport = {}\nunix_socket_directories = '{}'\nmax_connections = 300\n\
             fsync = {fsync}\nlog_min_messages = warning\nshared_buffers = 64MB\n",
            server.port,
            server.folder.display()
        );
        let configured = data.join("postgresql.conf");
        let text = fs::read_to_string(&configured).expect("initdb wrote it") + &settings;
        fs::write(&configured, text).expect("it can be written");
        server.begin();
        Some(server)
    }

    /// Starts it again after [`Server::kill`].
    ///
    /// # Panics
    /// If it does not start.
    pub fn begin(&self) {
        self.until("no server", || {
            // A server that starts while processes of the former one are still ending gives up.
            let mut child = self.child.lock().expect("no panic");
            let is_over = |child: &mut Child| child.try_wait().expect("it can be asked").is_some();
            if child.as_mut().is_none_or(is_over) {
                *child = Some(spawn_for_good(self.command()));
            }
            drop(child);
            self.answers()
        });
    }

    /// Waits until it is so; `otherwise` is what is wrong if it never is.
    fn until(&self, otherwise: &str, is_so: impl Fn() -> bool) {
        let began = Instant::now();
        while !is_so() {
            assert!(began.elapsed() < PATIENCE, "{otherwise}: {}", self.said());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn command(&self) -> Command {
        let mut command = unprivileged(&self.bin.join("postgres"));
        let log = fs::OpenOptions::new().create(true).append(true).open(self.log()).expect("a log");
        let errors = log.try_clone().expect("a handle");
        command.arg("-D").arg(self.folder.join("data")).stdin(Stdio::null()).stdout(log).stderr(errors);
        command
    }

    /// Ends the server as a crash does: it writes nothing more, and tells no client.
    ///
    /// # Panics
    /// If it does not run.
    pub fn kill(&self) {
        let mut child = self.child.lock().expect("no panic").take().expect("it runs");
        // All at once: otherwise a process that serves a client would finish its work, and answer, before it
        // noticed that its parent is gone.
        let mut all = Command::new("kill");
        all.arg("-9").arg(child.id().to_string()).args(children(child.id()));
        // `kill` reports processes that have ended meanwhile.
        all.stderr(Stdio::null()).status().expect("it starts");
        child.wait().expect("it has ended");
        self.until("it goes on", || !self.answers());
        drop(fs::remove_file(self.folder.join("data/postmaster.pid")));
    }

    /// The process id of the server.
    ///
    /// # Panics
    /// If it does not run.
    pub fn pid(&self) -> u32 {
        self.child.lock().expect("no panic").as_ref().expect("it runs").id()
    }

    /// The port that it listens on.
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// The URL of its database.
    pub fn address(&self) -> String {
        self.address_at(self.port)
    }

    /// The same through another port.
    pub fn address_at(&self, port: u16) -> String {
        format!("postgres://toolyard@127.0.0.1:{port}/postgres?sslmode=disable")
    }

    /// The name of a schema that no other test uses.
    pub fn schema(&self) -> String {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        format!("t{}_{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed))
    }

    /// Enables TLS besides plain connections, with this certificate and its key, as PEM.
    ///
    /// # Panics
    /// If the server does not accept them.
    pub fn encrypt(&self, certificate: &str, key: &str) {
        for (name, text) in [("server.crt", certificate), ("server.key", key)] {
            let path = self.folder.join("data").join(name);
            fs::write(&path, text).expect("it can be written");
            run(Command::new("chmod").arg("600").arg(&path));
            if is_root() {
                run(Command::new("chown").arg("nobody").arg(&path));
            }
        }
        self.ask("ALTER SYSTEM SET ssl = on");
        self.ask("SELECT pg_reload_conf()");
        self.until("it does not encrypt", || self.ask("SHOW ssl").trim() == "on");
    }

    /// The answer of its database to a statement: a line for each row, values between bars.
    ///
    /// # Panics
    /// If it does not answer.
    pub fn ask(&self, sql: &str) -> String {
        self.ask_as("toolyard", &[sql])
    }

    /// Runs statements, such as those of a dump.
    ///
    /// # Panics
    /// If one of them is refused.
    pub fn run(&self, statements: &str) {
        let mut command = Command::new(self.bin.join("psql"));
        command.args(["--no-psqlrc", "--quiet", "--set", "ON_ERROR_STOP=1", &self.address()]);
        let command = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("psql starts");
        let mut input = child.stdin.take().expect("is piped");
        // psql reads no further than the statement that is refused.
        drop(input.write_all(statements.as_bytes()));
        drop(input);
        let output = child.wait_with_output().expect("psql ends");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    /// The URL of its database for another role.
    pub fn address_of(&self, role: &str) -> String {
        self.address().replace("//toolyard@", &format!("//{role}@"))
    }

    /// Runs these statements as a role, one after the other, over one connection, for as long as the returned
    /// value lives.
    ///
    /// # Panics
    /// If psql does not start.
    pub fn begin_as(&self, role: &str, statements: &[&str]) -> Beside {
        let mut ask = Command::new(self.bin.join("psql"));
        ask.args(["--no-psqlrc", "--tuples-only", "--no-align"]);
        ask.args(statements.iter().flat_map(|sql| ["--command", sql])).arg(self.address_of(role));
        let ask = ask.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Beside(Some(ask.spawn().expect("psql starts")))
    }

    /// The answers to these statements for a role, and the messages that arrive on its channels meanwhile.
    ///
    /// # Panics
    /// If one of them is refused.
    pub fn ask_as(&self, role: &str, statements: &[&str]) -> String {
        self.begin_as(role, statements).answer()
    }

    /// The text of its log.
    pub fn said(&self) -> String {
        fs::read_to_string(self.log()).unwrap_or_default()
    }

    fn log(&self) -> PathBuf {
        self.folder.join("log")
    }

    fn answers(&self) -> bool {
        let mut ask = Command::new(self.bin.join("pg_isready"));
        ask.args(["-q", "-h", "127.0.0.1", "-p", &self.port.to_string()]);
        ask.status().is_ok_and(|status| status.success())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.lock().expect("no panic").take() {
            drop(child.kill());
            drop(child.wait());
        }
        drop(fs::remove_dir_all(&self.folder));
    }
}

/// Statements that run in the background.
#[derive(Debug)]
pub struct Beside(Option<Child>);

impl Beside {
    /// Waits until they end, and returns their answers.
    ///
    /// # Panics
    /// If one of them is refused.
    pub fn answer(mut self) -> String {
        let output = self.0.take().expect("it is asked once").wait_with_output().expect("psql ends");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            drop(child.kill());
            drop(child.wait());
        }
    }
}

/// The folder with the programs of a server.
fn programs() -> Option<PathBuf> {
    let on_path = std::env::var_os("PATH").map(|path| std::env::split_paths(&path).collect::<Vec<_>>());
    let mut packaged: Vec<PathBuf> = fs::read_dir("/usr/lib/postgresql")
        .map(|all| all.flatten().map(|version| version.path().join("bin")).collect())
        .unwrap_or_default();
    packaged.sort();
    let complete =
        |folder: &PathBuf| ["initdb", "postgres", "pg_isready"].iter().all(|name| folder.join(name).exists());
    packaged.into_iter().rev().chain(on_path.unwrap_or_default()).find(complete)
}

/// PostgreSQL refuses to run as root, and must end with this process.
fn unprivileged(program: &Path) -> Command {
    if !Path::new("/usr/bin/setpriv").exists() && !Path::new("/bin/setpriv").exists() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    if is_root() {
        command.args(["--reuid=nobody", "--regid=nogroup", "--clear-groups"]);
    }
    command.args(["--pdeathsig", "QUIT"]).arg(program);
    command
}

/// Starts a server from a thread that never ends: the kernel sends the parent-death signal when the starting
/// thread ends. So the server lives as long as the process, whichever thread asks for it.
fn spawn_for_good(command: Command) -> Child {
    type Asked = (Command, mpsc::Sender<std::io::Result<Child>>);
    static STARTER: OnceLock<Mutex<mpsc::Sender<Asked>>> = OnceLock::new();
    let starter = STARTER.get_or_init(|| {
        let (ask, asked) = mpsc::channel::<Asked>();
        let forever = move || {
            for (mut command, tell) in asked {
                drop(tell.send(command.spawn()));
            }
        };
        std::thread::Builder::new().name("postgres".into()).spawn(forever).expect("a thread");
        Mutex::new(ask)
    });
    let (tell, told) = mpsc::channel();
    starter.lock().expect("no panic").send((command, tell)).expect("the thread lives");
    told.recv().expect("the thread lives").expect("it starts")
}

/// The child processes of this process.
fn children(parent: u32) -> Vec<String> {
    let all = fs::read_dir("/proc").into_iter().flatten().flatten();
    let named = all.filter_map(|entry| entry.file_name().into_string().ok());
    let of_it = |process: &String| {
        let stat = fs::read_to_string(Path::new("/proc").join(process).join("stat")).unwrap_or_default();
        // The state and the parent follow the name, which is in parentheses.
        let rest = stat.rsplit_once(") ").map(|(_, rest)| rest).unwrap_or_default();
        rest.split(' ').nth(1) == Some(&parent.to_string())
    };
    named.filter(of_it).collect()
}

fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output().map(|output| output.stdout);
    id.is_ok_and(|id| id.trim_ascii() == b"0")
}

fn run(command: &mut Command) {
    let output = command.current_dir(std::env::temp_dir()).output().expect("the command starts");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Removes folders of processes that ended without cleaning up.
fn remove_left() {
    let Ok(all) = fs::read_dir(std::env::temp_dir()) else { return };
    for folder in all.flatten() {
        let name = folder.file_name();
        let Some(rest) = name.to_str().and_then(|name| name.strip_prefix("toolyard-postgres-")) else {
            continue;
        };
        let pid = rest.split('-').next().unwrap_or_default();
        if !Path::new("/proc").join(pid).exists() {
            drop(fs::remove_dir_all(folder.path()));
        }
    }
}
