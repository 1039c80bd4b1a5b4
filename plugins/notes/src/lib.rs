//! Markdown notes in a folder that the manifest grants: tools to search, read and
//! append, each note a resource, a prompt about one, and completion of names.
//!
//! `name` says what a note may be called and its URI, `folder` reads and writes
//! files, `search` finds lines, `listing` makes pages of resources, `completing`
//! ranks names, `declaration` says what there is, `moment` writes times. Here the
//! host is told and asked; everything below can run without one.

mod completing;
mod declaration;
mod folder;
mod listing;
mod moment;
mod name;
mod search;

use std::path::Path;

use contract::completion::{Completions, Reference};
use contract::prompts::{Prompt, PromptResult};
use contract::resources::{Body, Contents, Page, Template};
use contract::{AskError, CallError, Change, Content, RpcError, Tool, ToolResult, arguments, host, result};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::folder::Fault;
use crate::name::Name;

/// Where the manifest puts the notes.
const ROOT: &str = "/notes";
/// The media type of a note.
const MARKDOWN: &str = "text/markdown";
/// A note of the folder could not be read, and it is no fault of the caller.
const INTERNAL_ERROR: i32 = -32603;

struct Notes;

/// The arguments of `search_notes`.
#[derive(Deserialize)]
struct Search {
    query: String,
    #[serde(default = "declaration::default_limit")]
    limit: usize,
}

/// The arguments of `read_note` and of the prompt.
#[derive(Deserialize)]
struct OfNote {
    name: String,
}

/// The arguments of `append_note`.
#[derive(Deserialize)]
struct Append {
    name: String,
    text: String,
}

impl contract::Guest for Notes {
    fn list_tools() -> Vec<Tool> {
        declaration::tools()
    }

    fn call(tool: String, arguments: String) -> Result<ToolResult, CallError> {
        let root = Path::new(ROOT);
        let done = match tool.as_str() {
            declaration::SEARCH => {
                let Search { query, limit } = arguments::read(&arguments)?;
                search::search(root, &query, limit, &mut |searched, of| {
                    host::progress(searched as f64, Some(of as f64), None);
                    host::cancelled()
                })
                .map(|found| found.result())
            }
            declaration::READ => {
                let OfNote { name } = arguments::read(&arguments)?;
                Name::of_argument(&name)
                    .and_then(|name| folder::read(root, &name))
                    .map(|bytes| result::text(String::from_utf8_lossy(&bytes)))
            }
            declaration::APPEND => append(root, &arguments::read(&arguments)?),
            _ => return Err(arguments::unknown_tool(&tool)),
        };
        Ok(done.unwrap_or_else(|fault| result::failure(fault.to_string())))
    }
}

fn append(root: &Path, Append { name, text }: &Append) -> Result<ToolResult, Fault> {
    let name = Name::of_argument(name)?;
    // What is written twice stands there twice.
    host::effects().map_err(|error| Fault::Refused(why(&error).to_owned()))?;
    let appended = folder::append(root, &name, text)?;
    if appended.created {
        host::changed(&Change::Resources);
    }
    host::changed(&Change::Resource(name.uri()));
    let done = if appended.created { "Began" } else { "Added to" };
    let said = json!({ "name": name.as_str(), "uri": name.uri(), "created": appended.created, "bytes": appended.bytes });
    let link = json!({ "uri": name.uri(), "name": name.as_str(), "mimeType": MARKDOWN }).to_string();
    let text = format!("{done} {}, which has {} bytes now.", name.as_str(), appended.bytes);
    let mut result = result::structured(text, &said);
    result.content.push(Content::ResourceLink(link));
    Ok(result)
}

fn why(error: &AskError) -> &'static str {
    match error {
        AskError::Cancelled => "the call is being stopped, so nothing was written",
        _ => "the host could not note that this call has effects, so nothing was written",
    }
}

impl contract::resources::Guest for Notes {
    fn list_resources(cursor: Option<String>) -> Result<Page, RpcError> {
        listing::page(Path::new(ROOT), cursor.as_deref()).map_err(internal)
    }

