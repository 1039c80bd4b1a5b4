//! The client for registries.

mod authorization;
mod repository;
mod signatures;

use crate::artifact::Artifact;
use crate::document::{Document, ImageManifest, component_entry};
use crate::error::{Error, Problem, expect_digest};
use crate::limits::MAX_CONFIG;
use crate::reference::{Reference, is_loopback};
use crate::settings::Settings;
use crate::transport::{Bound, Outgoing, Transport, host_of};
use authorization::Tokens;
use http::{StatusCode, Uri};
use repository::Repository;
use toolyard_trust::Digest;

/// The setting that bounds components, for errors.
const COMPONENT_SETTING: &str = " (`plugins.component`)";

/// Pulls artifacts from registries.
#[derive(Debug)]
pub struct Client {
    transport: Transport,
    tokens: Tokens,
}

impl Client {
    /// A client with these settings.
    ///
    /// # Errors
    /// If a file of certificates cannot be read, or a registry has settings that exclude each other.
    pub fn new(settings: Settings) -> Result<Self, Error> {
        let transport = Transport::new(settings).map_err(Error::Local)?;
        Ok(Self { transport, tokens: Tokens::default() })
    }

    /// The digest of the manifest that a reference names now. An index resolves to the manifest of its
    /// component.
    ///
    /// # Errors
    /// If the registry does not give the manifest, or it is not one of a component.
    pub async fn resolve(&self, reference: &Reference) -> Result<Digest, Error> {
        let resolved = async {
            let repository = Repository::new(self, reference)?;
            let (manifest, document) = repository.component_manifest(&reference.target()).await?;
            document.component()?;
            Ok(Digest::of(&manifest))
        };
        resolved.await.map_err(|problem: Problem| problem.of(reference))
    }

    /// The artifact that a reference names, with its signatures. After the first manifest everything is read
    /// by its digest, so a tag that moves meanwhile changes nothing.
    ///
    /// # Errors
    /// If the registry does not give a part of it, a part does not have its digest, or it is not a component.
    pub async fn pull(&self, reference: &Reference) -> Result<Artifact, Error> {
        let pulled = async {
            let repository = Repository::new(self, reference)?;
            let (manifest, document) = repository.component_manifest(&reference.target()).await?;
            let config = Bound::new("the configuration", MAX_CONFIG);
            let config = repository.blob(&document.config, config).await?;
            let limit = self.transport.settings().max_component;
            let bound = Bound::new("the component", limit).setting(COMPONENT_SETTING);
            let component = repository.blob(document.component()?, bound).await?;
            let mut artifact = Artifact::from_parts(manifest, document, config, component)?;
            artifact.signatures = repository.signatures(artifact.digest()).await?;
            Ok(artifact)
        };
        pulled.await.map_err(|problem: Problem| problem.of(reference))
    }

    /// A component from a web server. No credential is sent, and redirects stay on https.
    ///
    /// # Errors
    /// If the server does not give it, or it is too large.
    pub async fn fetch(&self, address: &Uri) -> Result<Vec<u8>, Error> {
        let fetched = async {
            let is_plain = address.scheme_str() == Some("http") && is_loopback(&host_of(address));
            if address.scheme_str() != Some("https") && !is_plain {
                return Err(Problem::Other("a component is fetched by https only".to_owned()));
            }
            let request = Outgoing::get(address.clone()).accept("application/wasm, */*;q=0.5");
            let answer = self.transport.send(request).await?.expect("component", &[StatusCode::OK]).await?;
            let limit = self.transport.settings().max_component;
            answer.read(Bound::new("the component", limit).setting(COMPONENT_SETTING)).await
        };
        // The query may hold a signature that gives access.
        let shown = address.to_string();
        let shown = shown.split('?').next().unwrap_or_default().to_owned();
        fetched.await.map_err(|problem: Problem| problem.of(shown))
    }
}

impl Repository<'_> {
    /// The manifest of a component, directly or through an index.
    async fn component_manifest(&self, target: &str) -> Result<(Vec<u8>, ImageManifest), Problem> {
        let manifest = self.manifest(target).await?;
        match Document::parse(&manifest)? {
            Document::Image(image) => Ok((manifest, *image)),
            Document::Index(entries) => {
                let entry = component_entry(&entries)?;
                let manifest = self.manifest(&entry.digest.to_string()).await?;
                expect_digest("the manifest", &manifest, entry.digest, "index")?;
                let image = Document::parse(&manifest)?.image()?;
                Ok((manifest, image))
            }
        }
    }
}
