//! How a relay connects to its background host, which it starts if none answers.

use crate::fingerprint::{Variables, host_name};
use crate::log::last_line;
use crate::runtime_dir::RuntimeDir;
use anyhow::{Context as _, bail};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use std::ffi::OsString;
use std::io;
use std::os::fd::{BorrowedFd, RawFd};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::process::{Child, Command};
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep, timeout_at};
use toolyard_transport::relay::{Background, Connection};

/// The exit code of a background host that finds another one already running. A relay that started it
/// connects to the other one.
pub const TAKEN: u8 = 75;

/// How long a background host may take to listen: it opens the store and the plugin folder first. Many clients give up
/// a request after a minute.
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a host that listens may take to answer: it is stopped, or the machine is very busy.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// The pause between attempts to connect to a host that is starting: the first and the longest.
const LOOK_AGAIN: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(250));

/// How to start a background host.
pub struct Launch {
    /// The program, which understands `background-host --name NAME --settings FINGERPRINT`.
    pub program: PathBuf,
    /// Further arguments. All users of the machine can see them, so they must not contain a secret.
    pub args: Vec<OsString>,
    /// Environment variables besides those of this process.
    pub environment: Vec<(String, OsString)>,
    /// The data folder.
    pub data: PathBuf,
    /// The fingerprint of the settings.
    pub settings: String,
    /// The variables that manifests name.
    pub variables: Variables,
}

/// The background host for one configuration, as a relay reaches it.
pub struct BackgroundHost {
    launch: Launch,
    name: String,
    /// The process that has answered; 0 before the first.
    answers: AtomicI32,
    /// Held by the one who starts it.
    starting: Mutex<()>,
}

impl BackgroundHost {
    /// The background host that `launch` starts. Nothing starts before the first connection.
    pub fn new(launch: Launch) -> Self {
        let name = host_name(&launch.settings, &launch.variables);
        Self { launch, name, answers: AtomicI32::new(0), starting: Mutex::default() }
    }

    async fn reach(&self) -> anyhow::Result<Connection> {
        let dir = RuntimeDir::new(&self.launch.data, &self.name);
        if let Ok(connection) = dir.connect().and_then(of_same_user)
            && connection.process == Some(self.answers.load(Ordering::Relaxed))
        {
            return Ok(connection);
        }
        let _starting = self.starting.lock().await;
        let until = Instant::now() + START_TIMEOUT;
        let mut pause = LOOK_AGAIN.0;
        let mut started: Option<Child> = None;
        loop {
            match dir.connect() {
                // Without an answer, the host is just ending.
                Ok(stream) => {
                    let mut connection = of_same_user(stream)?;
                    let late = Instant::now() + ANSWER_TIMEOUT;
                    let Ok(has_answered) = timeout_at(late, answers(&mut connection.stream)).await else {
                        bail!("it does not answer within {ANSWER_TIMEOUT:?}");
                    };
                    if has_answered {
                        self.answers.store(connection.process.unwrap_or_default(), Ordering::Relaxed);
                        return of_same_user(dir.connect()?);
                    }
                }
                Err(error) if has_no_listener(&error) => match &mut started {
                    None => started = Some(self.start(&dir)?),
                    Some(child) => match child.try_wait()?.map(|status| (status.code(), status)) {
                        None => {}
                        // Another relay's host was first.
                        Some((Some(code), _)) if code == i32::from(TAKEN) => started = None,
                        Some((_, status)) => {
                            let said = last_line(&dir.log()).unwrap_or_default();
                            bail!("it ended at once, {status}: {said} (in {})", dir.log().display());
                        }
                    },
                },
                Err(error) => return Err(error),
            }
            if Instant::now() >= until {
                bail!("it does not listen within {START_TIMEOUT:?}");
            }
            sleep(pause).await;
            pause = LOOK_AGAIN.1.min(pause * 2);
        }
    }