    fn list_templates() -> Result<Vec<Template>, RpcError> {
        Ok(vec![declaration::template()])
    }

    fn read(uri: String) -> Result<Option<Vec<Contents>>, RpcError> {
        let Some(name) = Name::of_uri(&uri) else { return Ok(None) };
        let body = match folder::read(Path::new(ROOT), &name) {
            Ok(bytes) => {
                String::from_utf8(bytes).map_or_else(|error| Body::Blob(error.into_bytes()), Body::Text)
            }
            Err(Fault::Missing(_)) => return Ok(None),
            Err(fault) => return Err(internal(fault)),
        };
        Ok(Some(vec![Contents { uri, mime_type: Some(MARKDOWN.to_owned()), body, meta: None }]))
    }
}

impl contract::prompts::Guest for Notes {
    fn list_prompts() -> Vec<Prompt> {
        vec![declaration::prompt()]
    }

    fn get(prompt: String, arguments: String) -> Result<PromptResult, CallError> {
        if prompt != declaration::SUMMARISE {
            return Err(CallError::Rpc(arguments::invalid_params(format!(
                "There is no prompt named {prompt}."
            ))));
        }
        let OfNote { name } = arguments::read(&arguments)?;
        let made = Name::of_argument(&name).and_then(|name| summarise(Path::new(ROOT), &name));
        made.map_err(|fault| match fault {
            Fault::Unreadable(_) => CallError::Rpc(internal(fault)),
            fault => CallError::Rpc(arguments::invalid_params(fault.to_string())),
        })
    }
}

fn summarise(root: &Path, name: &Name) -> Result<PromptResult, Fault> {
    let bytes = folder::read(root, name)?;
    let text: Value = String::from_utf8_lossy(&bytes).into();
    let resource = json!({ "resource": { "uri": name.uri(), "mimeType": MARKDOWN, "text": text } });
    let messages = vec![
        result::from_user(Content::EmbeddedResource(resource.to_string())),
        result::from_user(result::block(declaration::INSTRUCTION)),
    ];
    Ok(PromptResult { description: Some(format!("A summary of {}", name.as_str())), messages })
}

impl contract::completion::Guest for Notes {
    fn complete(
        reference: Reference,
        name: String,
        value: String,
        _context: String,
    ) -> Result<Completions, RpcError> {
        let is_ours = match &reference {
            Reference::Prompt(prompt) => prompt == declaration::SUMMARISE,
            Reference::Template(template) => template == declaration::TEMPLATE,
        };
        if !is_ours || name != declaration::NAME {
            return Err(arguments::invalid_params("There is nothing of that name to complete."));
        }
        let notes = folder::notes(Path::new(ROOT)).map_err(internal)?;
        Ok(completing::complete(&notes, &value))
    }
}

fn internal(fault: Fault) -> RpcError {
    RpcError { code: INTERNAL_ERROR, message: fault.to_string(), data: None }
}

contract::export!(Notes with_types_in contract::bindings);
contract::export_resources!(Notes with_types_in contract::bindings::resources);
contract::export_prompts!(Notes with_types_in contract::bindings::prompts);
contract::export_completion!(Notes with_types_in contract::bindings::completion);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_embeds_the_note_before_the_instruction() {
        let root = tempfile::tempdir().expect("a folder");
        let name = Name::of_argument("a b").expect("a name");
        std::fs::write(root.path().join("a b.md"), b"# A\n\xff").expect("writes");
        let made = summarise(root.path(), &name).expect("made");
        let [first, second] = &made.messages[..] else { panic!("two messages") };
        let Content::EmbeddedResource(json) = &first.content else { panic!("a resource") };
        let json: Value = serde_json::from_str(json).expect("JSON");
        assert_eq!(json["resource"]["uri"], "notes:///a%20b.md");
        assert_eq!(json["resource"]["text"], "# A\n\u{fffd}");
        assert!(matches!(&second.content, Content::Text(block) if block.text == declaration::INSTRUCTION));
        let missing = Name::of_argument("none").expect("a name");
        assert!(matches!(summarise(root.path(), &missing), Err(Fault::Missing(_))));
    }
}
