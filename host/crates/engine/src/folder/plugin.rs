//! A plugin: a component with its manifest.

use crate::component::describe::{self, DeclaredTool};
use crate::error::Refusal;
use crate::folder::names::{Name, NameKind, OfferedNames};
use crate::grant::{Grants, Pins};
use crate::limits::first_poll::FirstPolls;
use crate::run::engine::Engine;
use crate::run::loaded::{LoadedComponent, PluginBase};
use crate::run::prefault::Prefault;
use crate::run::provider::GuestProvider;
use crate::run::tool::{Callee, GuestTool};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use toolyard_manifest::{Manifest, ManifestError, ToolOverride, Unit};
use toolyard_task::Digest;
use toolyard_task::approval::Confirm;
use toolyard_task::provider::ProviderSpec;
use toolyard_task::tool::{JournalTerms, ToolSpec};
use toolyard_task::wire::{PromptDescription, TaskSupport, ToolDescription, is_tool_name};

pub(crate) struct Plugin {
    pub base: Arc<PluginBase>,
    pub tools: Vec<Arc<GuestTool>>,
    /// The resources, prompts and completions of the plugin.
    pub provider: Option<Arc<GuestProvider>>,
}

impl Plugin {
    /// Combines a component with a manifest; both lie in the folder `place`. A folder that `pins`
    /// holds is granted only if it is still the same folder.
    pub fn new(
        engine: &Arc<Engine>,
        (place, file): (&Path, &str),
        code: Arc<LoadedComponent>,
        manifest: Arc<Manifest>,
        pins: &Pins,
    ) -> Result<Self, Refusal> {
        for name in manifest.tools.keys() {
            if !code.declared.iter().any(|tool| tool.description.name == *name) {
                return Err(no_such_tool(file, name, &code).into());
            }
        }
        let of_tools = manifest.tools.values().filter_map(|tool| tool.limits.as_ref());
        let most = of_tools.map(|limits| limits.memory).fold(manifest.limits.memory, u64::max);
        if code.needs.least_memory() > most {
            let [least, most] = [code.needs.least_memory(), most].map(|bytes| Unit::Bytes.show(bytes));
            return Err(Refusal::Resources(format!(
                "at least {least} of memory, and `limits.memory` is {most}"
            )));
        }
        engine.budget.could_take(code.needs.within(manifest.limits.memory)).map_err(|shortage| {
            Refusal::Resources(format!("more than this host has for all guests (`{}`)", shortage.setting()))
        })?;
        let grants = Grants::of((place, file), &manifest, &engine.settings, pins)?;
        let grants = Arc::new(grants);
        let base = Arc::new(PluginBase {
            engine: engine.clone(),
            file: file.into(),
            component: code,
            manifest,
            grants,
        });
        let nothing = ToolOverride::default();
        let tools = base.component.declared.iter().filter_map(|declared| {
            let said = base.manifest.tools.get(&declared.description.name).unwrap_or(&nothing);
            (said.enabled != Some(false)).then(|| tool(&base, declared, said))
        });
        let tools = tools.collect::<Result<_, _>>()?;
        let has_more = base.component.exports.has_more_than_tools();
        let provider = has_more.then(|| provider(&base)).transpose()?;
        Ok(Self { base, tools, provider })
    }

    /// The plugin's offer, under the names that clients use.
    pub fn offer(&self) -> OfferedNames {
        let name = |kind: NameKind, name: &str| Name { kind, name: name.to_owned() };
        let tools = self.tools.iter().map(|tool| name(NameKind::Tool, tool.spec.name()));
        let prompts = self.provider.iter().flat_map(|provider| &provider.spec.prompts);
        let prompts = prompts.map(|prompt| name(NameKind::Prompt, &prompt.name));
        let provider = self.provider.as_ref();
        OfferedNames {
            digest: self.base.component.digest.0.clone(),
            names: tools.chain(prompts).collect(),
            has_more: provider.is_some_and(|with| with.spec.has_resources || with.spec.has_completion),
        }
    }
}

/// The name that clients use for the guest's `name`.
fn public(manifest: &Manifest, name: &str) -> String {
    match &manifest.prefix {
        Some(prefix) => format!("{prefix}_{name}"),
        None => name.to_owned(),
    }
}

fn provider(base: &Arc<PluginBase>) -> Result<Arc<GuestProvider>, Refusal> {
    let LoadedComponent { digest, exports, prompts, .. } = &*base.component;
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
    Ok(Arc::new(GuestProvider { spec, guest_names, first_polls: FirstPolls::default(), base: base.clone() }))
}

