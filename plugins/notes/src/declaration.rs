//! What the plugin says that it has.

use contract::declaration::{argument, object, tool};
use contract::prompts::Prompt;
use contract::resources::Template;
use contract::{TaskSupport, Tool};
use serde_json::{Value, json};

use crate::MARKDOWN;

/// The tool that searches.
pub const SEARCH: &str = "search_notes";
/// The tool that reads.
pub const READ: &str = "read_note";
/// The tool that appends.
pub const APPEND: &str = "append_note";
/// The prompt.
pub const SUMMARISE: &str = "summarise_note";
/// The argument of the prompt and the variable of the template.
pub const NAME: &str = "name";
/// The template.
pub const TEMPLATE: &str = "notes:///{name}";
/// What the prompt says after the note.
pub const INSTRUCTION: &str = "Summarise the note above: what it is about in one sentence, then its main points as \
                               a short list, then what is left to be done, if anything. Say nothing that is not in it.";

/// The longest query, in characters.
const LONGEST_QUERY: usize = 200;
/// The most matches.
const MOST_MATCHES: usize = 100;
/// The longest text to append, in characters.
const LONGEST_TEXT: usize = 65_536;

/// How many matches are given where the call does not say.
pub fn default_limit() -> usize {
    20
}

/// The tools.
pub fn tools() -> Vec<Tool> {
    let name = || json!({ "type": "string", "minLength": 1, "maxLength": 128, "description": "The note's name; the ending .md may be left out." });
    let count = |description: &str| json!({ "type": "integer", "minimum": 0, "description": description });
    let found = object(
        json!({
            "name": { "type": "string" },
            "uri": { "type": "string", "description": "The note as a resource." },
            "line": { "type": "integer", "minimum": 1 },
            "text": { "type": "string", "description": "The line, cut if it is long." },
        }),
        &["name", "uri", "line", "text"],
    );
    let search_output = object(
        json!({
            "matches": { "type": "array", "items": found },
            "searched": count("How many notes were searched."),
            "skipped": count("How many were too large or not readable."),
            "more": { "type": "boolean", "description": "Whether there are more matches." },
        }),
        &["matches", "searched", "skipped", "more"],
    );
    let append_output = object(
        json!({
            "name": { "type": "string" },
            "uri": { "type": "string", "description": "The note as a resource." },
            "created": { "type": "boolean", "description": "Whether the note is new." },
            "bytes": count("How many bytes it has now."),
        }),
        &["name", "uri", "created", "bytes"],
    );
    vec![
        Tool {
            output_schema: Some(search_output.to_string()),
            ..tool(
                SEARCH,
                "Search notes",
                "Finds the lines of the user's Markdown notes that hold every word of the query, in any order and \
                 case, each with its note and its line number.",
                object(
                    json!({
                        "query": {
                            "type": "string",
                            "minLength": 1,
                            "maxLength": LONGEST_QUERY,
                            "description": "The words to look for.",
                        },
                        "limit": {
                            "type": "integer",
                            "minimum": 1,
                            "maximum": MOST_MATCHES,
                            "default": default_limit(),
                            "description": "How many lines to give at most.",
                        },
                    }),
                    &["query"],
                ),
            )
        },
        Tool {
            task_support: TaskSupport::Forbidden,
            ..tool(
                READ,
                "Read note",
                "Gives one of the user's Markdown notes.",
                object(json!({ NAME: name() }), &[NAME]),
            )
        },
        Tool {
            task_support: TaskSupport::Forbidden,
            annotations: adding(),
            output_schema: Some(append_output.to_string()),
            ..tool(
                APPEND,
                "Append to note",
                "Adds text to the end of one of the user's Markdown notes, on lines of its own, or begins a new note \
                 with it. Nothing is overwritten.",
                object(
                    json!({
                        NAME: name(),
                        "text": {
                            "type": "string",
                            "minLength": 1,
                            "maxLength": LONGEST_TEXT,
                            "description": "Markdown.",
                        },
                    }),
                    &[NAME, "text"],
                ),
            )
        },
    ]
}

/// It writes, but takes nothing away; twice is not once.
fn adding() -> String {
    json!({ "readOnlyHint": false, "destructiveHint": false, "idempotentHint": false, "openWorldHint": false })
        .to_string()
}

/// The prompt.
pub fn prompt() -> Prompt {
    contract::declaration::prompt(
        SUMMARISE,
        "Summarise a note",
        "Sums up one of the user's notes.",
        vec![argument(NAME, "The note's name.")],
    )
}

/// The template of all notes.
pub fn template() -> Template {
    let more: Value = json!({ "title": "A note by its name", "mimeType": MARKDOWN });
    Template { uri_template: TEMPLATE.to_owned(), name: "note".to_owned(), more: more.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_are_a_contract() {
        let names: Vec<_> = tools().into_iter().map(|tool| tool.name).collect();
        assert_eq!(names, ["search_notes", "read_note", "append_note"]);
        assert_eq!((prompt().name.as_str(), prompt().arguments[0].required), ("summarise_note", true));
        assert_eq!(template().uri_template, "notes:///{name}");
    }

    #[test]
    fn only_what_writes_says_that_it_does() {
        for tool in tools() {
            let hints: Value = serde_json::from_str(&tool.annotations).expect("JSON");
            assert_eq!(hints["readOnlyHint"], tool.name != APPEND, "{}", tool.name);
        }
    }
}
