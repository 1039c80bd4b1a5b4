//! A component that is ready to run, and a plugin: the component under its
//! manifest.

use crate::component::cache::Offer;
use crate::component::compile::{self, Source};
use crate::component::inspect::{self, Kind, Surface};
use crate::component::describe::{self, Declared};
use crate::run::engine::Engine;
use crate::error::Refusal;
use crate::component::exports::Exports;
use crate::folder::scan::manifest_name;
use crate::grant::{Grants, Pins};
use crate::run::host_functions::Run;
use crate::run::invoke;
use crate::limits::memory_limiter::{MAX_MEMORIES, MAX_TABLES};
use crate::folder::names::{Kind as NameKind, Name, Offer as Offered};
use crate::limits::first_poll::Pace;
use crate::component::prompts;
use crate::run::provider::GuestProvider;
use crate::limits::run_budget::Share;
use crate::run::tool::{Callee, GuestTool};
use crate::component::compile_turn::Turn;
use crate::convert::typed::Functions;
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use toolyard_manifest::{Manifest, ManifestError, ToolOverride};
use toolyard_task::Digest;
use toolyard_task::provider::ProviderSpec;
use toolyard_task::tool::ToolSpec;
use toolyard_task::wire::{PromptDescription, ToolDescription, is_tool_name};
use wasmtime::component::{Component, InstancePre};

/// A component: compiled, linked, and asked what it offers.
pub(crate) struct Code {
    pub digest: Digest,
    pub size: u64,
    pub surface: Surface,
    pub pre: InstancePre<Run>,
    pub exports: Exports,
    /// Of a component that knows nothing of the contract.
    pub functions: Functions,
    /// What a run of it needs of the machine.
    pub needs: Share,
    pub declared: Vec<Arc<Declared>>,
    pub prompts: Vec<PromptDescription>,
    /// How long it took to compile; `None` if the code was in the cache.
    pub compiled_in: Option<Duration>,
}

/// What all tools of a plugin share, and its provider.
pub(crate) struct Base {
    pub engine: Arc<Engine>,
    pub file: Arc<str>,
    pub code: Arc<Code>,
    pub manifest: Arc<Manifest>,
    /// What the manifest grants, found on this machine.
    pub grants: Arc<Grants>,
}

/// A component under its manifest.
pub(crate) struct Plugin {
    pub base: Arc<Base>,
    pub tools: Vec<Arc<GuestTool>>,
    /// What it offers besides tools.
    pub provider: Option<Arc<GuestProvider>>,
}

/// The digest of a component's bytes.
pub(crate) fn digest(bytes: &[u8]) -> Digest {
    Digest(crate::component::cache::hex(&Sha256::digest(bytes)))
}

impl Code {
    /// Makes a component ready. Blocks while it compiles and while it is asked
    /// what it offers; `runtime` drives the latter. [`Refusal::Interrupted`] means that the
    /// turn was over before that.
    pub fn load(
        engine: &Engine,
        (runtime, turn): (&Handle, &mut Turn),
        file: &str,
        bytes: &[u8],
        digest: Digest,
    ) -> Result<Self, Refusal> {
        let kind = inspect::kind(file, bytes)?;
        let key = engine.cache.key(&engine.wasm, &digest.0);
        let made = match kind {
            Kind::Component => None,
            Kind::TypedModule => Some(compile::component(engine, turn, bytes, &key)?),
        };
        let binary = made.as_deref().unwrap_or(bytes);
        let surface = inspect::inspect(binary)?;
        let (kept, source) = compile::code(engine, turn, binary, &key)?;
        let component = kept.component;
        let needs = resources(&component)?;
        let exports = Exports::of(&component)?;
        let pre = engine
            .linker
            .instantiate_pre(&component)
            .map_err(|error| Refusal::Contract(format!("{error:#}")))?;
        let (offer, is_new) = match kept.offer {
            Some(offer) => (offer, false),
            None => {
                let file = file.into();
                let listed = runtime.block_on(async {
                    tokio::select! {
                        listed = invoke::list(engine, &pre, &exports, &file) => listed,
                        () = turn.cancelled() => Err(Refusal::Interrupted),
                    }
                })?;
                let tools = describe::describe(listed.tools.0)?;
                (Offer { tools, prompts: prompts::describe(listed.prompts.0)? }, true)
            }
        };
        let (functions, declared) = if surface.is_plain {
            Functions::of(&engine.wasm, &component, binary, &engine.settings)?
        } else if offer.tools.is_empty() && !exports.has_more_than_tools() {
            return Err(Refusal::Toolless);
        } else {
            (Functions::default(), describe::declare(offer.tools.clone(), &engine.settings)?)
        };
        let prompts = prompts::declare(offer.prompts.clone())?;
        if is_new {
            engine.cache.keep_offer(&key, &offer);
        }
        let compiled_in = match source {
            Source::Cache => None,
            Source::Compiled(time) => Some(time),
        };
        let size = bytes.len() as u64;
        Ok(Self { digest, size, surface, pre, exports, functions, needs, declared, prompts, compiled_in })
    }
}

/// What an instance needs; refuses what the pool cannot hold.
fn resources(component: &Component) -> Result<Share, Refusal> {
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
    Ok(Share::of(&needed))
}

