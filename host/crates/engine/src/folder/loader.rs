//! One file of the plugin folder: reading it and its manifest, and making a plugin of the two.

use crate::component::compile_turn::CompileTurn;
use crate::error::Refusal;
use crate::folder::component_loader;
use crate::folder::component_registry::{Claim, ComponentRegistry, Lookup};
use crate::folder::plugin::Plugin;
use crate::folder::scan::{self, FileStamps};
use crate::grant::Pins;
use crate::run::engine::Engine;
use crate::run::loaded::LoadedComponent;
use cap_std::fs::Dir;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::runtime::Handle;
use tokio::sync::watch;
use toolyard_manifest::{self as manifest, Manifest, ManifestError};

/// What is known of one file.
#[derive(Clone)]
pub(crate) struct LoadedFile {
    pub seen: FileStamps,
    manifest_text: Option<String>,
    pub manifest: Result<Arc<Manifest>, Refusal>,
    /// The folders that the manifest was found to grant.
    pins: Pins,
    /// The last component under this name that was good.
    code: Option<Arc<LoadedComponent>>,
    /// Why the component in the folder is not that one.
    pub fault: Option<Refusal>,
    /// The two together.
    pub built: Result<Arc<Plugin>, Refusal>,
}

impl LoadedFile {
    /// Whether it is worth another look though the file seems unchanged.
    pub fn may_pass(&self) -> bool {
        // A folder that is granted, or the file of a secret, may be made yet.
        let lacks_file = matches!(
            (&self.manifest, &self.built),
            (Ok(manifest), Err(Refusal::Manifest(_)))
                if !manifest.folders.is_empty() || !manifest.secrets.is_empty()
        );
        // Or one that was granted may have been replaced.
        let lost_folder = self.built.as_ref().is_ok_and(|plugin| plugin.base.grants.are_stale());
        lacks_file || lost_folder || self.fault.as_ref().is_some_and(Refusal::may_pass)
    }

    /// What serves under the same manifest and component, where these were read and only the
    /// grants are to be looked for again.
    fn without_grants(&self) -> Option<(&Arc<LoadedComponent>, &Arc<Manifest>)> {
        match (&self.code, &self.manifest, &self.fault) {
            (Some(code), Ok(manifest), None) if manifest.enabled => Some((code, manifest)),
            _ => None,
        }
    }

    pub fn is_disabled(&self) -> bool {
        self.manifest.as_ref().is_ok_and(|manifest| !manifest.enabled)
    }

    pub fn has_manifest_of(&self, plugin: &Plugin) -> bool {
        self.manifest.as_ref().is_ok_and(|manifest| Arc::ptr_eq(manifest, &plugin.base.manifest))
    }

    /// The state after a panic of the engine's code: the version before stays.
    pub fn after_panic(seen: FileStamps, former: Option<Arc<Self>>, error: &tokio::task::JoinError) -> Self {
        let fault = Refusal::Internal(error.to_string());
        match former {
            Some(former) => Self {
                seen,
                manifest_text: former.manifest_text.clone(),
                manifest: former.manifest.clone(),
                pins: former.pins.clone(),
                code: former.code.clone(),
                fault: Some(fault),
                built: former.built.clone(),
            },
            None => Self {
                seen,
                manifest_text: None,
                manifest: Err(fault.clone()),
                pins: Pins::default(),
                code: None,
                fault: None,
                built: Err(fault),
            },
        }
    }

    /// Pins the folders that it was granted.
    fn hold_folders(&mut self) {
        if let Ok(plugin) = &self.built {
            self.pins.hold(&plugin.base.grants.folders);
        }
    }
}

/// A file that is to be loaded, and what that needs.
pub(crate) struct FileLoader {
    pub engine: Arc<Engine>,
    pub runtime: Handle,
    pub dir: Arc<Dir>,
    /// Where that is.
    pub place: PathBuf,
    pub name: String,
    pub seen: FileStamps,
    pub former: Option<Arc<LoadedFile>>,
    pub components: Arc<ComponentRegistry>,
}

/// How far one turn led.
pub(crate) enum Step {
    Done(Arc<LoadedFile>),
    /// Another file has the same component, which is being loaded; the receiver ends with that.
    Busy(watch::Receiver<()>),
    /// The component takes longer than a quick turn.
    Slow(Claim),
    Cancelled,
}

/// Why there is no component.
enum NoCode {
    Refused(Refusal),
    Busy(watch::Receiver<()>),
    Interrupted(Claim),
}

