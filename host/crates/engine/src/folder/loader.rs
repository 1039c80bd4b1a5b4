//! Loads one file of the plugin folder: reads it and its manifest, and makes a plugin from both.

use crate::component::compile_turn::CompileTurn;
use crate::error::Refusal;
use crate::folder::component_loader;
use crate::folder::component_registry::{ComponentRegistry, LoadPermit, Lookup};
use crate::folder::pending::KnownDefinitions;
use crate::folder::plugin::{self, Plugin};
use crate::folder::plugin_dir::PluginDir;
use crate::folder::scan::{self, FileStamps};
use crate::grant::Pins;
use crate::lock::{self, DeclaredDefinition, LockEntries, LockedPlugin, MAX_PROVENANCE_BYTES};
use crate::run::engine::Engine;
use crate::run::loaded::{self, LoadedComponent};
use crate::settings::QuickCode;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, watch};
use toolyard_manifest::{self as manifest, Manifest, ManifestError, Source};
use toolyard_task::Digest;

/// The state of one file.
#[derive(Clone)]
pub(crate) struct LoadedFile {
    pub seen: FileStamps,
    manifest_text: Option<String>,
    pub manifest: Result<Arc<Manifest>, Refusal>,
    /// The folders granted so far, pinned by their identity.
    pins: Pins,
    /// The last valid component under this name.
    code: Option<Arc<LoadedComponent>>,
    /// Why the component now in the folder is not `code`.
    pub fault: Option<Refusal>,
    /// The plugin made from `code` and `manifest`.
    pub built: Result<Arc<Plugin>, Refusal>,
    /// Whether the code was compiled quickly, and is to be optimised.
    pub is_quick: bool,
}

impl LoadedFile {
    /// Whether another load may succeed or is needed although the file seems unchanged.
    pub fn may_pass(&self) -> bool {
        // A granted folder or the file of a secret may be created later. A command that failed is run again only when
        // the operator asks: it may ask a server, which may count attempts.
        let lacks_file = matches!(
            (&self.manifest, &self.built),
            (Ok(manifest), Err(Refusal::Manifest(_)))
                if (!manifest.folders.is_empty() || !manifest.secrets.is_empty())
                    && !manifest.secrets.iter().any(|secret| matches!(secret.source, Source::Command(_)))
        );
        // A granted folder may have been replaced.
        let lost_folder = self.built.as_ref().is_ok_and(|plugin| plugin.base.grants.are_stale());
        lacks_file || lost_folder || self.fault.as_ref().is_some_and(Refusal::may_pass)
    }

    /// The component and the manifest, if both were read and only the grants must be resolved
    /// again.
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

    /// The state after the engine's code panicked: the previous version stays.
    pub fn after_panic(seen: FileStamps, former: Option<Arc<Self>>, error: &tokio::task::JoinError) -> Self {
        let fault = Refusal::Internal(error.to_string());
        match former {
            Some(former) => Self { seen, fault: Some(fault), is_quick: false, ..(*former).clone() },
            None => Self {
                seen,
                manifest_text: None,
                manifest: Err(fault.clone()),
                pins: Pins::default(),
                code: None,
                fault: None,
                built: Err(fault),
                is_quick: false,
            },
        }
    }

    /// Pins the folders that the plugin was granted.
    fn hold_folders(&mut self) {
        if let Ok(plugin) = &self.built {
            self.pins.hold(&plugin.base.grants.folders);
        }
    }
}

/// A file to load, with everything that the load needs.
pub(crate) struct FileLoader {
    pub engine: Arc<Engine>,
    pub runtime: Handle,
    pub dir: Arc<PluginDir>,
    /// The path of `dir`.
    pub place: PathBuf,
    pub name: String,
    pub seen: FileStamps,
    /// The entries of the lock file, if it is obeyed.
    pub lock: Option<Arc<dyn LockEntries>>,
    /// Whether its secrets are read again, although no file changed.
    pub reads_secrets: bool,
    /// Whether the start of the host, or a command, waits for it.
    pub is_awaited: bool,
    /// Whether its component, which serves with quick code, is optimised.
    pub optimizes: bool,
    pub former: Option<Arc<LoadedFile>>,
    pub components: Arc<ComponentRegistry>,
    /// The receiver of definitions that are known before the component is compiled.
    pub known: Option<mpsc::UnboundedSender<KnownDefinitions>>,
}

/// The outcome of one turn.
pub(crate) enum Step {
    Done(Arc<LoadedFile>),
    /// Another file has the same component, which is being loaded; the receiver completes when that
    /// load ends.
    Busy(watch::Receiver<()>),
    /// The component takes too long for the quick lane.
    Slow(LoadPermit),
    Cancelled,
}

/// Why there is no component.
enum NoCode {
    Refused(Refusal),
    Busy(watch::Receiver<()>),
    Interrupted(LoadPermit),
}

