//! The trust that an operator places in plugins: digests, keys, signatures, the policy for signers,
//! definitions of tools, and the lock file `toolyard.lock`.
//!
//! Everything here is a function of its arguments: this crate opens no file, connects to nothing and reads no
//! clock. It computes on bytes that others wrote, so each reader has a limit (`MAX_…`), and every error says
//! what to do.
//!
//! [`lock::Lock`] keeps the [`lock::Entry`] of each plugin. At load [`lock::Entry::check`] compares the
//! component with its entry, and verifies the signatures that [`provenance::Provenance`] keeps beside it. An
//! update asks [`lock::decide`] whether a candidate needs a person.
//!
//! ```
//! use toolyard_trust::Digest;
//! use toolyard_trust::lock::Lock;
//!
//! let digest = Digest::of(b"a component");
//! assert_eq!(digest.to_string().parse(), Ok(digest));
//!
//! let lock = Lock::parse(&Lock::empty().to_text()).expect("a lock file");
//! assert!(lock.entry("search.wasm").is_none(), "nothing is locked");
//! ```

pub mod definition;
pub mod key;
pub mod lock;
pub mod policy;
pub mod provenance;
pub mod signature;

mod base64_text;
mod digest;
mod escape;
mod manifest;

pub use digest::{Digest, DigestError};
