//! Tasks that outlive the pipe (`toolyard stdio --detach`). A relay carries the messages of the client's pipe to
//! a background host, which continues when the client ends. Each data folder and configuration has one
//! background host; relays find it by a socket in that folder.
//!
//! The relay's side is [`BackgroundHost`]: it connects to the host, and starts one if none answers. The
//! background host's side is [`RuntimeDir`], which gives the lock and the socket, and [`until_idle`], which
//! says when nothing is left to do. The program itself decides which part of its configuration tells one
//! background host from another ([`fingerprint`]).

mod connect;
mod idle;
mod log;
mod runtime_dir;

pub use connect::{BackgroundHost, Launch};
pub use idle::until_idle;
pub use log::BoundedLog;
pub use runtime_dir::{Lock, RuntimeDir, Socket};

use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;
use std::ffi::OsString;

/// The exit code of a background host that finds another one already running. A relay that started it
/// connects to the other one.
pub const TAKEN: u8 = 75;

/// Environment variables by name; `None` if a variable is not set.
pub type Variables = BTreeMap<String, Option<OsString>>;

/// Sixteen hexadecimal digits that differ if the texts differ: short enough for a file name, and long enough
/// that two texts do not share them by chance.
pub fn fingerprint(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

/// The name of the background host for this fingerprint of the settings and for the variables that
/// manifests have asked for: a different secret means a different host.
pub fn host_name(settings: &str, variables: &Variables) -> String {
    fingerprint(&format!("{:?}", (settings, variables)))
}

/// Makes this process the leader of its own session, so that neither a signal to the client's processes nor
/// the end of the client's terminal ends it. A process that already leads a group, because a person started
/// it from a shell, keeps its session.
pub fn leave_session() {
    let _ = rustix::process::setsid();
}
