//! Writing a layout.

use super::{BLOBS, INDEX, MARK, MARK_TEXT, TAG};
use crate::artifact::Artifact;
use crate::carrier::{bundle_carrier, bundle_entry, describe, signature_tag, simple_carrier};
use crate::document::{IMAGE_INDEX, IMAGE_MANIFEST};
use crate::error::{Error, Problem};
use serde_json::json;
use std::collections::BTreeMap;
use std::io::Write;
use tar::{Builder, EntryType, Header};
use toolyard_trust::Digest;
use toolyard_trust::signature::Signature;

/// Writes an artifact with its signatures as a tar. Equal artifacts give equal bytes. `reference` is the tag
/// by which other programs find the artifact in the layout.
///
/// # Errors
/// If the writer fails.
pub fn write(artifact: &Artifact, reference: Option<&str>, out: impl Write) -> Result<(), Error> {
    let mut blobs: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    let mut add = |blob: &[u8]| _ = blobs.insert(Digest::of(blob).hex(), blob.to_vec());
    let mut main = describe(IMAGE_MANIFEST, &artifact.manifest);
    if let Some(reference) = reference {
        main["annotations"] = json!({ TAG: reference });
    }
    let mut entries = vec![main];
    [&artifact.manifest, &artifact.config, &artifact.component].into_iter().for_each(|blob| add(blob));
    for signature in &artifact.signatures {
        if let Signature::Bundle(bundle) = signature {
            let carrier = bundle_carrier(&artifact.manifest, bundle);
            carrier.blobs.iter().chain([&carrier.manifest]).for_each(|blob| add(blob));
            entries.push(bundle_entry(&carrier));
        }
    }
    if let Some(carrier) = simple_carrier(&artifact.signatures) {
        carrier.blobs.iter().chain([&carrier.manifest]).for_each(|blob| add(blob));
        let mut entry = describe(IMAGE_MANIFEST, &carrier.manifest);
        entry["annotations"] = json!({ TAG: signature_tag(artifact.digest()) });
        entries.push(entry);
    }
    let index = json!({ "schemaVersion": 2, "mediaType": IMAGE_INDEX, "manifests": entries }).to_string();
    let written = || {
        let mut tar = Builder::new(out);
        append(&mut tar, MARK, MARK_TEXT.as_bytes())?;
        append(&mut tar, INDEX, index.as_bytes())?;
        for (hex, blob) in &blobs {
            append(&mut tar, &format!("{BLOBS}{hex}"), blob)?;
        }
        tar.into_inner()?.flush()
    };
    written().map_err(|error| Error::Layout(Problem::malformed("the output", error)))
}

/// Appends a file that belongs to root and is as old as 1970.
fn append(tar: &mut Builder<impl Write>, name: &str, bytes: &[u8]) -> std::io::Result<()> {
    let mut header = Header::new_ustar();
    header.set_path(name)?;
    header.set_entry_type(EntryType::Regular);
    header.set_size(bytes.len() as u64);
    header.set_mode(0o644);
    header.set_mtime(0);
    header.set_uid(0);
    header.set_gid(0);
    header.set_cksum();
    tar.append(&header, bytes)
}