impl Plugin {
    /// Puts a component under a manifest; both lie in the folder `place`. It is granted
    /// the folders of `pins` and no others in their place.
    pub fn new(
        engine: &Arc<Engine>,
        (place, file): (&Path, &str),
        code: Arc<Code>,
        manifest: Arc<Manifest>,
        pins: &Pins,
    ) -> Result<Self, Refusal> {
        for name in manifest.tools.keys() {
            if !code.declared.iter().any(|tool| tool.description.name == *name) {
                return Err(no_such_tool(file, name, &code).into());
            }
        }
        engine.rooms.could_take(code.needs.within(manifest.limits.memory)).map_err(|shortage| {
            Refusal::Resources(format!("more than this host has for all guests (`{}`)", shortage.setting()))
        })?;
        let grants = Grants::of((place, file), &manifest, &engine.settings, pins)?;
        let grants = Arc::new(grants);
        let base = Arc::new(Base { engine: engine.clone(), file: file.into(), code, manifest, grants });
        let nothing = ToolOverride::default();
        let tools = base.code.declared.iter().filter_map(|declared| {
            let said = base.manifest.tools.get(&declared.description.name).unwrap_or(&nothing);
            (said.enabled != Some(false)).then(|| tool(&base, declared, said))
        });
        let tools = tools.collect::<Result<_, _>>()?;
        let has_more = base.code.exports.has_more_than_tools();
        let provider = has_more.then(|| provider(&base)).transpose()?;
        Ok(Self { base, tools, provider })
    }

    /// The plugin's offer, under the names that clients use.
    pub fn offer(&self) -> Offered {
        let name = |kind: NameKind, name: &str| Name { kind, name: name.to_owned() };
        let tools = self.tools.iter().map(|tool| name(NameKind::Tool, tool.spec.name()));
        let prompts = self.provider.iter().flat_map(|provider| &provider.spec.prompts);
        let prompts = prompts.map(|prompt| name(NameKind::Prompt, &prompt.name));
        let provider = self.provider.as_ref();
        Offered {
            digest: self.base.code.digest.0.clone(),
            names: tools.chain(prompts).collect(),
            has_more: provider.is_some_and(|with| with.spec.has_resources || with.spec.has_completion),
        }
    }
}

/// The name that clients use for what the guest calls `name`.
fn public(manifest: &Manifest, name: &str) -> String {
    match &manifest.prefix {
        Some(prefix) => format!("{prefix}_{name}"),
        None => name.to_owned(),
    }
}

fn provider(base: &Arc<Base>) -> Result<Arc<GuestProvider>, Refusal> {
    let Code { digest, exports, prompts, .. } = &*base.code;
    let mut guest_names = BTreeMap::new();
    let mut shown = Vec::with_capacity(prompts.len());
    for prompt in prompts {
        let name = public(&base.manifest, &prompt.name);
        if !is_tool_name(&name) {
            return Err(Refusal::PromptName(name));
        }
        guest_names.insert(name.clone(), prompt.name.as_str().into());
        shown.push(PromptDescription { name, ..prompt.clone() });
    }
    let spec = ProviderSpec {
        plugin: base.file.to_string(),
        digest: digest.clone(),
        concurrency: base.manifest.concurrency,
        reports: base.manifest.limits.reports(),
        prompts: shown,
        has_prompts: exports.prompts.is_some(),
        has_resources: exports.resources.is_some(),
        uris: base.manifest.uris.clone(),
        has_completion: exports.complete.is_some(),
    };
    Ok(Arc::new(GuestProvider { spec, guest_names, pace: Pace::default(), base: base.clone() }))
}

fn tool(base: &Arc<Base>, declared: &Arc<Declared>, said: &ToolOverride) -> Result<Arc<GuestTool>, Refusal> {
    let manifest = &base.manifest;
    let given = &declared.description;
    let name = public(manifest, &given.name);
    if !is_tool_name(&name) {
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
    if let Some(what) = describe::header_fault(&description.input_schema) {
        let (plugin, tool) = (&base.file, &description.name);
        tracing::warn!(%plugin, tool, what, "clients that come over HTTP will leave a tool out");
    }
    let limits = said.limits.clone().unwrap_or_else(|| manifest.limits.clone());
    let spec = ToolSpec {
        description,
        task_support,
        digest: base.code.digest.clone(),
        plugin: base.file.to_string(),
        poll_interval_ms: manifest.poll_interval.map(|time| time.as_millis() as u64),
        immediate_response: manifest.immediate_response.clone(),
        durability: said.durability(manifest.durability),
        inline_for: said.inline_for.or(manifest.inline_for),
        concurrency: manifest.concurrency,
        queue: manifest.queue,
        rate: said.rate,
        reports: limits.reports(),
    };
    let guest_name = given.name.as_str().into();
    let callee = match (&base.code.exports.tools, base.code.functions.by_name.get(&given.name)) {
        (Some(exports), _) => Callee::Contract(exports.call),
        (None, Some(function)) => Callee::Plain(function.clone()),
        (None, None) => return Err(Refusal::Internal(format!("the tool `{}` has no function", given.name))),
    };
    let (declared, base) = (declared.clone(), base.clone());
    Ok(Arc::new(GuestTool { spec, guest_name, declared, callee, limits, pace: Pace::default(), base }))
}

fn no_such_tool(file: &str, name: &str, code: &Code) -> ManifestError {
    let names = code.declared.iter().map(|tool| tool.description.name.as_str());
    let nearest = names.min_by_key(|known| strsim::damerau_levenshtein(known, name));
    let nearest = nearest.map_or("it has none".to_owned(), |nearest| format!("the nearest is `{nearest}`"));
    ManifestError {
        file: manifest_name(file),
        line: None,
        what: format!("`tools.{name}`: the plugin has no such tool; {nearest}"),
    }
}
