//! `toolyard push`: publishes a plugin in a registry, signed if a key is given.

use super::{plugins, run_until_stopped};
use crate::config::{Config, Flags};
use crate::install::folder::{PluginFiles, PluginFolder};
use crate::install::{fetch, password};
use crate::spinner::Spinner;
use anyhow::{Context as _, bail};
use clap::{Args, ValueEnum};
use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use toolyard_cli::{bail_usage, read, say};
use toolyard_registry::reference::Reference;
use toolyard_registry::{Artifact, layout};
use toolyard_trust::key::PrivateKey;
use toolyard_trust::signature::{sign_bundle, sign_simple};

/// The annotation with the manifest that the publisher suggests.
const SUGGESTED: &str = "io.toolyard.manifest";
/// The largest suggested manifest, in bytes.
const MAX_SUGGESTED_BYTES: u64 = 16 << 10;
/// The largest file of a private key, in bytes.
const MAX_KEY_BYTES: u64 = 64 << 10;

/// The options of `push`.
#[derive(Debug, Args)]
pub struct Options {
    /// A component, an OCI image layout (.tar), or the name of a plugin of the folder.
    plugin: String,
    /// The address, such as oci://ghcr.io/acme/fetch:1.2.0.
    to: Reference,
    /// Sign with this private key of cosign. Its password is read from COSIGN_PASSWORD or the terminal.
    #[arg(long, value_name = "FILE")]
    sign: Option<PathBuf>,
    /// The form of the signature: that of cosign 2, that of cosign 3, or both.
    #[arg(long, value_enum, default_value_t = Form::Both, requires = "sign")]
    signature: Form,
    /// A manifest to suggest to those who add the plugin. [default: NAME.toml beside the component]
    #[arg(long, value_name = "FILE")]
    manifest: Option<PathBuf>,
    /// An annotation of the image, such as org.opencontainers.image.version=1.2.0; may be repeated.
    #[arg(long = "annotation", value_name = "KEY=VALUE", value_parser = annotation)]
    annotations: Vec<(String, String)>,
}

/// The form of a signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Form {
    /// A tag `sha256-HEX.sig`, as cosign 2 writes it.
    Cosign2,
    /// A referrer with a bundle, as cosign 3 writes it.
    Bundle,
    /// Both.
    Both,
}

fn annotation(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err(format!("expected KEY=VALUE, not `{text}`")),
    }
}

/// Publishes the plugin. A signature that fails publishes nothing under the tag.
pub fn run(flags: &Flags, options: &Options) -> anyhow::Result<ExitCode> {
    let config = plugins::configured(flags)?;
    let mut artifact = artifact(&config, options)?;
    let digest = artifact.digest();
    let to = &options.to;
    if let Some(path) = &options.sign {
        let key = private_key(path)?;
        if options.signature != Form::Bundle {
            let name = Reference { tag: None, digest: None, ..to.clone() }.to_string();
            let name = name.strip_prefix("oci://").unwrap_or(&name);
            artifact.signatures.push(sign_simple(&key, name, digest));
        }
        if options.signature != Form::Cosign2 {
            artifact.signatures.push(sign_bundle(&key, digest));
        }
        say!("signed by  key {}", key.public().fingerprint());
    }
    run_until_stopped(async {
        let spinner = Spinner::new(&format!("pushing to {to}"));
        let pushed = fetch::client(&config)?.push(to, &artifact).await?;
        drop(spinner);
        let at = Reference { digest: Some(pushed), ..to.clone() };
        say!("pushed     {at}");
        Ok(ExitCode::SUCCESS)
    })
}

fn private_key(path: &Path) -> anyhow::Result<PrivateKey> {
    let cannot = || format!("cannot read the private key {}", path.display());
    let pem = read::text(path, MAX_KEY_BYTES).with_context(cannot)?;
    let password = password::existing("COSIGN_PASSWORD", &format!("Password of {}: ", path.display()))?;
    PrivateKey::from_encrypted_pem(&pem, &password).with_context(cannot)
}

fn artifact(config: &Config, options: &Options) -> anyhow::Result<Artifact> {
    let limit = config.limits.component.as_u64();
    let path = match Path::new(&options.plugin) {
        path if path.is_file() => path.to_owned(),
        _ => {
            let path = PluginFolder::read_only(&config.plugins)
                .path()
                .join(PluginFiles::of(&options.plugin).component);
            if !path.is_file() {
                bail!(
                    "there is neither a file {} nor a plugin of that name in {}",
                    options.plugin,
                    config.plugins.display()
                );
            }
            path
        }
    };
    let cannot = || format!("cannot read {}", path.display());
    if path.extension().is_some_and(|extension| extension == "tar") {
        if !options.annotations.is_empty() || options.manifest.is_some() {
            bail_usage!(
                "the annotations of an OCI image layout stay as they are; leave --annotation and --manifest out"
            );
        }
        return layout::read(File::open(&path).with_context(cannot)?, limit).with_context(cannot);
    }
    let component = read::bytes(&path, limit).with_context(cannot)?;
    let mut annotations: BTreeMap<String, String> = BTreeMap::new();
    let title = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    annotations.insert("org.opencontainers.image.title".to_owned(), title);
    if let Some(tag) = &options.to.tag {
        annotations.insert("org.opencontainers.image.version".to_owned(), tag.clone());
    }
    if let Some(suggested) = suggested(&path, options)? {
        annotations.insert(SUGGESTED.to_owned(), suggested);
    }
    annotations.extend(options.annotations.iter().cloned());
    Artifact::new(component, annotations, created(&path)).with_context(|| path.display().to_string())
}

/// The manifest to suggest.
fn suggested(component: &Path, options: &Options) -> anyhow::Result<Option<String>> {
    let beside = component.with_extension("toml");
    let path = match &options.manifest {
        Some(path) => path,
        None if beside.is_file() => &beside,
        None => return Ok(None),
    };
    let cannot = || format!("cannot suggest the manifest {}", path.display());
    let text = read::text(path, MAX_SUGGESTED_BYTES).with_context(cannot)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    toolyard_manifest::Manifest::parse(&name, &text, &toolyard_manifest::Limits::default())
        .with_context(cannot)?;
    Ok(Some(text))
}

/// The time that the image names: that of `SOURCE_DATE_EPOCH`, else that of the file, so that the same file gives the
/// same image.
fn created(path: &Path) -> Option<jiff::Timestamp> {
    let named = std::env::var("SOURCE_DATE_EPOCH").ok().and_then(|text| text.parse::<i64>().ok());
    if let Some(seconds) = named {
        return jiff::Timestamp::from_second(seconds).ok();
    }
    let modified = path.metadata().and_then(|found| found.modified()).ok()?;
    jiff::Timestamp::try_from(modified).ok()
}
