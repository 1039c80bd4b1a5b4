//! How a relay connects to its background host, which it starts if none answers.

use crate::log::last_line;
use crate::runtime_dir::RuntimeDir;
use crate::{Greeting, TAKEN, Variables, host_name};
use anyhow::{Context as _, bail};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use std::ffi::OsString;
use std::io::{self, BufRead as _, BufReader, Write};
use std::net::Shutdown;
use std::os::fd::{BorrowedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep};
use toolyard_transport::stdio::{Background, Connection};

/// The pause between attempts to connect to a host that is starting: the first and the longest.
const LOOK_AGAIN: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(250));

/// The longest greeting, in bytes.
const GREETING: usize = 4096;

/// How to start a background host, and how long a relay waits for it.
pub struct Launch {
    /// The version of the program. Both sides of a connection must have the same.
    pub version: &'static str,
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
    /// Returns the variables that manifests have asked for so far.
    pub variables: fn() -> Variables,
    /// How long the background host may take to answer (`detach.start`).
    pub start_timeout: Duration,
    /// The maximum size of its log, in bytes (`detach.log`).
    pub max_log_bytes: u64,
}

/// The background host for one configuration, as a relay reaches it.
pub struct BackgroundHost(Launch);

impl BackgroundHost {
    /// The background host that `launch` starts. Nothing starts before the first connection.
    pub fn new(launch: Launch) -> Self {
        Self(launch)
    }

    async fn reach(&self) -> anyhow::Result<Connection> {
        let name = host_name(&self.0.settings, &(self.0.variables)());
        let dir = RuntimeDir::new(&self.0.data, &name);
        let until = Instant::now() + self.0.start_timeout;
        let mut pause = LOOK_AGAIN.0;
        let mut started: Option<Child> = None;
        loop {
            match dir.connect() {
                // Without a greeting, the host is just ending.
                Ok(stream) => {
                    if let Some(connection) = greeted(stream, until - Instant::now(), self.0.version).await? {
                        return Ok(connection);
                    }
                }
                Err(error) if has_no_listener(&error) => match &mut started {
                    None => started = Some(self.start(&dir, &name)?),
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
                bail!("it does not answer within {:?} (`detach.start`)", self.0.start_timeout);
            }
            sleep(pause).await;
            pause = LOOK_AGAIN.1.min(pause * 2);
        }
    }

    /// Starts the host. It inherits none of this process's descriptors: neither the client's pipes,
    /// which would keep the client waiting, nor its terminal, nor anything else that the client left
    /// open.
    fn start(&self, dir: &RuntimeDir, name: &str) -> anyhow::Result<Child> {
        let Launch { program, args, environment, settings, max_log_bytes, .. } = &self.0;
        dir.make()?;
        let log = dir.open_log(*max_log_bytes)?;
        keep_descriptors();
        let mut command = Command::new(program);
        command.arg("background-host").args(["--name", name, "--settings", settings]).args(args);
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

/// The connection, once the host has sent its greeting; `None` if the host ends instead.
async fn greeted(
    stream: UnixStream,
    timeout: Duration,
    version: &'static str,
) -> anyhow::Result<Option<Connection>> {
    let stream = of_same_user(stream)?;
    let greet = move || greeting(stream, timeout, version);
    tokio::task::spawn_blocking(greet).await.context("cannot read its greeting")?
}

/// The connection, if the listening process belongs to the same user as this one: that process receives calls
/// and their arguments, and its answers count as those of the tools.
fn of_same_user(stream: UnixStream) -> anyhow::Result<UnixStream> {
    stream.set_nonblocking(true)?;
    let stream = tokio::net::UnixStream::from_std(stream)?;
    let user = stream.peer_cred()?.uid();
    if user != rustix::process::geteuid().as_raw() {
        bail!("the user {user} listens there; check who made the socket in the data folder");
    }
    let stream = stream.into_std()?;
    stream.set_nonblocking(false)?;
    Ok(stream)
}

fn greeting(stream: UnixStream, timeout: Duration, version: &str) -> anyhow::Result<Option<Connection>> {
    let until = Instant::now() + timeout.max(LOOK_AGAIN.0);
    let mut input = BufReader::new(stream.try_clone()?);
    let mut line = Vec::new();
    while !line.ends_with(b"\n") {
        // One deadline for the whole line, even if its bytes arrive one by one.
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            bail!("it does not answer");
        }
        stream.set_read_timeout(Some(left))?;
        let piece = match input.fill_buf() {
            Ok(piece) => piece,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => bail!("it does not answer"),
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let end = piece.iter().position(|byte| *byte == b'\n').map_or(piece.len(), |at| at + 1);
        if end == 0 || line.len() + end > GREETING {
            return Ok(None);
        }
        line.extend_from_slice(&piece[..end]);
        input.consume(end);
    }
    let greeting: Greeting = serde_json::from_slice(&line).context("its greeting is not valid")?;
    if greeting.toolyard != version {
        bail!("it has version {}, and this program has {version}; restart the client", greeting.toolyard);
    }
    if let Some(why) = greeting.refused {
        bail!("{why}");
    }
    tracing::debug!(process = greeting.process, "connected to the background host");
    stream.set_read_timeout(None)?;
    Ok(Some(Connection { input: Box::new(input), output: Box::new(Closing(stream)) }))
}

/// The write half of a connection. When it is dropped, the other side reads the end of the stream, even if
/// other handles to the socket exist.
#[derive(Debug)]
pub(crate) struct Closing(pub UnixStream);

impl Write for Closing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl Drop for Closing {
    fn drop(&mut self) {
        // It may be closed already.
        let _ = self.0.shutdown(Shutdown::Write);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

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

    #[test]
    fn a_greeting_that_comes_byte_by_byte_has_one_deadline() {
        let (ours, mut theirs) = UnixStream::pair().expect("a pair");
        let drip = std::thread::spawn(move || {
            // Until the other side hangs up.
            while theirs.write_all(b" ").is_ok() {
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        let why =
            greeting(ours, Duration::from_millis(200), "1.0.0").err().expect("is no greeting").to_string();
        assert_eq!(why, "it does not answer");
        drip.join().expect("has ended");
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
