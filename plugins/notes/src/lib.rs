//! Markdown notes in a folder that the manifest grants: tools to search, read and append, each note as a
//! resource, a prompt about a note, and completion of names.
//!
//! `name` checks names and makes URIs, `folder` reads and writes files, `search` finds lines, `listing` makes
//! pages of resources, `completing` ranks names, `moment` formats times. Only this file calls the host; the
//! modules below run without one.

mod completing;
mod folder;
mod listing;
mod moment;
mod name;
mod search;

use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolyard_plugin::completion::{self, Completions, Reference};
use toolyard_plugin::prompts::{self, Argument, Message, Prompt, PromptResult, Role};
use toolyard_plugin::raw::{CallError, RpcError, TextBlock};
use toolyard_plugin::resources::{self, Body, Contents, Page, Template};
use toolyard_plugin::{
    AskError, Change, Content, Error, INVALID_PARAMS, Tool, ToolResult, cancelled, changed, effects, plugin,
    progress,
};

use crate::folder::Fault;
use crate::name::Name;
use crate::search::Found;

/// The path of the notes in the guest, as the manifest maps it.
const ROOT: &str = "/notes";
/// The media type of a note.
const MARKDOWN: &str = "text/markdown";
/// The name of the prompt.
const SUMMARISE: &str = "summarise_note";
/// The argument of the prompt and the variable of the template.
const NAME: &str = "name";
/// The resource template of all notes.
const TEMPLATE: &str = "notes:///{name}";
/// The text of the prompt after the note.
const INSTRUCTION: &str = "Summarise the note above: what it is about in one sentence, then its main points as \
                           a short list, then what is left to be done, if anything. Say nothing that is not in it.";
/// A note could not be read, and the caller did not cause it.
const INTERNAL_ERROR: i32 = -32603;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Search {
    /// The words to search for.
    #[schemars(length(min = 1, max = 200))]
    query: String,
    /// The most lines to return.
    #[serde(default = "default_limit")]
    #[schemars(range(min = 1, max = 100))]
    limit: usize,
}

