//! Parts for tests of the application: tools written in Rust, a clock, ids, settings, and a store
//! whose calls a test can watch or fail. It needs neither SQLite nor a WebAssembly
//! engine. The unit tests of a crate below it cannot use it: they would see that crate twice.

mod application;
mod clock;
mod native;
mod store_proxy;

pub use application::{SETTINGS, application, bounds, bridge, local_caller, memory, principal, stores};
pub use clock::{CountingIds, TickingClock};
pub use native::{Native, YES, done, native, question, tool};
pub use store_proxy::{Intercept, StoreProxy};
