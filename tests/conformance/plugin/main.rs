//! What the official conformance suites look up by name: tools, resources and
//! prompts, with the texts that they compare to the letter. Not shipped.

mod asking;
mod media;
mod offering;
mod tools;

use contract::{CallError, Tool, ToolResult};

/// The plugin; each module implements the interfaces that it is named for.
pub struct Conformance;

impl contract::Guest for Conformance {
    fn list_tools() -> Vec<Tool> {
        let mut listed = tools::list();
        listed.extend(asking::list());
        listed
    }

    fn call(name: String, arguments: String) -> Result<ToolResult, CallError> {
        match tools::call(&name).or_else(|| asking::call(&name, &arguments)) {
            Some(result) => result,
            None => Err(contract::arguments::unknown_tool(&name)),
        }
    }
}

contract::export!(Conformance with_types_in contract::bindings);
contract::export_resources!(Conformance with_types_in contract::bindings::resources);
contract::export_prompts!(Conformance with_types_in contract::bindings::prompts);
contract::export_completion!(Conformance with_types_in contract::bindings::completion);
