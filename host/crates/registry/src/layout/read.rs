//! Reading a layout, in any order of its members, and without writing a file.

use super::{BLOBS, INDEX, MARK, TAG};
use crate::artifact::Artifact;
use crate::carrier::{bundle_layer, likely_bundles, referrers_tag, signature_tag, simple_layers};
use crate::document::{Descriptor, Document, ImageManifest, component_entry, visible};
use crate::error::{Error, Problem, expect_digest};
use crate::limits::{MAX_CONFIG, MAX_LAYOUT_EXTRA, MAX_MANIFEST, MAX_MEMBERS, MAX_SIGNATURE, MAX_SIGNATURES};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::io::Read;
use tar::{Archive, EntryType};
use toolyard_trust::Digest;
use toolyard_trust::signature::Signature;

/// Reads the artifact of a layout with its signatures.
///
/// # Errors
/// If the tar is not a layout, holds not exactly one component, or is too large.
pub fn read(tar: impl Read, max_component: u64) -> Result<Artifact, Error> {
    let layout = Layout::unpack(tar, max_component).map_err(Error::Layout)?;
    layout.artifact(max_component).map_err(Error::Layout)
}

fn malformed(why: impl ToString) -> Problem {
    Problem::malformed("the tar", why)
}

/// The members of a tar.
#[derive(Debug, Default)]
struct Layout {
    version: Option<Vec<u8>>,
    index: Option<Vec<u8>>,
    blobs: BTreeMap<Digest, Vec<u8>>,
}

#[derive(Deserialize)]
struct Mark {
    #[serde(rename = "imageLayoutVersion")]
    version: String,
}

