//! The grants of a manifest: everything that a guest can reach beyond pure computation. Anything
//! else does not exist for the guest.

mod checked;
mod folders;
pub(crate) mod http;
mod kernel;
mod mounts;
mod overlap;
pub(crate) mod redact;
pub(crate) mod secret;
pub(crate) mod secret_command;
mod unlinked;

pub(crate) use checked::{CheckedMounts, number};
pub use folders::FolderGrant;
pub(crate) use folders::{OpenFolder, Pins, find};
pub(crate) use overlap::faults;

use crate::grant::http::{HttpGrant, Injection, filled};
use crate::grant::redact::Redactor;
use crate::grant::secret::Secret;
use crate::settings::Settings;
use mounts::Mounts;
use overlap::SecretFile;
use std::path::Path;
use std::sync::Arc;
use toolyard_manifest::{ClockGrant, Manifest, ManifestError, NamedInjection, RandomGrant, SocketGrant};
use toolyard_task::{NotPermitted, RunContext};

/// The resources that the runs of a plugin may use.
#[derive(Debug, Default)]
pub(crate) struct Grants {
    /// Environment variables.
    pub env: Vec<(String, String)>,
    /// Folders, held open.
    pub folders: Vec<OpenFolder>,
    /// The mounts that contain the folders, and those inside them.
    pub mounts: Arc<CheckedMounts>,
    /// The files that its secrets were read from.
    pub secret_files: Vec<SecretFile>,
    /// Hosts of outgoing requests, with the headers that the host adds for them.
    pub http: HttpGrant,
    /// Peers of raw sockets.
    pub sockets: SocketGrant,
    /// The resolution of its clocks.
    pub clock: ClockGrant,
    /// The source of its random numbers.
    pub random: RandomGrant,
    /// Values that only the plugin may see.
    pub secrets: Vec<Secret>,
    /// Finds the secrets in data that leaves the host; `None` if the plugin has none.
    pub redactor: Option<Arc<Redactor>>,
}

impl Grants {
    /// Resolves on this machine the grants in the manifest of the component `file` in the folder
    /// `place`. A path that `pins` holds is granted only if it still leads to the same folder.
    ///
    /// # Errors
    /// If a granted resource does not exist or must not be granted.
    pub fn of(
        (place, file): (&Path, &str),
        manifest: &Manifest,
        settings: &Settings,
        pins: &Pins,
    ) -> Result<Self, ManifestError> {
        let name = &toolyard_manifest::file_name(file);
        let refuse = |line, what: String| ManifestError { file: name.to_owned(), line, what };
        let needs_mounts = !manifest.folders.is_empty() || !manifest.secrets.is_empty();
        let mounts = needs_mounts.then(Mounts::read).flatten();
        let mounts = mounts.as_ref();
        let mut folders = find(name, place, &manifest.folders, &settings.private, mounts, pins)?;
        let checked = folders.iter_mut().map(|folder| std::mem::take(&mut folder.mounts));
        let checked = Arc::new(CheckedMounts::together(checked));
        let injected: Vec<&str> = manifest.http.secrets().map(|(secret, _)| secret).collect();
        let sources = secret::Sources {
            variable: settings.variable,
            commands: &settings.secret_commands,
            stand_ins: settings.stand_ins,
        };
        let secrets = secret::find(name, place, &manifest.secrets, &injected, sources)?;
        let injection = |named: &NamedInjection| {
            let headers = named.headers.iter().map(|header| {
                let value = filled(&header.value, &secrets).ok_or_else(|| {
                    let what = "with its secrets filled in it is no value of a header";
                    refuse(header.line, format!("`http.inject`: `{}`: {what}", header.name))
                })?;
                Ok((header.name.clone(), value))
            });
            Ok(Injection { written: named.written.clone(), headers: headers.collect::<Result<_, _>>()? })
        };
        let injections = manifest.http.injections.iter().map(injection).collect::<Result<_, _>>()?;
        let redactor = Redactor::new(&secrets).map_err(|what| refuse(None, format!("`secrets`: {what}")))?;
        let grants = Self {
            env: manifest.env.clone(),
            folders,
            mounts: checked,
            secret_files: SecretFile::of(&manifest.secrets, place, mounts),
            http: HttpGrant {
                rules: manifest.http.rules.clone(),
                injections,
                keyed: manifest.http.keyed,
                in_doubt: manifest.http.in_doubt,
            },
            sockets: manifest.sockets.clone(),
            clock: manifest.clock,
            random: manifest.random,
            secrets,
            redactor: redactor.map(Arc::new),
        };
        match faults(&[(file, &grants)]).into_values().next() {
            None => Ok(grants),
            Some(fault) => Err(fault),
        }
    }

    /// Whether a folder was moved, replaced or removed since it was opened, or a guest has
    /// encountered a mount that was made in one since then.
    pub fn are_stale(&self) -> bool {
        self.mounts.is_outdated() || !self.folders.iter().all(OpenFolder::is_in_place)
    }

    /// The variables without the secrets.
    pub fn plain_environment(&self) -> impl Iterator<Item = (&str, &str)> {
        self.env.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// The secrets that a guest sees as variables.
    pub fn exposed_secrets(&self) -> impl Iterator<Item = (&str, &str)> {
        let exposed = self.secrets.iter().filter(|secret| secret.exposed);
        exposed.map(|secret| (secret.name(), secret.reveal()))
    }

    /// The environment variables that a guest sees.
    pub fn environment(&self) -> impl Iterator<Item = (&str, &str)> {
        self.plain_environment().chain(self.exposed_secrets())
    }

    /// Replaces the secrets in a text.
    pub fn clean(&self, text: String) -> String {
        match &self.redactor {
            Some(redactor) => redactor.text(text),
            None => text,
        }
    }

    /// Asks the user for permission to use the folders that the manifest leaves to them.
    ///
    /// # Errors
    /// The first refused folder; the run must not begin.
    pub async fn permitted(&self, context: &Arc<dyn RunContext>) -> Result<(), NotPermitted> {
        let wanted: Vec<_> = self.folders.iter().filter_map(|folder| folder.grant.wanted()).collect();
        if wanted.is_empty() { Ok(()) } else { context.permission(wanted).await }
    }
}
