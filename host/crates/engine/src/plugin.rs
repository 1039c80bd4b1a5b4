//! A component that is ready to run, and a plugin: the component under its
//! manifest.

use crate::compile::{self, Source};
use crate::component::{self, Surface, TOOLS};
use crate::describe::{self, Declared};
use crate::engine::Engine;
use crate::error::{ManifestError, Refusal};
use crate::host::Run;
use crate::invoke;
use crate::limits::{MAX_MEMORIES, MAX_TABLES};
use crate::manifest::{Manifest, ToolOverride};
use crate::tool::GuestTool;
use sha2::{Digest as _, Sha256};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use toolyard_task::Digest;
use toolyard_task::tool::ToolSpec;
use toolyard_task::wire::ToolDescription;
use wasmtime::component::{Component, ComponentExportIndex, InstancePre};

/// A component: compiled, linked, and asked for its tools.
pub(crate) struct Code {
    pub digest: Digest,
    pub size: u64,
    pub surface: Surface,
    pub pre: InstancePre<Run>,
    pub call: ComponentExportIndex,
    pub memories: u32,
    pub declared: Vec<Arc<Declared>>,
    /// How long it took to compile; `None` if the code was in the cache.
    pub compiled_in: Option<Duration>,
}

/// What all tools of a plugin share.
pub(crate) struct Base {
    pub engine: Arc<Engine>,
    pub file: Arc<str>,
    pub code: Arc<Code>,
    pub manifest: Arc<Manifest>,
}

/// A component under its manifest.
pub(crate) struct Plugin {
    pub base: Arc<Base>,
    pub tools: Vec<Arc<GuestTool>>,
}

/// The digest of a component's bytes.
pub(crate) fn digest(bytes: &[u8]) -> Digest {
    Digest(crate::cache::hex(&Sha256::digest(bytes)))
}

impl Code {
    /// Makes a component ready. Blocks while it compiles and while `list-tools`
    /// runs; `runtime` drives the latter.
    pub fn load(
        engine: &Engine,
        runtime: &Handle,
        file: &str,
        bytes: &[u8],
        digest: Digest,
    ) -> Result<Self, Refusal> {
        let surface = component::inspect(file, bytes)?;
        let key = engine.cache.key(&engine.wasm, &digest.0);
        let (kept, source) = compile::code(engine, bytes, &key)?;
        let component = kept.component;
        let memories = resources(&component)?;
        let list = export(&component, "list-tools")?;
        let call = export(&component, "call")?;
        let pre = engine
            .linker
            .instantiate_pre(&component)
            .map_err(|error| Refusal::Contract(format!("{error:#}")))?;
        // Whether the exports have the types of the contract.
        crate::bindings::ToolsPluginPre::new(pre.clone())
            .map_err(|error| Refusal::Contract(format!("{error:#}")))?;
        let declared = match kept.tools {
            Some(tools) => describe::declare(tools, &engine.settings)?,
            None => {
                let listed = runtime.block_on(invoke::list(engine, (&pre, &list), &file.into()))?;
                let described = describe::describe(listed)?;
                let declared = describe::declare(described.clone(), &engine.settings)?;
                engine.cache.keep_tools(&key, &described);
                declared
            }
        };
        let compiled_in = match source {
            Source::Cache => None,
            Source::Compiled(time) => Some(time),
        };
        Ok(Self { digest, size: bytes.len() as u64, surface, pre, call, memories, declared, compiled_in })
    }
}

/// How many memories an instance has; refuses what the pool cannot hold.
fn resources(component: &Component) -> Result<u32, Refusal> {
    let Some(needed) = component.resources_required() else {
        return Err(Refusal::Resources("it imports core modules, so its needs are unknown".to_owned()));
    };
    if needed.num_memories as usize > MAX_MEMORIES {
        return Err(Refusal::Resources(format!(
            "{} memories; {MAX_MEMORIES} are the most",
            needed.num_memories
        )));
    }
    if needed.num_tables as usize > MAX_TABLES {
        return Err(Refusal::Resources(format!("{} tables; {MAX_TABLES} are the most", needed.num_tables)));
    }
    Ok(needed.num_memories)
}

fn export(component: &Component, name: &str) -> Result<ComponentExportIndex, Refusal> {
    let found = component.get_export_index(None, TOOLS);
    let found = found.and_then(|tools| component.get_export_index(Some(&tools), name));
    found.ok_or_else(|| Refusal::Contract(format!("`{TOOLS}` has no function `{name}`")))
}

impl Plugin {
    /// Puts a component under a manifest.
    pub fn new(
        engine: &Arc<Engine>,
        file: &str,
        code: Arc<Code>,
        manifest: Arc<Manifest>,
    ) -> Result<Self, Refusal> {
        for name in manifest.tools.keys() {
            if !code.declared.iter().any(|tool| tool.description.name == *name) {
                return Err(no_such_tool(file, name, &code).into());
            }
        }
        let base = Arc::new(Base { engine: engine.clone(), file: file.into(), code, manifest });
        let nothing = ToolOverride::default();
        let tools = base.code.declared.iter().filter_map(|declared| {
            let said = base.manifest.tools.get(&declared.description.name).unwrap_or(&nothing);
            (said.enabled != Some(false)).then(|| tool(&base, declared, said))
        });
        let tools = tools.collect::<Result<_, _>>()?;
        Ok(Self { base, tools })
    }
}

fn tool(base: &Arc<Base>, declared: &Arc<Declared>, said: &ToolOverride) -> Result<Arc<GuestTool>, Refusal> {
    let manifest = &base.manifest;
    let given = &declared.description;
    let name = match &manifest.prefix {
        Some(prefix) => format!("{prefix}_{}", given.name),
        None => given.name.clone(),
    };
    if !describe::is_tool_name(&name) {
        return Err(Refusal::ToolName(name));
    }
    let task_support = said.task_support.unwrap_or_else(|| describe::task_support(given.execution));
    let description = ToolDescription {
        name,
        title: said.title.clone().or_else(|| given.title.clone()),
        description: said.description.clone().or_else(|| given.description.clone()),
        annotations: said.annotations.clone().or_else(|| given.annotations.clone()),
        execution: describe::execution(task_support),
        ..given.clone()
    };
    let spec = ToolSpec {
        description,
        task_support,
        digest: base.code.digest.clone(),
        plugin: base.file.to_string(),
        poll_interval_ms: manifest.poll_interval.map(|time| time.as_millis() as u64),
        immediate_response: manifest.immediate_response.clone(),
        concurrency: manifest.concurrency,
    };
    let guest_name = given.name.as_str().into();
    Ok(Arc::new(GuestTool { spec, guest_name, declared: declared.clone(), base: base.clone() }))
}

fn no_such_tool(file: &str, name: &str, code: &Code) -> ManifestError {
    let names = code.declared.iter().map(|tool| tool.description.name.as_str());
    let nearest = names.min_by_key(|known| strsim::damerau_levenshtein(known, name));
    ManifestError {
        file: crate::folder::manifest_name(file),
        line: None,
        what: format!(
            "`tools.{name}`: the plugin has no such tool; the nearest is `{}`",
            nearest.unwrap_or_default()
        ),
    }
}
