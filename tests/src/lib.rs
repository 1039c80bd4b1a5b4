//! The test kit: drives the real binary in the tests and the load generator, over real sockets and pipes,
//! with real components.

pub mod admin;
pub mod backgrounds;
pub mod chaos;
pub mod compiled;
pub mod dice;
pub mod exchange;
pub mod fault_proxy;
pub mod guests;
pub mod history;
pub mod host;
pub mod http;
pub mod identity_provider;
pub mod mounts;
pub mod nightly;
pub mod postgres;
pub mod process;
pub mod project;
pub mod pty;
pub mod races;
pub mod registry;
pub mod schema;
pub mod session;
pub mod sink;
pub mod site;
pub mod soak;
pub mod stateless;
pub mod stdio;
pub mod tap;
pub mod tokens;
pub mod wait;

pub use backgrounds::Backgrounds;
pub use fault_proxy::FaultProxy;
pub use host::{Host, Setup, ends, succeeds};
pub use http::Connection;
pub use identity_provider::IdentityProvider;
pub use mounts::Disk;
pub use project::Project;
pub use session::{LATEST, Session, text};
pub use sink::Sink;
pub use site::Site;
pub use stdio::Stdio;
pub use tokens::token;
pub use wait::{PATIENCE, eventually, until};
