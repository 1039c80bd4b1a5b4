//! Tasks that outlive the pipe (`toolyard stdio --detach`). A relay carries the messages of the client's pipe to
//! a background host, which continues when the client ends. Each data folder and configuration has one
//! background host; relays find it by a socket in that folder.
//!
//! The relay's side is [`BackgroundHost`]: it connects to the host, and starts one if none answers. The
//! background host's side is [`RuntimeDir`], which gives the lock and the socket, and [`until_idle`], which
//! says when nothing is left to do. The program itself decides which part of its configuration tells one
//! background host from another ([`fingerprint()`]).

mod connect;
mod fingerprint;
mod idle;
mod log;
mod runtime_dir;

pub use connect::{BackgroundHost, Launch, TAKEN};
pub use fingerprint::{Variables, fingerprint, host_name};
pub use idle::until_idle;
pub use log::BoundedLog;
pub use runtime_dir::{Lock, RuntimeDir, Socket};

/// Makes this process the leader of its own session, so that neither a signal to the client's processes nor
/// the end of the client's terminal ends it. A process that already leads a group, because a person started
/// it from a shell, keeps its session.
pub fn leave_session() {
    let _ = rustix::process::setsid();
}
