//! Plugins by address: references, a client for OCI registries, credentials, and OCI image layouts as tars.
//!
//! [`Client`] pulls an [`Artifact`], a WebAssembly component in the CNCF layout, together with its
//! signatures. [`layout`] moves an artifact without a network. This crate carries signatures and does not
//! verify them; it verifies the digest of each manifest and blob that it reads.
//!
//! A registry is not trusted: every answer has a bound while it is read, and credentials go only to the
//! registry and to the token server that the registry names.
//!
//! ```
//! use toolyard_registry::{Reference, Source};
//!
//! let reference: Reference = "oci://ghcr.io/acme/search:1.2".parse().expect("an address");
//! assert_eq!(reference.to_string(), "oci://ghcr.io/acme/search:1.2");
//! assert!(matches!("./search.wasm".parse(), Ok(Source::File(_))));
//! assert!("http://example.com/search.wasm".parse::<Source>().is_err(), "not encrypted");
//! ```

mod artifact;
mod carrier;
mod challenge;
mod client;
mod component;
pub mod credentials;
mod document;
mod error;
pub mod layout;
mod limits;
pub mod reference;
mod settings;
mod transport;

pub use artifact::{Artifact, SUGGESTED_MANIFEST};
pub use client::Client;
pub use error::{Error, Problem};
pub use limits::{
    MAX_CONFIG, MAX_MANIFEST, MAX_SIGNATURE, MAX_SIGNATURES, MAX_SUGGESTED_MANIFEST, MAX_TOKEN_ANSWER,
};
pub use reference::{Reference, Source};
pub use settings::{Proxies, Registry, Settings};

/// Readers of data from registries and tars, for the fuzzer.
#[doc(hidden)]
pub mod readers {
    /// Reads a manifest or an index, and the signatures that it may carry.
    pub fn manifest(bytes: &[u8]) {
        if let Ok(document) = crate::document::Document::parse(bytes) {
            crate::carrier::examine(&document);
        }
    }

    /// Reads a `WWW-Authenticate` header.
    pub fn challenge(text: &str) {
        let _ = std::hint::black_box(crate::challenge::parse(text));
    }

    /// Reads a docker configuration, and looks for the credential of a host.
    pub fn docker_config(bytes: &[u8], host: &str) {
        let _ = std::hint::black_box(crate::credentials::examine(bytes, host));
    }
}
