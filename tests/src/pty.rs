//! A minimal pseudo-terminal: a command runs on it, and the test reads and types on its other side.

use rustix::fs::{Mode, OFlags};
use rustix::ioctl::{Getter, Setter, ioctl};
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use tokio::process::{Child, Command};

/// `TIOCSPTLCK`: locks or frees the other side.
const SET_LOCK: rustix::ioctl::Opcode = 0x4004_5431;
/// `TIOCGPTN`: the number of the other side.
const GET_NUMBER: rustix::ioctl::Opcode = 0x8004_5430;
/// `TIOCSWINSZ`: rows, columns, and the same in pixels.
const SET_SIZE: rustix::ioctl::Opcode = 0x5414;

/// A command on its own terminal.
pub struct OnTerminal {
    child: Child,
    keys: File,
    shown: Arc<Mutex<Vec<u8>>>,
    reader: Option<JoinHandle<()>>,
}

impl OnTerminal {
    /// Starts a command whose standard streams are a terminal.
    ///
    /// # Panics
    /// If no terminal is available.
    #[must_use]
    pub fn start(mut command: Command) -> Self {
        let (ours, theirs) = pair();
        let stdio = || Stdio::from(theirs.try_clone().expect("a descriptor"));
        command.env("TERM", "xterm-256color").kill_on_drop(true);
        command.stdin(stdio()).stdout(stdio()).stderr(stdio());
        let child = command.spawn().expect("the command starts");
        // The reader ends when no process holds the other side any more.
        drop(command);
        drop(theirs);
        let shown = Arc::<Mutex<Vec<u8>>>::default();
        let mut from = ours.try_clone().expect("a descriptor");
        let to = shown.clone();
        let reader = std::thread::spawn(move || {
            let mut piece = [0; 4096];
            while let Ok(read @ 1..) = from.read(&mut piece) {
                to.lock().expect("free").extend_from_slice(&piece[..read]);
            }
        });
        Self { child, keys: ours, shown, reader: Some(reader) }
    }

    /// Types these keys.
    ///
    /// # Panics
    /// If the terminal is gone.
    pub fn types(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).expect("it is there");
    }

    /// The output that the terminal has received so far.
    ///
    /// # Panics
    /// If it is not text.
    pub fn shown(&self) -> String {
        String::from_utf8_lossy(&self.shown.lock().expect("free")).into_owned()
    }

    /// The id of the process.
    ///
    /// # Panics
    /// If the process has ended.
    pub fn pid(&self) -> rustix::process::Pid {
        crate::process::pid(&self.child)
    }

    /// Waits for the end; returns the whole output.
    ///
    /// # Panics
    /// If it does not end.
    pub async fn ended(mut self) -> (ExitStatus, String) {
        let status = crate::process::ended(&mut self.child).await;
        let reader = self.reader.take().expect("it is joined once");
        tokio::task::spawn_blocking(move || reader.join()).await.expect("no panic").expect("no panic");
        (status, self.shown())
    }
}

fn pair() -> (File, File) {
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let open = |path: &str| rustix::fs::open(path, flags, Mode::empty()).expect("a terminal");
    let ours: OwnedFd = open("/dev/ptmx");
    // SAFETY: each request has the argument type that its manual page gives, and the descriptor is a
    // terminal.
    let number = unsafe {
        ioctl(&ours, Setter::<SET_LOCK, i32>::new(0)).expect("it is unlocked");
        ioctl(&ours, Setter::<SET_SIZE, [u16; 4]>::new([50, 200, 0, 0])).expect("it has a size");
        ioctl(&ours, Getter::<GET_NUMBER, i32>::new())
    };
    let theirs = open(&format!("/dev/pts/{}", number.expect("a number")));
    (File::from(ours), File::from(theirs))
}
