//! The files of a folder that the manifest grants: tools to list, read and search
//! them.
//!
//! `place` says which path is meant, `walk` finds what is below a folder, `glob`
//! which of it is wanted, `listing`, `reading` and `searching` are the three tools,
//! `declaration` says what there is. Here the host is told and asked; everything
//! below can run without one.

mod declaration;
mod glob;
mod listing;
mod place;
mod reading;
mod searching;
mod walk;

use std::path::Path;

use contract::{CallError, Tool, ToolResult, arguments, host, result};

/// Where the manifest puts the files.
const ROOT: &str = "/files";

struct Files;

impl contract::Guest for Files {
    fn list_tools() -> Vec<Tool> {
        declaration::tools()
    }

    fn call(tool: String, arguments: String) -> Result<ToolResult, CallError> {
        let root = Path::new(ROOT);
        let done = match tool.as_str() {
            declaration::LIST => listing::list(root, &arguments::read(&arguments)?),
            declaration::READ => reading::read(root, &arguments::read(&arguments)?),
            declaration::SEARCH => {
                searching::search(root, &arguments::read(&arguments)?, &mut |searched, of| {
                    let message = format!("Searched {searched} of {of} files");
                    host::progress(searched as f64, Some(of as f64), Some(&message));
                    host::cancelled()
                })
            }
            _ => return Err(arguments::unknown_tool(&tool)),
        };
        Ok(done.unwrap_or_else(|fault| result::failure(fault.0)))
    }
}

contract::export!(Files with_types_in contract::bindings);
