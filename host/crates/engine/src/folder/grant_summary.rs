//! The grants of a plugin beside the imports that it uses, for people.

use crate::component::imports_used::{self, ImportUse};
use crate::grant::FolderGrant;
use crate::grant::secret::Secret;
use crate::run::loaded::PluginBase;
use toolyard_manifest::{GrantedBy, Rule};

/// A secret that a manifest names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckedSecret {
    /// The name of the secret.
    pub name: String,
    /// Whether the guest sees it.
    pub exposed: bool,
    /// Whether its value is there. If not, a host with the real secrets can serve the plugin; this one cannot.
    pub is_there: bool,
}

impl CheckedSecret {
    fn of(secret: &Secret) -> Self {
        Self { name: secret.name().to_owned(), exposed: secret.exposed, is_there: secret.is_there }
    }
}

/// The grants of a plugin beside the imports that it uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrantSummary {
    /// The imports that it uses beyond pure computation, found by the functions that it imports.
    pub imports_used: Vec<ImportUse>,
    /// The uses that its manifest grants.
    pub granted: Vec<ImportUse>,
    /// The names of the environment variables that the manifest grants.
    pub env: Vec<String>,
    /// Folders that the manifest grants.
    pub folders: Vec<FolderGrant>,
    /// The hosts that the manifest allows requests to, as written there.
    pub hosts: Vec<String>,
    /// The peers of raw sockets, each after its protocol.
    pub peers: Vec<String>,
    /// The secrets that the manifest names.
    pub secrets: Vec<CheckedSecret>,
    /// The folders and hosts that the manifest leaves to the person who calls (`grant = "ask"`).
    pub asked: Vec<String>,
}

impl GrantSummary {
    /// The summary of a loaded plugin.
    pub(crate) fn of(base: &PluginBase) -> Self {
        let grants = &base.grants;
        let is_granted = |used: &ImportUse| match used {
            ImportUse::Files => !grants.folders.is_empty(),
            ImportUse::Http => !grants.http.rules.is_empty(),
            ImportUse::Tcp => !grants.sockets.tcp.is_empty(),
            ImportUse::Udp => !grants.sockets.udp.is_empty(),
            ImportUse::Environment => grants.environment().next().is_some(),
        };
        let tcp = grants.sockets.tcp.iter().map(|rule| format!("tcp {rule}"));
        let udp = grants.sockets.udp.iter().map(|rule| format!("udp {rule}"));
        let folders: Vec<FolderGrant> = grants.folders.iter().map(|folder| folder.grant.clone()).collect();
        let asked_folders = folders.iter().filter_map(FolderGrant::wanted).map(|wanted| wanted.to_string());
        let asked_rules = grants.http.rules.iter().filter(|rule| rule.by == GrantedBy::Person);
        let rule = |rule: &Rule| Rule { by: GrantedBy::Operator, ..rule.clone() }.to_string();
        Self {
            imports_used: imports_used::of(base.component.pre.component()),
            granted: ImportUse::ALL.into_iter().filter(is_granted).collect(),
            env: base.manifest.env.iter().map(|(name, _)| name.clone()).collect(),
            hosts: grants.http.rules.iter().map(ToString::to_string).collect(),
            peers: tcp.chain(udp).collect(),
            secrets: grants.secrets.iter().map(CheckedSecret::of).collect(),
            asked: asked_folders
                .chain(asked_rules.map(|asked| format!("requests to {}", rule(asked))))
                .collect(),
            folders,
        }
    }

    /// The uses that its imports allow and its manifest does not grant. Only some of it may be missing: the runtime of a
    /// language imports what few tools use. Every standard library reads the environment, so that import says
    /// nothing.
    pub fn ungranted(&self) -> impl Iterator<Item = ImportUse> {
        let wanted = self.imports_used.iter().copied().filter(|used| *used != ImportUse::Environment);
        wanted.filter(|used| !self.granted.contains(used))
    }

    /// The grants that it never uses.
    pub fn unused(&self) -> impl Iterator<Item = ImportUse> {
        self.granted.iter().copied().filter(|used| !self.imports_used.contains(used))
    }

    /// The grants in words, one line each.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let folder = |folder: &FolderGrant| {
            let asked = if folder.by == GrantedBy::Person { ", if the person agrees" } else { "" };
            format!("{} {} as {}{asked}", folder.mode.as_str(), folder.host.display(), folder.guest)
        };
        let mut granted: Vec<String> = self.folders.iter().map(folder).collect();
        granted.extend(self.hosts.iter().map(|host| format!("requests to {host}")));
        granted.extend(self.peers.iter().map(|peer| format!("connections to {peer}")));
        if !self.env.is_empty() {
            granted.push(format!("environment: {}", self.env.join(", ")));
        }
        granted.extend(self.secrets.iter().map(|secret| {
            let name = &secret.name;
            let seen = if secret.exposed {
                "as an environment variable"
            } else {
                "only in headers, unseen by the guest"
            };
            let absent =
                if secret.is_there { "" } else { "; it is not set, so this host cannot serve the plugin" };
            format!("the secret {name}, {seen}{absent}")
        }));
        granted
    }
}