impl Layout {
    fn unpack(tar: impl Read, max_component: u64) -> Result<Self, Problem> {
        let limit = max_component.saturating_add(MAX_LAYOUT_EXTRA);
        let too_large =
            || Problem::TooLarge { item: "the tar", limit, setting: " (`plugins.component` and 16 MiB)" };
        // The limit is exact, so that a tar that ends there differs from one that was cut off there.
        let mut layout = Self::default();
        let mut archive = Archive::new(tar.take(limit));
        let entries = archive.entries().map_err(malformed)?;
        let mut total = 0_u64;
        for (number, entry) in entries.enumerate() {
            let mut entry = entry.map_err(malformed)?;
            if number >= MAX_MEMBERS {
                return Err(malformed(format!("it has more than {MAX_MEMBERS} members")));
            }
            total = total.saturating_add(entry.size()).saturating_add(1_024);
            if total > limit {
                return Err(too_large());
            }
            let name = member_name(&entry.path_bytes())?;
            match entry.header().entry_type() {
                EntryType::Directory => continue,
                EntryType::Regular | EntryType::Continuous => {}
                _ => return Err(malformed(format!("`{}` is neither a file nor a folder", visible(&name)))),
            }
            if !is_known(&name) {
                continue;
            }
            let size = entry.size();
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes).map_err(malformed)?;
            if bytes.len() as u64 != size {
                return Err(malformed(format!("it ends in the middle of `{name}`")));
            }
            layout.keep(&name, bytes)?;
        }
        Ok(layout)
    }

    /// Keeps a member. Two members of one name could show two readers two artifacts.
    fn keep(&mut self, name: &str, bytes: Vec<u8>) -> Result<(), Problem> {
        let is_first = match name.strip_prefix(BLOBS) {
            Some(hex) => {
                let why = || malformed(format!("`{}` is not named by a digest", visible(name)));
                let digest: Digest = format!("sha256:{hex}").parse().map_err(|_| why())?;
                expect_digest("a blob of the tar", &bytes, digest, "name of its file")?;
                self.blobs.insert(digest, bytes).is_none()
            }
            None if name == INDEX => self.index.replace(bytes).is_none(),
            None => self.version.replace(bytes).is_none(),
        };
        if is_first { Ok(()) } else { Err(malformed(format!("it has two members `{}`", visible(name)))) }
    }

    fn artifact(&self, max_component: u64) -> Result<Artifact, Problem> {
        let Some(version) = &self.version else {
            return Err(malformed(format!("it has no member `{MARK}`, so it is not an OCI image layout")));
        };
        let mark: Mark = serde_json::from_slice(version).map_err(malformed)?;
        if !mark.version.starts_with("1.") {
            return Err(malformed(format!("its layout has the version {}", visible(&mark.version))));
        }
        let index = self.index.as_ref().ok_or_else(|| malformed("it has no index.json"))?;
        let Document::Index(entries) = Document::parse(index)? else {
            return Err(malformed("its index.json is not an index"));
        };
        let (manifest, document) = self.component(&entries)?;
        let subject = Digest::of(manifest);
        let config = self.blob(&document.config, "the configuration", MAX_CONFIG)?.to_vec();
        let component = self.blob(document.component()?, "the component", max_component)?.to_vec();
        let mut artifact = Artifact::from_parts(manifest.to_vec(), document, config, component)?;
        artifact.signatures = self.signatures(&entries, subject);
        Ok(artifact)
    }

    /// The only component that the index names, directly or through another index.
    fn component(&self, entries: &[Descriptor]) -> Result<(&[u8], ImageManifest), Problem> {
        let mut found = BTreeMap::new();
        let mut other = None;
        for entry in entries.iter().filter(|entry| !is_about_another(entry)) {
            let manifest = match self.component_of(entry) {
                Ok(None) => continue,
                Ok(Some(manifest)) => manifest,
                Err(problem) => {
                    other.get_or_insert(problem);
                    continue;
                }
            };
            found.insert(Digest::of(manifest.0), manifest);
        }
        match (found.len(), found.pop_first()) {
            (1, Some((_, manifest))) => Ok(manifest),
            (0, _) => Err(other.unwrap_or_else(|| malformed("its index names no component"))),
            (count, _) => Err(malformed(format!("its index names {count} components; expected one"))),
        }
    }

    /// The component of an entry; `None` if the entry is about another manifest.
    fn component_of(&self, entry: &Descriptor) -> Result<Option<(&[u8], ImageManifest)>, Problem> {
        let mut bytes = self.blob(entry, "the manifest", MAX_MANIFEST)?;
        let mut document = Document::parse(bytes)?;
        if let Document::Index(entries) = &document {
            bytes = self.blob(component_entry(entries)?, "the manifest", MAX_MANIFEST)?;
            document = Document::parse(bytes)?;
        }
        let image = document.image()?;
        if image.subject.is_some() {
            return Ok(None);
        }
        image.component()?;
        Ok(Some((bytes, image)))
    }

    fn blob(&self, descriptor: &Descriptor, item: &'static str, limit: u64) -> Result<&[u8], Problem> {
        let blob = self.blobs.get(&descriptor.digest);
        let blob = blob.ok_or_else(|| malformed(format!("{item} {} is missing", descriptor.digest)))?;
        if blob.len() as u64 > limit {
            return Err(Problem::TooLarge { item, limit, setting: "" });
        }
        if blob.len() as u64 != descriptor.size {
            return Err(malformed(format!("{item} does not have the size that its descriptor says")));
        }
        Ok(blob)
    }

    fn signatures(&self, entries: &[Descriptor], subject: Digest) -> Vec<Signature> {
        // Programs that copy a repository with its tags write the index of referrers as an entry.
        let tag = referrers_tag(subject);
        let listed = entries.iter().filter(|entry| has_tag(entry, &tag));
        let listed = listed.filter_map(|entry| self.blob(entry, "the list", MAX_MANIFEST).ok());
        let listed = listed.filter_map(|index| match Document::parse(index) {
            Ok(Document::Index(entries)) => Some(entries),
            _ => None,
        });
        let mut referrers: Vec<Descriptor> = listed.flatten().chain(entries.iter().cloned()).collect();
        referrers.retain(|entry| entry.digest != subject);
        let mut seen = std::collections::BTreeSet::new();
        referrers.retain(|entry| seen.insert(entry.digest));
        let mut signatures = Vec::new();
        for referrer in likely_bundles(referrers) {
            let manifest = self.signature_manifest(&referrer);
            let layer = manifest.as_ref().and_then(|manifest| bundle_layer(manifest, subject));
            let bundle = layer.and_then(|layer| self.blob(layer, "the signature", MAX_SIGNATURE).ok());
            signatures.extend(bundle.map(|bundle| Signature::Bundle(bundle.to_vec())));
        }
        let tag = signature_tag(subject);
        let tagged = entries.iter().find(|entry| has_tag(entry, &tag));
        let manifest = tagged.and_then(|entry| self.signature_manifest(entry));
        for (layer, signature) in manifest.iter().flat_map(simple_layers) {
            let payload = self.blob(layer, "the signature", MAX_SIGNATURE).ok();
            signatures.extend(
                payload.map(|payload| Signature::SimpleSigning { payload: payload.to_vec(), signature }),
            );
        }
        signatures.truncate(MAX_SIGNATURES);
        signatures
    }

    fn signature_manifest(&self, entry: &Descriptor) -> Option<ImageManifest> {
        let manifest = self.blob(entry, "the manifest", MAX_SIGNATURE).ok()?;
        Document::parse(manifest).ok()?.image().ok()
    }
}

/// The name of a member without `./` in front. Nothing is unpacked; a name that leaves the folder is refused
/// because the tar was made to attack.
fn member_name(bytes: &[u8]) -> Result<String, Problem> {
    let name = std::str::from_utf8(bytes).map_err(|_| malformed("a name in it is not text"))?;
    let inside = name.strip_prefix("./").unwrap_or(name);
    if inside.starts_with('/') || inside.split(['/', '\\']).any(|part| part == "..") {
        return Err(malformed(format!("the name `{}` leaves the folder", visible(name))));
    }
    Ok(inside.trim_end_matches('/').to_owned())
}

fn is_known(name: &str) -> bool {
    name == MARK || name == INDEX || name.starts_with(BLOBS)
}

/// Whether an entry has this tag, which some programs write as a whole reference.
fn has_tag(entry: &Descriptor, tag: &str) -> bool {
    let name = entry.annotation(TAG).unwrap_or_default();
    name == tag || name.rsplit(':').next() == Some(tag)
}

/// Whether the tag of an entry says that it holds signatures or referrers.
fn is_about_another(entry: &Descriptor) -> bool {
    let name = entry.annotation(TAG).unwrap_or_default();
    let tag = name.rsplit(':').next().unwrap_or_default();
    let hex = tag.strip_prefix("sha256-").map(|hex| hex.split('.').next().unwrap_or_default());
    hex.is_some_and(|hex| hex.len() == 64)
}