impl FileLoader {
    /// Loads the file within a turn. `claim` is the permit from an earlier turn. Blocks.
    pub fn load(&self, turn: &mut CompileTurn, claim: Option<LoadPermit>) -> Step {
        let former = self.former.as_deref();
        let is_same =
            |former: &&LoadedFile| former.seen == self.seen && !self.reads_secrets && !self.optimizes;
        if let Some(former) = former.filter(is_same)
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
            is_quick: false,
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
        // Not before this point: a manifest that is temporarily unreadable is not a different
        // manifest.
        held.pins = held.pins.of_manifest(held.manifest_text.as_deref());
        if !manifest.enabled {
            return Step::Done(Arc::new(held));
        }
        match self.code(turn, claim, &manifest) {
            Ok(code) => {
                held.is_quick = code.is_quick && self.engine.settings.quick_code == QuickCode::Meanwhile;
                held.code = Some(code);
            }
            // The plugin goes on with the code that it has.
            Err(NoCode::Refused(_)) if self.optimizes && turn.is_cancelled() => return Step::Cancelled,
            Err(NoCode::Refused(fault))
                if self.optimizes
                    && let Some(former) = former =>
            {
                tracing::warn!(
                    event = "plugin.not_optimized", plugin = self.name, error = %fault,
                    "cannot optimise plugin; its code stays slow"
                );
                return Step::Done(Arc::new(LoadedFile { is_quick: false, ..former.clone() }));
            }
            Err(NoCode::Refused(fault)) => held.fault = Some(fault),
            Err(NoCode::Busy(other)) => return Step::Busy(other),
            Err(NoCode::Interrupted(_)) if turn.is_cancelled() => return Step::Cancelled,
            Err(NoCode::Interrupted(claim)) => return Step::Slow(claim),
        }
        if let (Some(code), None) = (&held.code, &held.fault) {
            match self.with_journal(turn, code, &manifest) {
                Ok(()) => {}
                Err(Refusal::Interrupted) => return Step::Cancelled,
                Err(why) => held.fault = Some(why),
            }
        }
        held.built = match (&held.code, &held.fault) {
            (Some(code), _) => {
                self.check_lock(code, &manifest).and_then(|()| self.build(code, &manifest, &held.pins))
            }
            (None, Some(fault)) => Err(fault.clone()),
            (None, None) => Err(Refusal::Toolless),
        };
        // A lock file that cannot be read judges nothing. A plugin that serves was judged before, and goes on as it is.
        if let (Err(why), Some(lock)) = (&held.built, &self.lock)
            && !lock.is_readable()
            && let Some(former) = former.filter(|former| former.built.is_ok() && self.has_files_of(former))
        {
            let (seen, fault) = (self.seen, Some(why.clone()));
            return Step::Done(Arc::new(LoadedFile { seen, fault, ..former.clone() }));
        }
        // Only its secrets were read again, and one is not there: what serves goes on with those that it has.
        if self.reads_secrets
            && let Err(why @ Refusal::Manifest(_)) = &held.built
            && let Some(former) = former.filter(|former| former.seen == self.seen && former.built.is_ok())
        {
            return Step::Done(Arc::new(LoadedFile { fault: Some(why.clone()), ..former.clone() }));
        }
        held.hold_folders();
        Step::Done(Arc::new(held))
    }

    /// Whether the component and the manifest in the folder are those that this was loaded from.
    fn has_files_of(&self, former: &LoadedFile) -> bool {
        (former.seen.component, former.seen.manifest) == (self.seen.component, self.seen.manifest)
    }

