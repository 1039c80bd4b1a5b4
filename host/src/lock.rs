//! Obeys `toolyard.lock`: says for each file of the plugin folder whether it may be loaded.

use crate::config::Config;
use crate::config::value::LockMode;
use crate::install::{candidate, held};
use crate::lock_file::{parse, stem};
use crate::verified::VerifiedSignatures;
use std::path::PathBuf;
use std::sync::Arc;
use toolyard_engine::{LOCK_FILE, LockEntries, LockReader, LockedPlugin};
use toolyard_trust::Digest;
use toolyard_trust::lock::Lock;
use toolyard_trust::policy::Policy;

/// Reads the lock file of the plugin folder.
#[derive(Debug)]
pub struct PluginLock {
    is_enforced: bool,
    policy: Arc<Policy>,
    data: PathBuf,
    verified: Arc<VerifiedSignatures>,
}

impl PluginLock {
    /// The reader of this configuration; `None` if the lock file is ignored.
    pub fn reader(config: &Config) -> Option<Arc<dyn LockReader>> {
        let is_enforced = match config.limits.lock {
            LockMode::Off => return None,
            LockMode::Auto => false,
            LockMode::Enforce => true,
        };
        let verified = Arc::new(VerifiedSignatures::of(&config.data));
        let data = config.data.clone();
        Some(Arc::new(Self { is_enforced, policy: config.signers.clone(), data, verified }))
    }
}

impl LockReader for PluginLock {
    fn read(&self, text: Result<Option<&[u8]>, String>) -> Arc<dyn LockEntries> {
        let lock = match text {
            Ok(None) => Ok(Lock::empty()),
            Ok(Some(text)) => parse(text),
            Err(why) => Err(why),
        };
        let lock = lock.map_err(|why| format!("{LOCK_FILE}: {why}"));
        if let Err(why) = &lock {
            tracing::warn!(
                event = "plugin.lock_not_read", error = %why,
                "cannot read the lock file; no component of the folder is loaded"
            );
        }
        let (policy, verified) = (self.policy.clone(), self.verified.clone());
        Arc::new(Entries { lock, is_enforced: self.is_enforced, policy, verified })
    }

    fn held(&self) -> usize {
        held::names(&self.data).len()
    }
}

#[derive(Debug)]
struct Entries {
    lock: Result<Lock, String>,
    is_enforced: bool,
    policy: Arc<Policy>,
    verified: Arc<VerifiedSignatures>,
}

impl LockEntries for Entries {
    fn is_readable(&self) -> bool {
        self.lock.is_ok()
    }

    fn check_component(&self, file: &str, digest: &str) -> Result<(), String> {
        match self.lock.as_ref()?.entry(file) {
            Some(entry) => entry.check_component(parse_digest(digest)?).map_err(|why| why.to_string()),
            None if self.is_enforced => Err(format!(
                "has no entry in {LOCK_FILE}, which `plugins.lock = \"enforce\"` demands; `toolyard accept {}` \
                 adds one",
                stem(file)
            )),
            None => Ok(()),
        }
    }

    fn check_plugin(&self, plugin: &LockedPlugin<'_>) -> Result<(), String> {
        let Some(entry) = self.lock.as_ref()?.entry(plugin.file) else { return Ok(()) };
        entry.check_grants(plugin.grants).map_err(|why| why.to_string())?;
        if self.is_enforced {
            entry.check_settings(plugin.settings).map_err(|why| why.to_string())?;
        }
        // The signatures of a version before the one in the folder were checked when it was loaded.
        if parse_digest(plugin.digest)? != entry.digest {
            return Ok(());
        }
        if self.is_enforced {
            let definitions =
                candidate::definitions(&plugin.definitions).map_err(|error| format!("{error:#}"))?;
            entry.check_definitions(&definitions).map_err(|why| why.to_string())?;
        }
        let provenance = plugin.provenance.as_ref().map_err(Clone::clone)?;
        let checked =
            entry.check_unverified_signature(*provenance, &self.policy, |proof| self.verified.has(proof));
        if let Some(proof) = checked.map_err(|why| why.to_string())? {
            self.verified.add(proof);
        }
        Ok(())
    }
}

fn parse_digest(hex: &str) -> Result<Digest, String> {
    format!("sha256:{hex}").parse().map_err(|error| format!("{error}"))
}