/// The properties of all tools of a component, with what the manifest says about them.
pub(crate) fn specs(
    about: (&str, &Digest, &Manifest),
    described: &[ToolDescription],
) -> Result<Vec<ToolSpec>, Refusal> {
    let nothing = ToolOverride::default();
    let specs = described.iter().filter_map(|given| {
        let said = about.2.tools.get(&given.name).unwrap_or(&nothing);
        (said.enabled != Some(false)).then(|| spec(about, given, said))
    });
    specs.collect()
}

/// The properties of a tool that the component declares, with what the manifest says about it.
fn spec(
    (plugin, digest, manifest): (&str, &Digest, &Manifest),
    given: &ToolDescription,
    said: &ToolOverride,
) -> Result<ToolSpec, Refusal> {
    let name = public(manifest, &given.name);
    if !is_tool_name(&name) {
        return Err(Refusal::ToolName(name));
    }
    let task_support = said.task_support.unwrap_or_else(|| match describe::task_support(given.execution) {
        // A call waits for its approval as a task.
        TaskSupport::Forbidden if said.confirm.confirm == Confirm::Ask => TaskSupport::Optional,
        declared => declared,
    });
    let description = ToolDescription {
        name,
        title: said.title.clone().or_else(|| given.title.clone()),
        description: said.description.clone().or_else(|| given.description.clone()),
        annotations: said.annotations.clone().or_else(|| given.annotations.clone()),
        execution: describe::execution(task_support),
        ..given.clone()
    };
    if let Some(what) = describe::header_fault(&description.input_schema) {
        let tool = &description.name;
        tracing::warn!(
            event = "plugin.tool_header_invalid", %plugin, tool, reason = what,
            "tool has an invalid header; http clients leave it out"
        );
    }
    let limits = said.limits.as_ref().unwrap_or(&manifest.limits);
    Ok(ToolSpec {
        description,
        task_support,
        digest: digest.clone(),
        plugin: plugin.to_owned(),
        poll_interval_ms: manifest.poll_interval.map(|time| time.as_millis() as u64),
        immediate_response: manifest.immediate_response.clone(),
        durability: said.durability(manifest.durability),
        inline_for: said.inline_for.or(manifest.inline_for),
        bridge_after: said.bridge_after.or(manifest.bridge_after),
        on_client_timeout: said.on_client_timeout.or(manifest.on_client_timeout),
        concurrency: manifest.concurrency,
        queue: manifest.queue,
        rate: said.rate,
        confirm: said.confirm.clone(),
        reports: limits.reports(),
        journal: JournalTerms {
            limit: limits.journal,
            retention: said.journal.or(manifest.journal).unwrap_or_default(),
        },
    })
}

/// A tool that the component declares, with what the manifest says about it.
pub(crate) fn tool(
    base: &Arc<PluginBase>,
    declared: &Arc<DeclaredTool>,
    said: &ToolOverride,
) -> Result<Arc<GuestTool>, Refusal> {
    let given = &declared.description;
    let spec = spec((&base.file, &base.component.digest, &base.manifest), given, said)?;
    let limits = said.limits.clone().unwrap_or_else(|| base.manifest.limits.clone());
    let guest_name = given.name.as_str().into();
    let callee = match (&base.component.exports.tools, base.component.functions.by_name.get(&given.name)) {
        (Some(exports), _) => Callee::Contract(exports.call),
        (None, Some(function)) => Callee::Plain(function.clone()),
        (None, None) => return Err(Refusal::Internal(format!("the tool `{}` has no function", given.name))),
    };
    let (declared, base) = (declared.clone(), base.clone());
    Ok(Arc::new(GuestTool {
        spec,
        guest_name,
        declared,
        callee,
        limits,
        first_polls: FirstPolls::default(),
        prefault: Prefault::default(),
        base,
    }))
}

fn no_such_tool(file: &str, name: &str, code: &LoadedComponent) -> ManifestError {
    let names = code.declared.iter().map(|tool| tool.description.name.as_str());
    let nearest = toolyard_manifest::nearest(name, names);
    let nearest = nearest.map_or("it has none".to_owned(), |nearest| format!("the nearest is `{nearest}`"));
    ManifestError {
        file: toolyard_manifest::file_name(file),
        line: None,
        what: format!("`tools.{name}`: the plugin has no such tool; {nearest}"),
    }
}
