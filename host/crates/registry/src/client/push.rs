//! Publishing an artifact with its signatures.

use super::repository::Repository;
use super::signatures::SIGNATURE_MANIFEST;
use crate::artifact::Artifact;
use crate::carrier::{
    bundle_carrier, bundle_entry, extended_index, referrers_tag, signature_tag, simple_carrier,
};
use crate::document::{Document, IMAGE_INDEX, IMAGE_MANIFEST};
use crate::error::Problem;
use crate::limits::MAX_MANIFEST;
use crate::reference::{LATEST, Reference};
use crate::transport::{Answer, Bound, Outgoing, resolve};
use bytes::Bytes;
use http::header::LOCATION;
use http::{Method, StatusCode, Uri};
use serde_json::Value;
use toolyard_trust::Digest;
use toolyard_trust::signature::Signature;

/// How often the client writes a list of signatures that another writer replaced meanwhile.
const MAX_ATTEMPTS: usize = 3;
const REFERRERS: Bound = Bound::new("the list of referrers", MAX_MANIFEST);

/// Another writer replaced the list of signatures at the same time.
fn signature_lost(tag: &str) -> Problem {
    Problem::Other(format!(
        "another push replaced the signatures in the tag {tag} at the same time; push again"
    ))
}

impl Repository<'_> {
    pub async fn push(&self, reference: &Reference, artifact: &Artifact) -> Result<Digest, Problem> {
        let found = artifact.digest();
        if let Some(expected) = reference.digest.filter(|expected| *expected != found) {
            let why = format!("the artifact has {found}, the reference names {expected}");
            return Err(Problem::Other(why));
        }
        // A registry would store a manifest whose blobs differ from it, and nothing could read it.
        let document = Document::parse(&artifact.manifest)?.image()?;
        let (config, component) = (artifact.config.clone(), artifact.component.clone());
        let checked = Artifact::from_parts(artifact.manifest.clone(), document, config, component)?;
        self.push_blob(checked.config.into()).await?;
        self.push_blob(checked.component.into()).await?;
        self.push_manifest(&found.to_string(), IMAGE_MANIFEST, &artifact.manifest).await?;
        for signature in &artifact.signatures {
            if let Signature::Bundle(bundle) = signature {
                self.push_bundle(artifact, bundle).await?;
            }
        }
        self.push_simple(found, &artifact.signatures).await?;
        let tag = reference.tag.as_deref().or(reference.digest.is_none().then_some(LATEST));
        if let Some(tag) = tag {
            self.push_manifest(tag, IMAGE_MANIFEST, &artifact.manifest).await?;
        }
        Ok(found)
    }

    /// Writes cosign 3's carrier. A registry with the referrers API says that it has read the subject; for
    /// others the client keeps the list.
    async fn push_bundle(&self, artifact: &Artifact, bundle: &[u8]) -> Result<(), Problem> {
        let carrier = bundle_carrier(&artifact.manifest, bundle);
        for blob in &carrier.blobs {
            self.push_blob(blob.clone().into()).await?;
        }
        let target = Digest::of(&carrier.manifest).to_string();
        let answer = self.push_manifest(&target, IMAGE_MANIFEST, &carrier.manifest).await?;
        if answer.headers().contains_key("oci-subject") {
            return Ok(());
        }
        self.extend_referrers(&referrers_tag(artifact.digest()), bundle_entry(&carrier)).await
    }

    /// Adds an entry to the index in a tag, and reads it back: nothing makes this write atomic.
    async fn extend_referrers(&self, tag: &str, entry: Value) -> Result<(), Problem> {
        for _ in 0..MAX_ATTEMPTS {
            let former = self.manifest_within(tag, REFERRERS).await?.ok();
            // Another kind of manifest in this tag is not ours to replace.
            if let Some(former) = &former
                && !matches!(Document::parse(former), Ok(Document::Index(_)))
            {
                let why = format!("the tag {tag} is not an index");
                return Err(Problem::malformed("the list of referrers", why));
            }
            let Some(index) = extended_index(former.as_deref(), entry.clone()) else { return Ok(()) };
            self.push_manifest(tag, IMAGE_INDEX, &index).await?;
            let written = self.manifest_within(tag, REFERRERS).await?.ok();
            if extended_index(written.as_deref(), entry.clone()).is_none() {
                return Ok(());
            }
        }
        Err(signature_lost(tag))
    }

    /// Writes cosign 2's carrier, with the signatures that are there.
    async fn push_simple(&self, subject: Digest, signatures: &[Signature]) -> Result<(), Problem> {
        let tag = signature_tag(subject);
        if !signatures.iter().any(|signature| matches!(signature, Signature::SimpleSigning { .. })) {
            return Ok(());
        }
        for _ in 0..MAX_ATTEMPTS {
            let former = self.manifest_within(&tag, SIGNATURE_MANIFEST).await?.ok();
            let Some(carrier) = simple_carrier(former.as_deref(), signatures) else { return Ok(()) };
            for blob in &carrier.blobs {
                self.push_blob(blob.clone().into()).await?;
            }
            SIGNATURE_MANIFEST.check(carrier.manifest.len() as u64)?;
            self.push_manifest(&tag, IMAGE_MANIFEST, &carrier.manifest).await?;
            let written = self.manifest_within(&tag, SIGNATURE_MANIFEST).await?.ok();
            if simple_carrier(written.as_deref(), signatures).is_none() {
                return Ok(());
            }
        }
        Err(signature_lost(&tag))
    }

    async fn push_manifest(
        &self,
        target: &str,
        media_type: &'static str,
        manifest: &[u8],
    ) -> Result<Answer, Problem> {
        let request = Outgoing::new(Method::PUT, self.address(&format!("manifests/{target}"))?);
        let answer = self.send(request.body(media_type, manifest.to_vec())).await?;
        answer.expect("repository", &[StatusCode::CREATED, StatusCode::OK]).await
    }

    /// Uploads a blob, unless the registry has it.
    async fn push_blob(&self, blob: Bytes) -> Result<(), Problem> {
        let digest = Digest::of(&blob);
        let head = Outgoing::new(Method::HEAD, self.address(&format!("blobs/{digest}"))?);
        if self.send(head).await?.status() == StatusCode::OK {
            return Ok(());
        }
        let start = Outgoing::new(Method::POST, self.address("blobs/uploads/")?);
        let origin = start.uri.clone();
        let answer = self.send(start).await?.expect("repository", &[StatusCode::ACCEPTED]).await?;
        let place = self.upload_address(&origin, answer.header(LOCATION), digest)?;
        let upload = Outgoing::new(Method::PUT, place).body("application/octet-stream", blob);
        let answer = self.send(upload).await?;
        answer.expect("upload", &[StatusCode::CREATED, StatusCode::OK]).await.map(drop)
    }

    /// The address for the bytes of a blob, under the rules of redirects.
    fn upload_address(&self, from: &Uri, location: Option<&str>, digest: Digest) -> Result<Uri, Problem> {
        let wrong = || Problem::malformed("the answer to an upload", "it names no address");
        let place = self.client.transport.follow(from, location.ok_or_else(wrong)?)?;
        let separator = if place.query().is_some() { '&' } else { '?' };
        let digest = digest.to_string().replace(':', "%3A");
        resolve(from, &format!("{place}{separator}digest={digest}")).ok_or_else(wrong)
    }
}