    /// Reads the manifest's text and parses it. Returns the previous object if the text is the
    /// same, unless the file was touched so that its secrets are read again.
    fn manifest(&self) -> (Option<String>, Result<Arc<Manifest>, Refusal>) {
        let text = match self.manifest_text() {
            Ok(text) => text,
            Err(error) => return (None, Err(error.into())),
        };
        if let Some(former) = &self.former
            && former.manifest_text == text
            && let Ok(manifest) = &former.manifest
            && (manifest.secrets.is_empty()
                || former.seen.manifest == self.seen.manifest && !self.reads_secrets)
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

    /// The manifest's text; `None` if there is no manifest.
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

    /// Gets the component, from memory if its bytes are known.
    fn code(
        &self,
        turn: &mut CompileTurn,
        claim: Option<LoadPermit>,
        manifest: &Manifest,
    ) -> Result<Arc<LoadedComponent>, NoCode> {
        let settings = &self.engine.settings;
        let bounds = (settings.max_component_bytes, settings.others_may_write);
        let bytes =
            scan::read(&self.dir, &self.name, self.seen.component, bounds).map_err(NoCode::Refused)?;
        let digest = component_loader::digest(&bytes);
        if !settings.allows(&digest) {
            return Err(NoCode::Refused(Refusal::Unlisted(digest.0)));
        }
        if let Some(lock) = &self.lock {
            let checked = lock.check_component(&self.name, &digest.0);
            checked.map_err(|why| NoCode::Refused(Refusal::Locked(why)))?;
        }
        if self.former.is_none() && claim.is_none() {
            self.tell_definitions(&digest, manifest);
        }
        let load = |turn: &mut CompileTurn, digest| {
            let file = (&*self.name, &*bytes);
            component_loader::load(&self.engine, (&self.runtime, turn), file, digest, self.optimizes)
                .map(Arc::new)
        };
        if self.optimizes {
            return match self.components.optimized(&digest.0) {
                Some(code) => Ok(code),
                // The files that have it go on with its quick code, so none waits.
                None => {
                    load(turn, digest).inspect(|code| self.components.replace(code)).map_err(NoCode::Refused)
                }
            };
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
        match load(turn, digest) {
            Err(Refusal::Interrupted) => Err(NoCode::Interrupted(claim)),
            loaded => {
                claim.settle(&loaded);
                loaded.map_err(NoCode::Refused)
            }
        }
    }

    /// Tells the definitions of a component that has to be compiled, if they are known from an earlier load.
    fn tell_definitions(&self, digest: &Digest, manifest: &Manifest) {
        let Some(known) = self.known.as_ref().filter(|_| !component_loader::has_code(&self.engine, digest))
        else {
            return;
        };
        let Some(offer) = self.engine.cache.offer(digest) else { return };
        // The load of the component refuses them again, with the reason.
        let Ok(tools) = plugin::specs((&self.name, digest, manifest), &offer.tools) else { return };
        let judged =
            self.check_lock_of(digest, loaded::definitions(offer.tools.iter(), &offer.prompts), manifest);
        if judged.is_ok() && !tools.is_empty() {
            // The folder may be closed by now.
            drop(known.send(KnownDefinitions { file: self.name.clone(), tools }));
        }
    }

    /// Makes the component ready for runs with a journal, if the manifest has any.
    fn with_journal(
        &self,
        turn: &mut CompileTurn,
        code: &LoadedComponent,
        manifest: &Manifest,
    ) -> Result<(), Refusal> {
        if !manifest.resumes() {
            return Ok(());
        }
        let settings = &self.engine.settings;
        let bounds = (settings.max_component_bytes, settings.others_may_write);
        let bytes = scan::read(&self.dir, &self.name, self.seen.component, bounds)?;
        component_loader::load_journalled(&self.engine, turn, (&self.name, &bytes), code)?;
        let Some(former) = self.engine.former.get() else { return Ok(()) };
        // Durable before a task begins on it.
        let kept = self.runtime.block_on(former.store().put_component(&code.digest, bytes.into()));
        kept.map_err(|error| Refusal::NotKept(error.to_string()))
    }

    /// Checks the grants and the signatures of a plugin against the lock file. The component may be the version
    /// before the one in the folder.
    fn check_lock(&self, code: &LoadedComponent, manifest: &Manifest) -> Result<(), Refusal> {
        self.check_lock_of(&code.digest, code.definitions(), manifest)
    }

    fn check_lock_of(
        &self,
        digest: &Digest,
        definitions: Vec<DeclaredDefinition>,
        manifest: &Manifest,
    ) -> Result<(), Refusal> {
        let (Some(lock), Some(seen)) = (&self.lock, self.seen.lock) else { return Ok(()) };
        let bounds = (MAX_PROVENANCE_BYTES, self.engine.settings.others_may_write);
        let name = lock::provenance_file(&self.name);
        let provenance = seen.provenance.map(|seen| scan::read(&self.dir, &name, seen, bounds)).transpose();
        let plugin = LockedPlugin {
            file: &self.name,
            digest: &digest.0,
            grants: &manifest.grant_lines(),
            settings: &manifest.setting_lines,
            definitions,
            provenance: provenance.as_ref().map(Option::as_deref).map_err(|why| format!("{name}: {why}")),
        };
        lock.check_plugin(&plugin).map_err(Refusal::Locked)
    }

    /// Makes the plugin. Returns the previous object if neither part changed.
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

    /// Loads the plugin for a report on this file alone.
    pub fn plugin(&self) -> Result<Plugin, Refusal> {
        let manifest = self.manifest().1?;
        let place = (&*self.place, self.name.as_str());
        let code = self.code(&mut CompileTurn::alone(), None, &manifest).map_err(|none| match none {
            NoCode::Refused(why) => why,
            // Neither occurs when a file is loaded alone.
            NoCode::Busy(_) | NoCode::Interrupted(_) => Refusal::Interrupted,
        })?;
        Plugin::new(&self.engine, place, code, manifest, &Pins::default())
    }
}
