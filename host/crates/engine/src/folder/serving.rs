//! The plugins that serve, each without the names that belong to other plugins.

use crate::folder::loader::LoadedFile;
use crate::folder::names::{Candidate, Name, NameKind, OfferedNames, Outcome};
use crate::folder::plugin::Plugin;
use crate::folder::snapshot::PluginState;
use crate::folder::verdict::{self, FileState, Version};
use crate::grant;
use crate::run::provider::GuestProvider;
use crate::run::tool::GuestTool;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use toolyard_manifest::ManifestError;

/// A plugin that serves, without the names that it does not get.
pub(crate) struct Served {
    pub plugin: Arc<Plugin>,
    left_out: BTreeSet<Name>,
    pub provider: Option<Arc<GuestProvider>>,
}

impl PartialEq for Served {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.plugin, &other.plugin) && self.left_out == other.left_out
    }
}

impl Served {
    /// Returns the previous object if it is equal.
    fn new(plugin: &Arc<Plugin>, left_out: BTreeSet<Name>, previous: Option<&Arc<Self>>) -> Arc<Self> {
        let prompts: BTreeSet<&str> = left_out
            .iter()
            .filter(|name| name.kind == NameKind::Prompt)
            .map(|name| name.name.as_str())
            .collect();
        let provider = plugin.provider.as_ref().map(|provider| match prompts.is_empty() {
            true => provider.clone(),
            false => Arc::new(provider.without(&prompts)),
        });
        let new = Self { plugin: plugin.clone(), provider, left_out };
        match previous {
            Some(previous) if **previous == new => previous.clone(),
            _ => Arc::new(new),
        }
    }

    pub fn tools(&self) -> impl Iterator<Item = &Arc<GuestTool>> {
        self.plugin.tools.iter().filter(|tool| !self.lacks(NameKind::Tool, tool.spec.name()))
    }

    fn lacks(&self, kind: NameKind, name: &str) -> bool {
        self.left_out.iter().any(|out| out.kind == kind && out.name == name)
    }
}

/// The serving plugins, by file name.
pub(crate) type Serving = BTreeMap<String, Arc<Served>>;

/// The version of a file that serves, and the reason.
pub(crate) struct FileOutcome {
    pub served: Option<Arc<Served>>,
    /// A sentence for each name that the version does not get.
    pub left_out: Vec<String>,
    pub state: PluginState,
}

/// The files of the folder before names are assigned.
pub(crate) struct Files<'a> {
    files: &'a BTreeMap<String, Arc<LoadedFile>>,
    before: &'a Serving,
    /// Files whose grants conflict with those of another file.
    faults: BTreeMap<&'a str, ManifestError>,
}

impl<'a> Files<'a> {
    pub fn new(files: &'a BTreeMap<String, Arc<LoadedFile>>, before: &'a Serving) -> Self {
        // Only the manifests decide. Which plugin already serves does not matter, so the order
        // makes no difference.
        let granted: Vec<_> = files
            .iter()
            .filter(|(_, loaded)| !loaded.is_disabled())
            .filter_map(|(file, loaded)| Some((file.as_str(), &*loaded.built.as_ref().ok()?.base.grants)))
            .collect();
        Self { files, before, faults: grant::faults(&granted) }
    }

    /// The names that each file requests. A file that is being loaded for the first time keeps the
    /// names that it had before a restart.
    pub fn candidates(&self, loading: &[String]) -> BTreeMap<String, Candidate> {
        let candidate = |(file, loaded): (&String, &Arc<LoadedFile>)| {
            let may_serve = !loaded.is_disabled() && !self.faults.contains_key(file.as_str());
            let listed = loaded.built.as_ref().ok().filter(|_| may_serve).map(|built| built.offer());
            let previous = self.previous(file, loaded).filter(|_| listed.is_some());
            (file.clone(), Candidate { listed, previous: previous.map(|plugin| plugin.offer()) })
        };
        let loading = loading.iter().map(|file| (file.clone(), Candidate::default()));
        self.files.iter().map(candidate).chain(loading).collect()
    }

    /// Applies the names that each file received.
    pub fn serve(
        &self,
        candidates: &BTreeMap<String, Candidate>,
        mut names: BTreeMap<String, Outcome>,
    ) -> BTreeMap<String, FileOutcome> {
        let serve = |(file, loaded): (&String, &Arc<LoadedFile>)| {
            let listed = candidates.get(file).and_then(|candidate| candidate.listed.as_ref());
            let names = names.remove(file).unwrap_or_default();
            (file.clone(), self.serve_one(file, (loaded, listed), names))
        };
        self.files.iter().map(serve).collect()
    }

    fn serve_one(
        &self,
        file: &str,
        (loaded, listed): (&LoadedFile, Option<&OfferedNames>),
        names: Outcome,
    ) -> FileOutcome {
        let refused = loaded.built.as_ref().err().cloned();
        let refused = refused.or_else(|| self.faults.get(file).map(|fault| fault.clone().into()));
        let state = match (listed, refused) {
            (Some(offer), _) => FileState::Ready { offer, fault: loaded.fault.as_ref() },
            (None, Some(why)) if !loaded.is_disabled() => FileState::Refused(why),
            (None, _) => FileState::Disabled,
        };
        let (version, state) = verdict::decide(file, state, &names);
        let plugin = match version {
            Version::None => None,
            Version::Current => loaded.built.as_ref().ok(),
            Version::Previous => self.previous(file, loaded),
        };
        let left_out = plugin.map(|_| verdict::left_out(file, &names)).unwrap_or_default();
        let before = self.before.get(file);
        let served = plugin.map(|plugin| Served::new(plugin, names.left_out.into_keys().collect(), before));
        FileOutcome { served, left_out, state }
    }

    /// The version that served before, if it differs and has the same manifest.
    fn previous(&self, file: &str, loaded: &LoadedFile) -> Option<&'a Arc<Plugin>> {
        let previous = &self.before.get(file)?.plugin;
        let is_other = loaded.built.as_ref().is_ok_and(|built| !Arc::ptr_eq(built, previous));
        (is_other && loaded.has_manifest_of(previous)).then_some(previous)
    }
}
