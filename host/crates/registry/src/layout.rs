//! OCI image layouts in tars, for machines without a network. `oras` and `skopeo` read these tars, and this
//! module reads theirs.

mod read;
mod write;

pub use read::read;
pub use write::write;

/// The member that marks a layout.
const MARK: &str = "oci-layout";
const MARK_TEXT: &str = r#"{"imageLayoutVersion":"1.0.0"}"#;
const INDEX: &str = "index.json";
const BLOBS: &str = "blobs/sha256/";
/// The annotation with the tag of an entry of the index.
const TAG: &str = "org.opencontainers.image.ref.name";

#[cfg(test)]
mod tests;
