//! The check of a component against its entry, when the host loads it. It is offline and takes less than a
//! millisecond.

use super::decide::changed_lines;
use super::{Entry, Signer};
use crate::definition::{Changes, Definition, compare, escape};
use crate::digest::Digest;
use crate::manifest::is_of_component;
use crate::policy::{Policy, Requirement};
use crate::provenance::{Provenance, ProvenanceError};
use crate::signature::{Subject, VerifyError, verify};

/// Why the host does not load a component.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The component is another one.
    #[error(
        "is not the component that toolyard.lock names; `toolyard accept {name}` shows what changed and takes it"
    )]
    OtherComponent {
        /// The name of the plugin.
        name: String,
    },
    /// The manifest grants more than a person accepted.
    #[error(
        "has grants that toolyard.lock does not list: {}; remove them from {name}.toml, or take them with `toolyard \
         accept {name}`",
        listed(grants)
    )]
    WiderGrants {
        /// The name of the plugin.
        name: String,
        /// The grants that are new.
        grants: Vec<String>,
    },
    /// The manifest has other limits, words or approvals than a person accepted.
    #[error(
        "has other settings than toolyard.lock lists ({}); restore {name}.toml, or take them with `toolyard accept \
         {name}`",
        changes.join(", ")
    )]
    OtherSettings {
        /// The name of the plugin.
        name: String,
        /// The difference.
        changes: Vec<String>,
    },
    /// The component does not say of itself what a person accepted.
    #[error(
        "defines other tools or prompts than toolyard.lock lists:\n{changes}`toolyard accept {name}` takes them"
    )]
    OtherDefinitions {
        /// The name of the plugin.
        name: String,
        /// The difference.
        changes: Changes,
    },
    /// The policy wants a signature, and the entry pins no signer.
    #[error(
        "is unsigned, and the policy for {} demands a signature; pin its signer with `toolyard accept {name} --key FILE`",
        escape(source_text)
    )]
    Unsigned {
        /// The name of the plugin.
        name: String,
        /// The source in the entry.
        source_text: String,
    },
    /// The policy names keys, and the pinned one is not among them.
    #[error(
        "is pinned to the key {}, which `plugins.signers` does not name for {}; add the key there, or pin another one \
         with `toolyard accept {name} --key FILE`",
        escape(pinned),
        escape(source_text)
    )]
    OtherSigner {
        /// The name of the plugin.
        name: String,
        /// The fingerprint in the entry.
        pinned: String,
        /// The source in the entry.
        source_text: String,
    },
    /// The signer is an identity.
    #[error(
        "is pinned to the identity {}, and Toolyard cannot verify keyless signatures yet; pin a key with `toolyard \
         accept {name} --key FILE`",
        escape(identity)
    )]
    Keyless {
        /// The name of the plugin.
        name: String,
        /// The identity in the entry.
        identity: String,
    },
    /// The signer is pinned, and there is no provenance file.
    #[error("has a pinned signer, and {file}.provenance.json is missing; `toolyard install` writes it again")]
    NoProvenance {
        /// The file of the component.
        file: String,
    },
    /// The provenance file cannot be read.
    #[error("{file}.provenance.json: {error}")]
    Provenance {
        /// The file of the component.
        file: String,
        /// The fault.
        error: ProvenanceError,
    },
    /// The provenance file has not the OCI manifest of the entry.
    #[error(
        "has a {file}.provenance.json without the OCI manifest that toolyard.lock names; `toolyard install` writes it \
         again"
    )]
    OtherManifest {
        /// The file of the component.
        file: String,
    },
    /// The OCI manifest is that of another component.
    #[error(
        "has an OCI manifest that does not list the component as its only layer of application/wasm; `toolyard update \
         {name}` fetches it again"
    )]
    NotInManifest {
        /// The name of the plugin.
        name: String,
    },
    /// The public key with the pinned fingerprint is not at hand.
    #[error(
        "is pinned to the key {}, and neither {file}.provenance.json nor `plugins.signers` has that key; `toolyard \
         update {name}` with the key in `plugins.signers` adds it",
        escape(pinned)
    )]
    NoKey {
        /// The file of the component.
        file: String,
        /// The name of the plugin.
        name: String,
        /// The fingerprint in the entry.
        pinned: String,
    },
    /// The pinned signer did not sign it.
    #[error("is not signed as toolyard.lock says: {error}")]
    Signature {
        /// The fault.
        error: VerifyError,
    },
}

fn listed(grants: &[String]) -> String {
    grants.iter().map(|grant| escape(grant)).collect::<Vec<_>>().join(", ")
}

impl Entry {
    /// Compares the bytes of the component.
    ///
    /// # Errors
    /// If it is another component.
    pub fn check_component(&self, digest: Digest) -> Result<(), Refusal> {
        if digest != self.digest {
            return Err(Refusal::OtherComponent { name: self.name().to_owned() });
        }
        Ok(())
    }

