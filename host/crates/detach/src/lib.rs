//! Tasks that outlive the pipe (`toolyard stdio --detach`). A relay serves the client's pipe and sends
//! what concerns tasks to a background host, which goes on when the client ends. There is one
//! background host for each data folder and configuration; relays find it by a socket in that folder.
//!
//! The relay's side is [`BackgroundHost`]: it connects, and starts the host if none answers. The
//! background host's side is [`RuntimeDir`], which gives the lock and the socket, and [`Listener`],
//! which serves relays until nothing is left to do. The program itself decides which part of its
//! configuration tells one background host from another ([`fingerprint`]).

mod connect;
mod listener;
mod log;
mod runtime_dir;

pub use connect::{BackgroundHost, Launch};
pub use listener::Listener;
pub use log::BoundedLog;
pub use runtime_dir::{Lock, RuntimeDir, Socket};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;
use std::ffi::OsString;

/// The exit code of a background host that finds another one in its place. A relay that started it
/// connects to the other one.
pub const TAKEN: u8 = 75;

/// Variables of the environment by name; `None` where a variable is not set.
pub type Variables = BTreeMap<String, Option<OsString>>;

/// The first line of a connection, from the background host.
#[derive(Debug, Serialize, Deserialize)]
struct Greeting {
    /// The version of the program that serves here.
    toolyard: String,
    /// Its process id.
    process: u32,
    /// Why the background host does not serve this connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    refused: Option<String>,
}

/// Sixteen hexadecimal digits that differ where the texts differ: short enough for the name of a
/// file, long enough that two texts never have the same ones by chance.
pub fn fingerprint(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

/// The name of the background host for this fingerprint of the settings and for the variables that
/// manifests have asked for: with another secret it is another host.
pub fn host_name(settings: &str, variables: &Variables) -> String {
    fingerprint(&format!("{:?}", (settings, variables)))
}

/// Makes this process the leader of a session of its own, so that a signal to the client's processes,
/// or the end of the client's terminal, does not end it. A process that leads a group already, because
/// a person started it from a shell, stays where it is.
pub fn leave_session() {
    let _ = rustix::process::setsid();
}
