//! The signatures of an artifact, from both carriers. A structural fault in one of them hides that one: it is
//! not a signature, and the policy decides about an artifact without one. A fault of the connection is an
//! error, because otherwise it would hide a signature.

use super::repository::Repository;
use crate::carrier::{bundle_layer, likely_bundles, referrers_tag, signature_tag, simple_layers};
use crate::document::{Descriptor, Document, IMAGE_INDEX, ImageManifest};
use crate::error::Problem;
use crate::limits::{MAX_MANIFEST, MAX_SIGNATURE, MAX_SIGNATURES};
use crate::transport::{Bound, Outgoing};
use http::StatusCode;
use toolyard_trust::Digest;
use toolyard_trust::signature::Signature;

const SIGNATURE_MANIFEST: Bound = Bound::new("the manifest of a signature", MAX_SIGNATURE);
const SIGNATURE: Bound = Bound::new("the signature", MAX_SIGNATURE);
const REFERRERS: Bound = Bound::new("the list of referrers", MAX_MANIFEST);

impl Repository<'_> {
    pub async fn signatures(&self, subject: Digest) -> Result<Vec<Signature>, Problem> {
        let mut signatures = Vec::new();
        for referrer in likely_bundles(self.referrers(subject).await?) {
            if let Some(bundle) = self.bundle(&referrer, subject).await? {
                signatures.push(Signature::Bundle(bundle));
            }
        }
        let Some(manifest) = self.signature_manifest(&signature_tag(subject)).await? else {
            return Ok(signatures);
        };
        let simple = simple_layers(&manifest);
        for (layer, signature) in simple.into_iter().take(MAX_SIGNATURES.saturating_sub(signatures.len())) {
            if let Some(payload) = self.signature_blob(layer).await? {
                signatures.push(Signature::SimpleSigning { payload, signature });
            }
        }
        Ok(signatures)
    }

    /// The manifests about `subject`, from the API, or from the tag that stands in for it.
    async fn referrers(&self, subject: Digest) -> Result<Vec<Descriptor>, Problem> {
        let request = Outgoing::get(self.address(&format!("referrers/{subject}"))?).accept(IMAGE_INDEX);
        let answer = self.send(request).await?;
        // Registries without the API answer in several ways.
        let without_api = [
            StatusCode::NOT_FOUND,
            StatusCode::BAD_REQUEST,
            StatusCode::METHOD_NOT_ALLOWED,
            StatusCode::NOT_IMPLEMENTED,
        ];
        if !without_api.contains(&answer.status()) {
            let list = answer.expect("list of referrers", &[StatusCode::OK]).await?.read(REFERRERS).await?;
            // Some servers answer every path with a page for people.
            if let Ok(Document::Index(entries)) = Document::parse(&list) {
                return Ok(entries);
            }
        }
        let list = self.manifest_within(&referrers_tag(subject), REFERRERS).await?.ok();
        match list.as_deref().map(Document::parse) {
            Some(Ok(Document::Index(entries))) => Ok(entries),
            _ => Ok(Vec::new()),
        }
    }

    async fn bundle(&self, referrer: &Descriptor, subject: Digest) -> Result<Option<Vec<u8>>, Problem> {
        let Some(manifest) = self.signature_manifest(&referrer.digest.to_string()).await? else {
            return Ok(None);
        };
        match bundle_layer(&manifest, subject) {
            Some(layer) => self.signature_blob(layer).await,
            None => Ok(None),
        }
    }

    async fn signature_manifest(&self, target: &str) -> Result<Option<ImageManifest>, Problem> {
        let manifest = present(self.manifest_within(target, SIGNATURE_MANIFEST).await)?.and_then(Result::ok);
        let document = manifest.and_then(|manifest| Document::parse(&manifest).ok());
        Ok(document.and_then(|document| document.image().ok()))
    }

    async fn signature_blob(&self, layer: &Descriptor) -> Result<Option<Vec<u8>>, Problem> {
        present(self.blob(layer, SIGNATURE).await)
    }
}

/// Passes on data and faults of the connection; a structural fault counts as absent.
fn present<T>(read: Result<T, Problem>) -> Result<Option<T>, Problem> {
    match read {
        Ok(data) => Ok(Some(data)),
        Err(Problem::TooLarge { .. } | Problem::Malformed { .. } | Problem::NotFound { .. }) => Ok(None),
        Err(fault) => Err(fault),
    }
}
