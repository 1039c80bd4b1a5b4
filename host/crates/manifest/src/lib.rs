//! The manifest `name.toml` beside `name.wasm`: the operator's grants and settings. A missing
//! manifest grants nothing and means the default of every setting.
//!
//! Nothing in a manifest is silently ignored. Unknown keys are errors, and so are sections that
//! this version does not implement yet.
//!
//! ```
//! use toolyard_manifest::{Limits, Manifest};
//!
//! let text = "[limits]\nmemory = \"32 MiB\"\n\n[env]\nLANG = \"C\"\n";
//! let manifest = Manifest::parse("hello.toml", text, &Limits::default()).expect("a manifest");
//! assert_eq!(manifest.limits.memory, 32 << 20);
//!
//! let error = Manifest::parse("hello.toml", "[limit]\n", &Limits::default()).expect_err("an unknown key");
//! assert!(error.to_string().contains("limit"), "{error}");
//! ```

mod deserializer;
mod error;
mod folders;
mod grant_lines;
mod granted_by;
mod http;
mod limits;
mod manifest;
mod resources;
mod secrets;
mod setting_lines;
mod sockets;
mod tools;
mod values;
mod wasi;

pub use deserializer::nearest;
pub use error::ManifestError;
pub use folders::{FolderMode, NamedFolder};
pub use granted_by::GrantedBy;
pub use http::rules::{Host, Hosts, Rule, Scheme, Target, Written, name as host_name};
pub use http::template::Template;
pub use http::{InDoubt, NamedHeader, NamedHttp, NamedInjection, is_forbidden};
pub use limits::{LimitRow, Limits, Unit};
pub use manifest::{MAX_BYTES, Manifest, file_name};
pub use secrets::{NamedSecret, Source};
pub use sockets::{Peer, Protocol, SocketGrant, SocketRule};
pub use tools::ToolOverride;
pub use wasi::{ClockGrant, RandomGrant};

#[cfg(test)]
mod network_tests;
#[cfg(test)]
mod tests;