fn default_limit() -> usize {
    20
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct OfNote {
    /// The note's name; the ending .md may be omitted.
    #[schemars(length(min = 1, max = 128))]
    name: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Append {
    /// The note's name; the ending .md may be omitted.
    #[schemars(length(min = 1, max = 128))]
    name: String,
    /// The Markdown to append.
    #[schemars(length(min = 1, max = 65_536))]
    text: String,
}

#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Appended {
    name: String,
    /// The URI of the note as a resource.
    uri: String,
    /// Whether the note is new.
    created: bool,
    /// The size of the note in bytes.
    bytes: u64,
}

fn search_notes(Search { query, limit }: Search) -> Result<ToolResult<Found>, Error> {
    let found = search::search(Path::new(ROOT), &query, limit, &mut |searched, of| {
        progress(searched as f64, of as f64, "");
        cancelled()
    })?;
    Ok(ToolResult::new().text(found.text()).structured(found))
}

fn read_note(OfNote { name }: OfNote) -> Result<String, Error> {
    let bytes = folder::read(Path::new(ROOT), &Name::of_argument(&name)?)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn append_note(Append { name, text }: Append) -> Result<ToolResult<Appended>, Error> {
    let name = Name::of_argument(&name)?;
    // A second run would append the text twice.
    effects().map_err(|error| Error::new(why(&error)))?;
    let folder::Appended { created, bytes } = folder::append(Path::new(ROOT), &name, &text)?;
    if created {
        changed(&Change::Resources);
    }
    changed(&Change::Resource(name.uri()));
    let done = if created { "Began" } else { "Added to" };
    let (name, uri) = (name.as_str().to_owned(), name.uri());
    Ok(ToolResult::new()
        .text(format!("{done} {name}, which has {bytes} bytes now."))
        .link(&uri, &name, json!({ "mimeType": MARKDOWN }))
        .structured(Appended { name, uri, created, bytes }))
}

fn why(error: &AskError) -> &'static str {
    match error {
        AskError::Cancelled => "the call is being stopped, so nothing was written",
        _ => "the host could not note that this call has effects, so nothing was written",
    }
}

struct Notes;

impl resources::Guest for Notes {
    fn list_resources(cursor: Option<String>) -> Result<Page, RpcError> {
        listing::page(Path::new(ROOT), cursor.as_deref()).map_err(internal)
    }

    fn list_templates() -> Result<Vec<Template>, RpcError> {
        let more = json!({ "title": "A note by its name", "mimeType": MARKDOWN }).to_string();
        Ok(vec![Template { uri_template: TEMPLATE.to_owned(), name: "note".to_owned(), more }])
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

impl prompts::Guest for Notes {
    fn list_prompts() -> Vec<Prompt> {
        vec![Prompt {
            name: SUMMARISE.to_owned(),
            title: Some("Summarise a note".to_owned()),
            description: Some("Sums up one of the user's notes.".to_owned()),
            arguments: vec![Argument {
                name: NAME.to_owned(),
                title: None,
                description: Some("The note's name.".to_owned()),
                required: true,
            }],
            icons: "[]".to_owned(),
            meta: None,
        }]
    }

    fn get(prompt: String, arguments: String) -> Result<PromptResult, CallError> {
        if prompt != SUMMARISE {
            return Err(CallError::Rpc(invalid_params(format!("There is no prompt named {prompt}."))));
        }
        let OfNote { name } = serde_json::from_str(&arguments)
            .map_err(|error| CallError::Rpc(invalid_params(format!("The arguments do not fit: {error}."))))?;
        let made = Name::of_argument(&name).and_then(|name| summarise(Path::new(ROOT), &name));
        made.map_err(|fault| match fault {
            Fault::Unreadable(_) => CallError::Rpc(internal(fault)),
            fault => CallError::Rpc(invalid_params(fault.to_string())),
        })
    }
}

fn summarise(root: &Path, name: &Name) -> Result<PromptResult, Fault> {
    let bytes = folder::read(root, name)?;
    let text: Value = String::from_utf8_lossy(&bytes).into();
    let resource = json!({ "resource": { "uri": name.uri(), "mimeType": MARKDOWN, "text": text } });
    let instruction = TextBlock { text: INSTRUCTION.to_owned(), annotations: None, meta: None };
    let messages = [Content::EmbeddedResource(resource.to_string()), Content::Text(instruction)]
        .map(|content| Message { role: Role::User, content })
        .into();
    Ok(PromptResult { description: Some(format!("A summary of {}", name.as_str())), messages })
}

impl completion::Guest for Notes {
    fn complete(
        reference: Reference,
        name: String,
        value: String,
        _context: String,
    ) -> Result<Completions, RpcError> {
        let is_ours = match &reference {
            Reference::Prompt(prompt) => prompt == SUMMARISE,
            Reference::Template(template) => template == TEMPLATE,
        };
        if !is_ours || name != NAME {
            return Err(invalid_params("There is nothing of that name to complete."));
        }
        let notes = folder::notes(Path::new(ROOT)).map_err(internal)?;
        Ok(completing::complete(&notes, &value))
    }
}

fn internal(fault: Fault) -> RpcError {
    RpcError { code: INTERNAL_ERROR, message: fault.to_string(), data: None }
}

fn invalid_params(message: impl Into<String>) -> RpcError {
    RpcError { code: INVALID_PARAMS, message: message.into(), data: None }
}

plugin! {
    tools: [
        Tool::new("search_notes", search_notes)
            .title("Search notes")
            .description(
                "Finds the lines of the user's Markdown notes that contain every word of the query, in any order and \
                 case, each with its note and its line number.",
            )
            .pure(),
        Tool::new("read_note", read_note)
            .title("Read note")
            .description("Returns one of the user's Markdown notes.")
            .pure(),
        // Appending twice differs from appending once.
        Tool::new("append_note", append_note)
            .title("Append to note")
            .description(
                "Adds text to the end of one of the user's Markdown notes, on lines of its own, or creates a \
                 new note with it. Nothing is overwritten.",
            )
            .additive()
            .idempotent(false)
            .open_world(false),
    ],
    resources: Notes,
    prompts: Notes,
    completion: Notes,
}

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
        assert!(matches!(&second.content, Content::Text(block) if block.text == INSTRUCTION));
        let missing = Name::of_argument("none").expect("a name");
        assert!(matches!(summarise(root.path(), &missing), Err(Fault::Missing(_))));
    }
}
