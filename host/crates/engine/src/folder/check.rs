//! A report on one component, for `toolyard check`.

use crate::component::describe;
use crate::error::{LoadError, Refusal, Skipped};
use crate::folder::grant_summary::GrantSummary;
use crate::folder::loader::FileLoader;
use crate::folder::plugin_dir::PluginDir;
use crate::folder::scan;
use crate::lock::DeclaredDefinition;
use crate::run::engine::Engine;
use crate::run::tool::GuestTool;
use cap_std::ambient_authority;
use cap_std::fs::Dir;
use serde::Serialize;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use toolyard_manifest::{ClockGrant, Limits, Manifest};
use toolyard_task::wire::TaskSupport;
use toolyard_task::{Digest, Durability};

/// A description of one component, to review before deployment.
#[derive(Debug, Clone)]
pub struct CheckReport {
    /// The file's name.
    pub file: String,
    /// The digest of the component.
    pub digest: Digest,
    /// The size of the component in bytes.
    pub size: u64,
    /// The tools of the component, as its manifest changes them.
    pub tools: Vec<CheckedTool>,
    /// Exported functions that are not tools.
    pub skipped: Vec<Skipped>,
    /// The prompts of the component, as its manifest changes them.
    pub prompts: Vec<CheckedPrompt>,
    /// The tools and prompts as the component itself declares them, before its manifest changes them.
    pub definitions: Vec<DeclaredDefinition>,
    /// The grants of its manifest, as [`Manifest::grant_lines`](toolyard_manifest::Manifest::grant_lines) says.
    pub grant_lines: Vec<String>,
    /// The limits and the settings of tools in the manifest, as [`Manifest::setting_lines`] has them.
    pub setting_lines: Vec<String>,
    /// Whether it has resources.
    pub has_resources: bool,
    /// Whether the manifest claims URIs.
    pub claims_uris: bool,
    /// Whether it completes arguments.
    pub has_completion: bool,
    /// The imports of the component, by interface.
    pub imports: Vec<String>,
    /// The exports of the component, by interface.
    pub exports: Vec<String>,
    /// The grants of the manifest beside the imports that the component uses.
    pub grants: GrantSummary,
    /// How its tasks resume, if those of any tool do.
    pub resume: Option<CheckedResume>,
    /// The limits of a run.
    pub limits: Limits,
    /// The text of the manifest.
    pub manifest: Option<String>,
    /// Whether the manifest enables the plugin.
    pub enabled: bool,
    /// How long it took to compile; `None` if its code was in the cache.
    pub compiled_in: Option<Duration>,
}

/// How tasks of a plugin resume, in a [`CheckReport`]. A component with a grant that cannot be repeated is refused, so
/// this names all that is granted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CheckedResume {
    /// The tools whose tasks resume, by the names that clients use.
    pub tools: Vec<String>,
    /// The sources that are recorded, and replayed when a run is repeated.
    pub replayed: Vec<String>,
    /// The sources that give the same to each run of a task.
    pub same: Vec<String>,
}

impl CheckedResume {
    fn of(tools: &[Arc<GuestTool>], manifest: &Manifest, grants: &GrantSummary) -> Option<Self> {
        let resumes = |tool: &&Arc<GuestTool>| tool.spec.durability == Durability::Resume;
        let tools: Vec<String> =
            tools.iter().filter(resumes).map(|tool| tool.spec.name().to_owned()).collect();
        if tools.is_empty() {
            return None;
        }
        let (mut replayed, mut same) = (Vec::new(), vec!["random numbers".to_owned()]);
        match manifest.clock {
            ClockGrant::Frozen => same.push("clocks (frozen)".to_owned()),
            ClockGrant::Coarse | ClockGrant::Exact => replayed.push("clocks (1 ms)".to_owned()),
        }
        if !grants.hosts.is_empty() {
            replayed.push(format!("HTTP to {}", grants.hosts.join(", ")));
        }
        // A secret that was rotated is another one in the next run.
        let has_secrets = grants.secrets.iter().any(|secret| secret.exposed);
        same.push(if has_secrets { "environment without secrets" } else { "environment" }.to_owned());
        Some(Self { tools, replayed, same })
    }
}