    /// Starts the host. It inherits none of this process's descriptors: neither the client's pipes,
    /// which would keep the client waiting, nor its terminal, nor anything else that the client left
    /// open.
    fn start(&self, dir: &RuntimeDir) -> anyhow::Result<Child> {
        let Launch { program, args, environment, settings, .. } = &self.launch;
        dir.make()?;
        let log = dir.open_log()?;
        keep_descriptors();
        let mut command = Command::new(program);
        command.arg("background-host").args(["--name", &self.name, "--settings", settings]).args(args);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log.into_file());
        command.envs(environment.iter().map(|(name, value)| (name, value)));
        // The process continues when the handle is dropped; the runtime reaps it when it ends.
        command.kill_on_drop(false);
        let child = command.spawn().context("cannot start it")?;
        tracing::info!(event = "background.started", process = child.id(), "background host started");
        Ok(child)
    }
}

impl Background for BackgroundHost {
    fn connect(&self) -> BoxFuture<'_, Result<Connection, String>> {
        async { self.reach().await.map_err(|error| format!("{error:#}")) }.boxed()
    }
}

/// Keeps the descriptors of this process from the processes that it starts from now on. Descriptors that it
/// opened are never inherited, but those that it inherited itself may be. They stay inheritable if the system
/// does not list them.
fn keep_descriptors() {
    let listed = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    for descriptor in listed.filter_map(|entry| entry.file_name().to_str()?.parse::<RawFd>().ok()) {
        if descriptor > 2 {
            // SAFETY: the descriptor is borrowed for this one call. If it was closed meanwhile, the call
            // fails. If it was opened again, it belongs to this process and already has this flag.
            let descriptor = unsafe { BorrowedFd::borrow_raw(descriptor) };
            let _ = rustix::io::fcntl_setfd(descriptor, rustix::io::FdFlags::CLOEXEC);
        }
    }
}

/// Whether no process listens at the socket.
fn has_no_listener(error: &anyhow::Error) -> bool {
    let error = error.downcast_ref::<io::Error>().map(io::Error::kind);
    matches!(error, Some(io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused))
}

/// Whether the process at the other end serves HTTP; false if it ends instead.
async fn answers(stream: &mut UnixStream) -> bool {
    let asked = stream.write_all(b"HEAD / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").await;
    asked.is_ok() && stream.read(&mut [0; 256]).await.is_ok_and(|length| length > 0)
}

/// The connection, if the listening process belongs to the same user as this one: that process receives calls
/// and their arguments, and its answers count as those of the tools.
fn of_same_user(stream: std::os::unix::net::UnixStream) -> anyhow::Result<Connection> {
    stream.set_nonblocking(true)?;
    let stream = UnixStream::from_std(stream)?;
    let peer = stream.peer_cred()?;
    if peer.uid() != rustix::process::geteuid().as_raw() {
        bail!("the user {} listens there; check who made the socket in the data folder", peer.uid());
    }
    Ok(Connection { stream, process: peer.pid() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::{UnixListener, UnixStream};

    /// A listener of this user.
    fn listener(path: &std::path::Path, user: Option<u32>) -> UnixListener {
        let path = path.to_owned();
        let listen = move || {
            if let Some(user) = user {
                // Only for this thread.
                rustix::thread::set_thread_uid(rustix::process::Uid::from_raw(user)).expect("root may");
            }
            UnixListener::bind(path).expect("listens")
        };
        std::thread::spawn(listen).join().expect("has ended")
    }

    #[tokio::test]
    async fn a_host_of_another_user_is_no_background_host() {
        let folder = tempfile::tempdir().expect("a folder");
        let own = folder.path().join("own");
        let _own = listener(&own, None);
        of_same_user(UnixStream::connect(&own).expect("connects")).expect("is ours");
        // Only root can act as another user.
        if rustix::process::geteuid().is_root() {
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o777);
            std::fs::set_permissions(folder.path(), mode).expect("sets");
            let other = folder.path().join("other");
            let _other = listener(&other, Some(65534));
            let refused = of_same_user(UnixStream::connect(&other).expect("connects"));
            let why = refused.expect_err("is of another user").to_string();
            assert!(why.contains("the user 65534 listens there"), "{why}");
        }
    }
}
