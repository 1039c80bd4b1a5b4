//! The console: web pages for the operator, which show tasks and answer the questions of tools.
//!
//! Pages are rendered here and work without JavaScript. A GET changes nothing. A POST is an
//! [`action::Action`], and each passes the same checks ([`request_check`]).
//!
//! Everything that guests and clients say is hostile: it is escaped by the templates, and characters that are
//! invisible or reorder text are shown as escapes ([`text`]).

mod act;
mod action;
mod asset;
mod audit;
mod connection;
mod console;
mod fields;
mod form;
mod host;
mod html;
mod link;
mod live;
mod login;
mod page;
mod reply;
mod request_check;
mod route;
mod session;
mod text;
mod user;

pub use audit::{AuditHits, AuditSearch};
pub use connection::serve;
pub use console::{Console, ConsoleSettings, MAX_CONNECTIONS};
pub use host::{HostState, LockedPlugin, PluginDetail, PluginState};
pub use link::LinkFolder;
pub use user::{ConsoleUser, Role};