/// A tool in a [`CheckReport`].
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CheckedTool {
    /// The name that clients use.
    pub name: String,
    /// A display name.
    pub title: Option<String>,
    /// The tool's description.
    pub description: Option<String>,
    /// Whether it may be called as a task, as the manifest changes it.
    pub task_support: TaskSupport,
    /// Whether it may be called as a task, as the component declares it.
    pub declared_task_support: TaskSupport,
    /// Why clients that use HTTP ignore it, if they do (26XH-1).
    pub header_fault: Option<String>,
}

/// A prompt in a [`CheckReport`].
#[derive(Debug, Clone, Serialize)]
pub struct CheckedPrompt {
    /// The name that clients use.
    pub name: String,
    /// The prompt's description.
    pub description: Option<String>,
    /// The arguments of the prompt.
    pub arguments: Vec<CheckedArgument>,
}

/// An argument of a [`CheckedPrompt`].
#[derive(Debug, Clone, Serialize)]
pub struct CheckedArgument {
    /// The name of the argument.
    pub name: String,
    /// Whether a call must give it.
    pub required: bool,
}

impl Engine {
    /// Loads the component at `path` with its manifest, as a folder would, and describes it.
    ///
    /// # Errors
    /// The [`LoadError`] that loading from a folder would return.
    pub async fn check(self: &Arc<Self>, path: &Path) -> Result<CheckReport, LoadError> {
        let file = path
            .file_name()
            .map_or_else(|| path.to_string_lossy(), |name| name.to_string_lossy())
            .into_owned();
        let engine = self.clone();
        let path = path.to_owned();
        let runtime = Handle::current();
        let name = file.clone();
        let checked = tokio::task::spawn_blocking(move || check(engine, runtime, &path, name)).await;
        let checked = checked.unwrap_or_else(|error| Err(Refusal::Internal(error.to_string())));
        checked.map_err(|why| LoadError { file, why })
    }
}

fn check(engine: Arc<Engine>, runtime: Handle, path: &Path, name: String) -> Result<CheckReport, Refusal> {
    let unreadable = |error: std::io::Error| Refusal::Unreadable(error.to_string());
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let dir = Dir::open_ambient_dir(parent, ambient_authority()).map_err(unreadable)?;
    let dir = PluginDir::new(Arc::new(dir)).map_err(unreadable)?;
    let seen = scan::look(&dir, &name, None)
        .map_err(unreadable)?
        .ok_or_else(|| Refusal::Unreadable("there is no such file".to_owned()))?;
    let file = FileLoader {
        engine,
        runtime,
        dir: Arc::new(dir),
        place: parent.to_owned(),
        name,
        seen,
        lock: None,
        reads_secrets: false,
        is_awaited: true,
        optimizes: false,
        former: None,
        known: None,
        components: Arc::default(),
    };
    let plugin = file.plugin()?;
    let code = &plugin.base.component;
    let manifest = &plugin.base.manifest;
    let prompts = plugin.provider.iter().flat_map(|provider| &provider.spec.prompts);
    let prompts = prompts.map(|prompt| CheckedPrompt {
        name: prompt.name.clone(),
        description: prompt.description.clone(),
        arguments: prompt
            .arguments
            .iter()
            .map(|given| CheckedArgument { name: given.name.clone(), required: given.required })
            .collect(),
    });
    let tools = plugin.tools.iter().map(|tool| CheckedTool {
        name: tool.spec.name().to_owned(),
        title: tool.spec.description.title.clone(),
        description: tool.spec.description.description.clone(),
        task_support: tool.spec.task_support,
        declared_task_support: describe::task_support(tool.declared.description.execution),
        header_fault: describe::header_fault(&tool.spec.description.input_schema),
    });
    let grants = GrantSummary::of(&plugin.base);
    Ok(CheckReport {
        resume: CheckedResume::of(&plugin.tools, manifest, &grants),
        file: file.name.clone(),
        digest: code.digest.clone(),
        size: code.size,
        tools: tools.collect(),
        skipped: code.functions.skipped.clone(),
        prompts: prompts.collect(),
        definitions: code.definitions(),
        grant_lines: manifest.grant_lines(),
        setting_lines: manifest.setting_lines.clone(),
        has_resources: code.exports.resources.is_some(),
        claims_uris: manifest.uris.is_some(),
        has_completion: code.exports.complete.is_some(),
        imports: code.surface.imports.clone(),
        exports: code.surface.exports.clone(),
        grants,
        manifest: file.manifest_text()?,
        limits: (*manifest.limits).clone(),
        enabled: manifest.enabled,
        compiled_in: code.compiled_in,
    })
}
