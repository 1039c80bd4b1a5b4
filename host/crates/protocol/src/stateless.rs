//! The generation of 2026-07-28: every request stands alone, carries its version and the client's
//! capabilities in `_meta`, and results state their type (26J, 26R). The additions of the tasks
//! extension are here too (26T).
//!
//! Not here: shapes that the generations share (`tools`, `resources`, forms), and any state of a
//! connection.

pub mod claim;
pub mod discover;
pub mod envelope;
pub mod error;
pub mod headers;
pub mod input;
pub mod listen;
pub mod param_headers;
mod plain;
pub mod result;
pub mod task;

/// The only version of this generation.
pub const VERSION: &str = "2026-07-28";

/// The extension that adds tasks, as clients declare it and the host offers it (26T-1, 26D-2).
pub const TASKS: &str = "io.modelcontextprotocol/tasks";

/// The `_meta` key of the version that a request is written in (26R-1).
pub const META_VERSION: &str = "io.modelcontextprotocol/protocolVersion";

/// The `_meta` key of the client's name and version (26R-1).
pub const META_CLIENT_INFO: &str = "io.modelcontextprotocol/clientInfo";

/// The `_meta` key of the client's capabilities for this request (26R-1).
pub const META_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";

/// The `_meta` key of the least serious log message that the request wants (26C-4).
pub const META_LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";

/// The `_meta` key of the host's own name and version (26J-5).
pub const META_SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";

/// The `_meta` key of the subscription that a notification belongs to (26SUB-3).
pub const META_SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";
