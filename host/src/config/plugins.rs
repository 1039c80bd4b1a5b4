//! The tables `[[plugins.signers]]` and `[registries]`: whose signature a plugin needs, and how to reach the
//! registries that plugins come from.

use super::limits::Limits;
use anyhow::{Context as _, bail, ensure};
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor, value::MapAccessDeserializer};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use toolyard_cli::read;
use toolyard_registry::Registry;
use toolyard_trust::key::PublicKey;
use toolyard_trust::policy::{Policy, Requirement, SignerRule};

/// The largest file of a public key, in bytes.
const MAX_KEY_BYTES: u64 = 64 << 10;

/// The table `[plugins]` as written. Its other keys are flat.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct PluginTables {
    #[serde(default)]
    signers: Vec<SignerRow>,
}

/// The keys of these tables.
pub const KEYS: [&str; 1] = ["plugins.signers"];

/// An entry of `[[plugins.signers]]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct SignerRow {
    /// Sources, as globs.
    from: Vec<String>,
    /// Files of public keys.
    #[serde(default)]
    keys: Vec<PathBuf>,
    identity: Option<String>,
    issuer: Option<String>,
    require_signature: Option<Requirement>,
}

/// The tables `[registries."HOST"]`, by host and port.
pub type RegistryTables = BTreeMap<String, Registry>;

/// The table of a configuration file in the folder `base`.
pub fn under(registry: Registry, base: &Path) -> Registry {
    Registry { ca: registry.ca.map(|path| base.join(path)), ..registry }
}

/// Reads `[plugins]`. `plugins` may also be the path of the folder, which this reader skips.
pub fn table_or_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PluginTables, D::Error> {
    struct TableOrText;

    impl<'de> Visitor<'de> for TableOrText {
        type Value = PluginTables;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("a path or a table")
        }

        fn visit_str<E>(self, _path: &str) -> Result<PluginTables, E> {
            Ok(PluginTables::default())
        }

        fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<PluginTables, A::Error> {
            PluginTables::deserialize(MapAccessDeserializer::new(map))
        }
    }

    deserializer.deserialize_any(TableOrText)
}

impl PluginTables {
    /// The policy of this configuration, whose folder is `base`.
    ///
    /// # Errors
    /// The value that does not fit, or the key that cannot be read.
    pub fn resolve(self, base: &Path, limits: &Limits) -> anyhow::Result<Policy> {
        let rules = self.signers.into_iter().map(|row| row.resolve(base)).collect::<Result<_, _>>()?;
        Ok(Policy { rules, default: limits.require_signature })
    }
}

impl SignerRow {
    fn resolve(self, base: &Path) -> anyhow::Result<SignerRule> {
        let Self { from, keys, identity, issuer, require_signature } = self;
        ensure!(
            !from.is_empty(),
            "[[plugins.signers]]: `from` is empty; name sources such as \"oci://ghcr.io/acme/*\""
        );
        if identity.is_some() || issuer.is_some() {
            bail!(
                "[[plugins.signers]]: signatures without a key pair (`identity`, `issuer`) are not supported yet; \
                 name `keys`"
            );
        }
        let keys = keys.iter().map(|path| public_key(&base.join(path))).collect::<Result<Vec<_>, _>>()?;
        let require = match (require_signature, keys.is_empty()) {
            (Some(Requirement::Always) | None, false) => Requirement::Always,
            (Some(_), false) => {
                bail!(
                    "[[plugins.signers]]: with `keys`, a signature is always required; leave `require-signature` out"
                )
            }
            (Some(require), true) => require,
            (None, true) => bail!("[[plugins.signers]]: name `keys` or `require-signature`"),
        };
        Ok(SignerRule { from, keys, require })
    }
}

/// Reads a public key from a file.
///
/// # Errors
/// The file cannot be read, or contains no public key.
pub fn public_key(path: &Path) -> anyhow::Result<PublicKey> {
    let cannot = || format!("cannot read the public key {}", path.display());
    let text = read::text(path, MAX_KEY_BYTES).with_context(cannot)?;
    PublicKey::from_pem(&text).with_context(cannot)
}
