//! The exports of a component that belong to the contract, and the types of their functions. They
//! are found by index when the component is loaded, so that a run need not look up names.

use crate::bindings::exports::toolyard::plugin::{completion, prompts, resources};
use crate::bindings::toolyard::plugin::types as wit;
use crate::component::inspect::{COMPLETION, PROMPTS, RESOURCES, TOOLS};
use crate::error::Refusal;
use wasmtime::Store;
use wasmtime::component::{Component, ComponentExportIndex, Instance};

/// The exports of one component. It has at least one.
pub(crate) struct Exports {
    pub tools: Option<Tools>,
    pub resources: Option<Resources>,
    pub prompts: Option<Prompts>,
    /// The function `completion.complete`.
    pub complete: Option<ComponentExportIndex>,
}

/// The functions of `tools`.
pub(crate) struct Tools {
    pub list: ComponentExportIndex,
    pub call: ComponentExportIndex,
}

/// The functions of `resources`.
pub(crate) struct Resources {
    pub list: ComponentExportIndex,
    pub templates: ComponentExportIndex,
    pub read: ComponentExportIndex,
}

/// The functions of `prompts`.
pub(crate) struct Prompts {
    pub list: ComponentExportIndex,
    pub get: ComponentExportIndex,
}

/// Result of `list-tools`.
pub(crate) type ListedTools = (Vec<wit::Tool>,);
/// Parameters of `call`.
pub(crate) type CallParams<'a> = (&'a str, &'a str);
/// Result of `call`.
pub(crate) type Called = (Result<wit::ToolResult, wit::CallError>,);
/// Parameters of `list-resources`.
pub(crate) type PageParams<'a> = (Option<&'a str>,);
/// Result of `list-resources`.
pub(crate) type Page = (Result<resources::Page, wit::RpcError>,);
/// Result of `list-templates`.
pub(crate) type Templates = (Result<Vec<resources::Template>, wit::RpcError>,);
/// Result of `read`.
pub(crate) type Read = (Result<Option<Vec<resources::Contents>>, wit::RpcError>,);
/// Result of `list-prompts`.
pub(crate) type ListedPrompts = (Vec<prompts::Prompt>,);
/// Result of `get`.
pub(crate) type Got = (Result<prompts::PromptResult, wit::CallError>,);
/// Parameters of `complete`.
pub(crate) type CompleteParams<'a> = (&'a completion::Reference, &'a str, &'a str, &'a str);
/// Result of `complete`.
pub(crate) type Completed = (Result<completion::Completions, wit::RpcError>,);

impl Exports {
    /// Finds the functions.
    ///
    /// # Errors
    /// [`Refusal::Contract`] if an interface lacks one.
    pub fn of(component: &Component) -> Result<Self, Refusal> {
        let interface = |name| component.get_export_index(None, name).map(|found| (name, found));
        let function = |(interface, at): &(&str, ComponentExportIndex), name: &str| {
            component
                .get_export_index(Some(at), name)
                .ok_or_else(|| Refusal::Contract(format!("`{interface}` has no function `{name}`")))
        };
        let tools = interface(TOOLS).map(|at| {
            Ok::<_, Refusal>(Tools { list: function(&at, "list-tools")?, call: function(&at, "call")? })
        });
        let resources = interface(RESOURCES).map(|at| {
            Ok::<_, Refusal>(Resources {
                list: function(&at, "list-resources")?,
                templates: function(&at, "list-templates")?,
                read: function(&at, "read")?,
            })
        });
        let prompts = interface(PROMPTS).map(|at| {
            Ok::<_, Refusal>(Prompts { list: function(&at, "list-prompts")?, get: function(&at, "get")? })
        });
        let complete = interface(COMPLETION).map(|at| function(&at, "complete"));
        Ok(Self {
            tools: tools.transpose()?,
            resources: resources.transpose()?,
            prompts: prompts.transpose()?,
            complete: complete.transpose()?,
        })
    }

    /// Whether the component exports anything besides tools.
    pub fn has_more_than_tools(&self) -> bool {
        self.resources.is_some() || self.prompts.is_some() || self.complete.is_some()
    }

    /// Checks that the functions have the types of the contract, which requires an instance.
    pub fn check<T: 'static>(&self, store: &mut Store<T>, instance: Instance) -> wasmtime::Result<()> {
        if let Some(tools) = &self.tools {
            instance.get_typed_func::<(), ListedTools>(&mut *store, &tools.list)?;
            instance.get_typed_func::<CallParams<'_>, Called>(&mut *store, &tools.call)?;
        }
        if let Some(resources) = &self.resources {
            instance.get_typed_func::<PageParams<'_>, Page>(&mut *store, &resources.list)?;
            instance.get_typed_func::<(), Templates>(&mut *store, &resources.templates)?;
            instance.get_typed_func::<(&str,), Read>(&mut *store, &resources.read)?;
        }
        if let Some(prompts) = &self.prompts {
            instance.get_typed_func::<(), ListedPrompts>(&mut *store, &prompts.list)?;
            instance.get_typed_func::<CallParams<'_>, Got>(&mut *store, &prompts.get)?;
        }
        if let Some(complete) = &self.complete {
            instance.get_typed_func::<CompleteParams<'_>, Completed>(&mut *store, complete)?;
        }
        Ok(())
    }
}
