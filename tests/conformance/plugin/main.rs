//! The tools, resources and prompts that the official conformance suites look up by name, with the texts that
//! they compare exactly. Not shipped.

mod asking;
mod media;
mod offering;
mod questions;
mod rounds;
mod tasks;
mod tools;

use toolyard_plugin::raw::{CallError, Tool, ToolResult};

/// The plugin; each module implements the interfaces in its name.
pub struct Conformance;

impl toolyard_plugin::raw::Guest for Conformance {
    fn list_tools() -> Vec<Tool> {
        let mut listed = tools::list();
        listed.extend(asking::list());
        listed.extend(rounds::list());
        listed.extend(tasks::list());
        listed
    }

    fn call(name: String, arguments: String) -> Result<ToolResult, CallError> {
        tools::call(&name, &arguments)
            .or_else(|| asking::call(&name, &arguments))
            .or_else(|| rounds::call(&name))
            .or_else(|| tasks::call(&name, &arguments))
            .unwrap_or_else(|| Err(fixtures::arguments::unknown_tool(&name)))
    }
}

toolyard_plugin::raw::export!(Conformance with_types_in toolyard_plugin::bindings);
toolyard_plugin::raw::export_resources!(Conformance with_types_in toolyard_plugin::bindings::resources);
toolyard_plugin::raw::export_prompts!(Conformance with_types_in toolyard_plugin::bindings::prompts);
toolyard_plugin::raw::export_completion!(Conformance with_types_in toolyard_plugin::bindings::completion);