impl FileLoader {
    /// Loads it within a turn, `claim` being that of a former turn. Blocks.
    pub fn load(&self, turn: &mut CompileTurn, claim: Option<Claim>) -> Step {
        let former = self.former.as_deref();
        if let Some(former) = former.filter(|former| former.seen == self.seen)
            && let Some((code, manifest)) = former.without_grants()
        {
            let mut held = former.clone();
            held.built = self.build(code, manifest, &held.pins);
            held.hold_folders();
            return Step::Done(Arc::new(held));
        }
        let (manifest_text, manifest) = self.manifest();
        let mut held = LoadedFile {
            seen: self.seen,
            code: former.and_then(|former| former.code.clone()),
            fault: None,
            built: Err(Refusal::Toolless),
            pins: former.map(|former| former.pins.clone()).unwrap_or_default(),
            manifest_text,
            manifest,
        };
        let manifest = match &held.manifest {
            Ok(manifest) => manifest.clone(),
            Err(why) => {
                held.built = Err(why.clone());
                if held.manifest_text.is_none() {
                    held.fault = Some(Refusal::Unreadable(why.to_string()));
                }
                return Step::Done(Arc::new(held));
            }
        };
        // Only now: a manifest that cannot be read for a moment is no other one.
        held.pins = held.pins.of_manifest(held.manifest_text.as_deref());
        if !manifest.enabled {
            return Step::Done(Arc::new(held));
        }
        match self.code(turn, claim) {
            Ok(code) => held.code = Some(code),
            Err(NoCode::Refused(fault)) => held.fault = Some(fault),
            Err(NoCode::Busy(other)) => return Step::Busy(other),
            Err(NoCode::Interrupted(_)) if turn.is_cancelled() => return Step::Cancelled,
            Err(NoCode::Interrupted(claim)) => return Step::Slow(claim),
        }
        held.built = match (&held.code, &held.fault) {
            (Some(code), _) => self.build(code, &manifest, &held.pins),
            (None, Some(fault)) => Err(fault.clone()),
            (None, None) => Err(Refusal::Toolless),
        };
        held.hold_folders();
        Step::Done(Arc::new(held))
    }

    /// The manifest's text and meaning; the former object if the text is the same,
    /// unless it was touched so that its secrets are read anew.
    fn manifest(&self) -> (Option<String>, Result<Arc<Manifest>, Refusal>) {
        let text = match self.manifest_text() {
            Ok(text) => text,
            Err(error) => return (None, Err(error.into())),
        };
        if let Some(former) = &self.former
            && former.manifest_text == text
            && let Ok(manifest) = &former.manifest
            && (manifest.secrets.is_empty() || former.seen.manifest == self.seen.manifest)
        {
            return (text, former.manifest.clone());
        }
        let defaults = &self.engine.settings.limits;
        let manifest = match &text {
            None => Ok(Manifest::absent(defaults)),
            Some(text) => Manifest::parse(&manifest::file_name(&self.name), text, defaults),
        };
        (text, manifest.map(Arc::new).map_err(Refusal::from))
    }

    /// The manifest's text, if there is one.
    pub fn manifest_text(&self) -> Result<Option<String>, ManifestError> {
        let Some(seen) = self.seen.manifest else {
            return Ok(None);
        };
        let name = manifest::file_name(&self.name);
        let error = |what: String| ManifestError { file: name.clone(), line: None, what };
        let bytes =
            scan::read(&self.dir, &name, seen, (manifest::MAX_BYTES, self.engine.settings.others_may_write))
                .map_err(|refusal| error(refusal.to_string()))?;
        String::from_utf8(bytes).map(Some).map_err(|_| error("is not UTF-8".to_owned()))
    }

    /// The component, from memory if its bytes are known.
    fn code(&self, turn: &mut CompileTurn, claim: Option<Claim>) -> Result<Arc<LoadedComponent>, NoCode> {
        let settings = &self.engine.settings;
        let bounds = (settings.max_component_bytes, settings.others_may_write);
        let bytes =
            scan::read(&self.dir, &self.name, self.seen.component, bounds).map_err(NoCode::Refused)?;
        let digest = component_loader::digest(&bytes);
        if settings.require_digest.as_ref().is_some_and(|listed| !listed.contains(&digest.0)) {
            return Err(NoCode::Refused(Refusal::Unlisted(digest.0)));
        }
        let claim = match claim.filter(|claim| claim.digest() == digest.0) {
            Some(claim) => claim,
            None => match self.components.find(&digest.0) {
                Lookup::Loaded(code) => return Ok(code),
                Lookup::Refused(why) => return Err(NoCode::Refused(why)),
                Lookup::Busy(other) => return Err(NoCode::Busy(other)),
                Lookup::Vacant(claim) => claim,
            },
        };
        match component_loader::load(&self.engine, (&self.runtime, turn), &self.name, &bytes, digest)
            .map(Arc::new)
        {
            Err(Refusal::Interrupted) => Err(NoCode::Interrupted(claim)),
            loaded => {
                claim.settle(&loaded);
                loaded.map_err(NoCode::Refused)
            }
        }
    }

    /// The two together; the former object if neither changed.
    fn build(
        &self,
        code: &Arc<LoadedComponent>,
        manifest: &Arc<Manifest>,
        pins: &Pins,
    ) -> Result<Arc<Plugin>, Refusal> {
        if let Some(Ok(former)) = self.former.as_ref().map(|former| &former.built)
            && Arc::ptr_eq(&former.base.component, code)
            && Arc::ptr_eq(&former.base.manifest, manifest)
            && !former.base.grants.are_stale()
        {
            return Ok(former.clone());
        }
        let place = (&*self.place, self.name.as_str());
        Plugin::new(&self.engine, place, code.clone(), manifest.clone(), pins).map(Arc::new)
    }

    /// Loads it for a report on it alone.
    pub fn plugin(&self) -> Result<Plugin, Refusal> {
        let manifest = self.manifest().1?;
        let place = (&*self.place, self.name.as_str());
        let code = self.code(&mut CompileTurn::alone(), None).map_err(|none| match none {
            NoCode::Refused(why) => why,
            // Neither happens to a file that is loaded alone.
            NoCode::Busy(_) | NoCode::Interrupted(_) => Refusal::Interrupted,
        })?;
        Plugin::new(&self.engine, place, code, manifest, &Pins::default())
    }
}