    /// Compares the grants of its manifest.
    ///
    /// # Errors
    /// If they are wider than those of the entry.
    pub fn check_grants(&self, grants: &[String]) -> Result<(), Refusal> {
        let wider: Vec<_> = grants.iter().filter(|grant| !self.grants.contains(grant)).cloned().collect();
        if !wider.is_empty() {
            return Err(Refusal::WiderGrants { name: self.name().to_owned(), grants: wider });
        }
        Ok(())
    }

    /// Compares the settings of its manifest. An entry of version 0.2 has none.
    ///
    /// # Errors
    /// If they differ from those of the entry.
    pub fn check_settings(&self, settings: &[String]) -> Result<(), Refusal> {
        let pinned = self.settings.as_deref().unwrap_or(settings);
        let changes = changed_lines(pinned, settings);
        if changes.is_empty() {
            return Ok(());
        }
        Err(Refusal::OtherSettings { name: self.name().to_owned(), changes })
    }

    /// Compares what it says of itself.
    ///
    /// # Errors
    /// If that differs from the entry.
    pub fn check_definitions(&self, definitions: &[Definition]) -> Result<(), Refusal> {
        let changes = compare(&self.definitions, definitions);
        if changes.is_empty() {
            return Ok(());
        }
        Err(Refusal::OtherDefinitions { name: self.name().to_owned(), changes })
    }

    /// Verifies the signature of the component of this entry. A signer that is pinned is always required.
    ///
    /// # Errors
    /// If the pinned signer did not sign it, or the policy demands another one.
    pub fn check_signature(&self, provenance: Option<&[u8]>, policy: &Policy) -> Result<(), Refusal> {
        self.check_unverified_signature(provenance, policy, |_| false).map(drop)
    }

    /// The same, but without the computation of a signature that was verified before. `was_verified` says so of the
    /// digest of everything that the computation depends on. Returns that digest if the signature was verified now.
    ///
    /// # Errors
    /// As [`check_signature`](Self::check_signature).
    pub fn check_unverified_signature(
        &self,
        provenance: Option<&[u8]>,
        policy: &Policy,
        was_verified: impl FnOnce(&Digest) -> bool,
    ) -> Result<Option<Digest>, Refusal> {
        let (file, name) = (|| self.file.clone(), || self.name().to_owned());
        let ruling = policy.for_source(&self.source);
        let pinned = match &self.signer {
            Signer::Identity { identity, .. } => {
                return Err(Refusal::Keyless { name: name(), identity: identity.clone() });
            }
            Signer::None { .. } if ruling.require == Requirement::Always => {
                return Err(Refusal::Unsigned { name: name(), source_text: self.source.clone() });
            }
            Signer::None { .. } => return Ok(None),
            Signer::Key { fingerprint, .. } => fingerprint,
        };
        let allowed = ruling.keys.iter().find(|key| key.fingerprint() == *pinned);
        if !ruling.keys.is_empty() && allowed.is_none() {
            let source_text = self.source.clone();
            return Err(Refusal::OtherSigner { name: name(), pinned: pinned.clone(), source_text });
        }
        let bytes = provenance.ok_or_else(|| Refusal::NoProvenance { file: file() })?;
        let proof = self.proof(pinned, bytes);
        if was_verified(&proof) {
            return Ok(None);
        }
        let provenance =
            Provenance::parse(bytes).map_err(|error| Refusal::Provenance { file: file(), error })?;
        if let Some(manifest) = self.manifest {
            let Some(bytes) = provenance.manifest.as_ref().filter(|bytes| Digest::of(bytes) == manifest)
            else {
                return Err(Refusal::OtherManifest { file: file() });
            };
            if !is_of_component(bytes, &self.digest) {
                return Err(Refusal::NotInManifest { name: name() });
            }
        }
        let key = allowed.or_else(|| provenance.keys.iter().find(|key| key.fingerprint() == *pinned));
        let Some(key) = key else {
            return Err(Refusal::NoKey { file: file(), name: name(), pinned: pinned.clone() });
        };
        let subject = Subject { manifest: self.manifest, component: self.digest };
        match verify(&[key], &subject, &provenance.signatures) {
            Ok(_) => Ok(Some(proof)),
            Err(error) => Err(Refusal::Signature { error }),
        }
    }

    /// The digest of what decides whether the signature is good: the component, the OCI manifest, the signer and the
    /// provenance file. A key is named by its fingerprint, so it does not matter where the key comes from.
    fn proof(&self, signer: &str, provenance: &[u8]) -> Digest {
        let manifest = self.manifest.map_or_else(|| "none".to_owned(), |manifest| manifest.to_string());
        let provenance = Digest::of(provenance);
        Digest::of(format!("signature 1\n{}\n{manifest}\n{signer}\n{provenance}\n", self.digest).as_bytes())
    }
}
