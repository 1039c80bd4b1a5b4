//! Requests to one repository of a registry.

use super::Client;
use crate::document::{Descriptor, visible};
use crate::error::{Problem, expect_digest};
use crate::limits::MAX_MANIFEST;
use crate::reference::Reference;
use crate::transport::{Answer, Bound, MANIFESTS, Outgoing, is_same_origin};
use http::{StatusCode, Uri};
use toolyard_trust::Digest;

/// A repository of a registry.
#[derive(Debug)]
pub struct Repository<'a> {
    client: &'a Client,
    /// The registry as the reference names it.
    host: String,
    name: String,
    /// The right to read, in the form of a token's scope.
    scope: String,
    /// The address of the API: `https://HOST/v2/`.
    api: Uri,
}

impl<'a> Repository<'a> {
    pub fn new(client: &'a Client, reference: &Reference) -> Result<Self, Problem> {
        let (host, name) = (reference.host.clone(), reference.repository.clone());
        let scope = format!("repository:{name}:pull");
        let api = client.api(&host)?;
        Ok(Self { client, host, name, scope, api })
    }

    /// An address below the repository.
    pub fn address(&self, path: &str) -> Result<Uri, Problem> {
        let (scheme, host) = (self.api.scheme_str().unwrap_or("https"), self.api.authority());
        let host = host.map(http::uri::Authority::as_str).unwrap_or_default();
        let text = format!("{scheme}://{host}/v2/{}/{path}", self.name);
        text.parse().map_err(|error| Problem::malformed("the address", error))
    }

    /// Sends a request with the authorization that the registry wants.
    pub async fn send(&self, mut request: Outgoing) -> Result<Answer, Problem> {
        // A host to which the registry redirects must not ask for the credential.
        let is_challenge = |answer: &Answer| {
            answer.status() == StatusCode::UNAUTHORIZED && is_same_origin(answer.uri(), &self.api)
        };
        request.authorization = self.client.tokens.get(&self.host, &self.scope);
        let answer = self.client.transport.send(request.clone()).await?;
        if !is_challenge(&answer) {
            return Ok(answer);
        }
        let credential = self.client.transport.settings().credentials.look_up(&self.host).await?;
        let login = self.client.authorize(&self.host, &self.api, &self.scope, &answer, credential.as_ref());
        let authorization = login.await?;
        request.authorization = Some(authorization.clone());
        drop(answer);
        let answer = self.client.transport.send(request).await?;
        if is_challenge(&answer) {
            return Err(self.client.refused(&self.host, credential.as_ref()));
        }
        self.client.tokens.set(&self.host, &self.scope, authorization);
        Ok(answer)
    }

    /// A manifest by its tag or digest.
    pub async fn manifest(&self, target: &str) -> Result<Vec<u8>, Problem> {
        let bound = Bound::new("the manifest", MAX_MANIFEST);
        self.manifest_within(target, bound).await?
    }

    /// A manifest of at most this size; the inner error says that there is none.
    pub async fn manifest_within(
        &self,
        target: &str,
        bound: Bound,
    ) -> Result<Result<Vec<u8>, Problem>, Problem> {
        let request = Outgoing::get(self.address(&format!("manifests/{target}"))?).accept(MANIFESTS);
        let answer = self.send(request).await?;
        if answer.status() == StatusCode::NOT_FOUND {
            return Ok(Err(answer.into_problem("manifest").await));
        }
        let answer = answer.expect("manifest", &[StatusCode::OK]).await?;
        let promised = answer.header("docker-content-digest").map(str::to_owned);
        let manifest = answer.read(bound).await?;
        if let Ok(expected) = target.parse::<Digest>() {
            expect_digest(bound.item, &manifest, expected, "reference")?;
        } else if let Some(promised) = promised.filter(|promised| promised.starts_with("sha256:")) {
            let expected = promised
                .parse()
                .map_err(|_| Problem::malformed("the header Docker-Content-Digest", visible(&promised)))?;
            expect_digest(bound.item, &manifest, expected, "header Docker-Content-Digest")?;
        }
        Ok(Ok(manifest))
    }

    /// A blob of a manifest.
    pub async fn blob(&self, descriptor: &Descriptor, bound: Bound) -> Result<Vec<u8>, Problem> {
        bound.check(descriptor.size)?;
        let request = Outgoing::get(self.address(&format!("blobs/{}", descriptor.digest))?);
        let answer = self.send(request).await?.expect("blob", &[StatusCode::OK]).await?;
        let blob = answer.read(bound.exactly(descriptor.size)).await?;
        expect_digest("the blob", &blob, descriptor.digest, "manifest")?;
        Ok(blob)
    }
}
