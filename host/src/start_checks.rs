//! Checks what a start of the host needs besides its address and its store. `serve` makes them first; `config check` and
//! each reload make the same ones, so that a configuration that passes also starts.

use crate::config::{Config, encryption};
use crate::traces::Otlp;
use crate::{assemble, plugin_folder, protect};
use std::fs::File;
use toolyard_transport::auth::KeySource;

/// Checks a configuration. Makes the data folder, as a start does.
///
/// # Errors
/// Why the host would not start.
pub fn check(config: &Config) -> anyhow::Result<()> {
    config.check_address()?;
    plugin_folder::check(config)?;
    encryption::keys(config.key_file.as_deref())?;
    Otlp::endpoint(config)?;
    protect::data_folder(config)?;
    assemble::audit_log(config)?;
    assemble::policy(config)?;
    Ok(())
}

/// Faults that appear only while the host serves.
pub fn warnings(config: &Config) -> Vec<String> {
    let dropped = config.dropped_keys().map(|(key, instead, origin)| {
        format!("{origin}: `{key}` is no longer a setting: {instead}; remove the key")
    });
    let mut warnings: Vec<_> = dropped.collect();
    for issuer in &config.auth.issuers {
        if let KeySource::File(path) = &issuer.keys
            && let Err(error) = File::open(path)
        {
            let (issuer, path) = (&issuer.issuer, path.display());
            warnings.push(format!("[[auth.issuers]] {issuer}: `jwks-file` = {path}: {error}"));
        }
    }
    let both = config.registries.iter().filter(|(_, registry)| registry.ca.is_some() && registry.plain_http);
    warnings.extend(
        both.map(|(host, _)| format!("[registries.\"{host}\"]: `ca` has no effect with `plain-http`")),
    );
    warnings
}
