//! What the plugin says that it has.

use contract::declaration::{object, tool};
use contract::{TaskSupport, Tool};
use serde_json::{Value, json};

/// The tool that lists.
pub const LIST: &str = "list_files";
/// The tool that reads.
pub const READ: &str = "read_file";
/// The tool that searches.
pub const SEARCH: &str = "search_files";

/// How many entries are listed where the call does not say.
pub fn default_entries() -> usize {
    200
}

/// Where reading begins where the call does not say.
pub fn first_line() -> usize {
    1
}

/// How many lines are read where the call does not say.
pub fn default_lines() -> usize {
    2_000
}

/// How many matches are given where the call does not say.
pub fn default_results() -> usize {
    50
}

/// The tools.
pub fn tools() -> Vec<Tool> {
    vec![list(), read(), search()]
}

fn text(description: &str, most: u32) -> Value {
    json!({ "type": "string", "maxLength": most, "description": description })
}

fn number(description: &str, default: usize, most: usize) -> Value {
    json!({ "type": "integer", "minimum": 1, "maximum": most, "default": default, "description": description })
}

fn switch(description: &str) -> Value {
    json!({ "type": "boolean", "default": false, "description": description })
}

fn count(description: &str) -> Value {
    json!({ "type": "integer", "minimum": 0, "description": description })
}

fn folder() -> Value {
    text("The folder, such as docs/drafts; all of the granted folder if left out.", 1_024)
}

fn glob() -> Value {
    text("Only paths that fit: *.txt by name in every folder, src/**/*.{rs,toml} by the whole path.", 256)
}

fn hidden() -> Value {
    switch("Also what begins with a dot.")
}

fn list() -> Tool {
    let entry = object(
        json!({
            "path": { "type": "string" },
            "kind": { "enum": ["file", "folder", "link", "other"] },
            "size": count("The bytes of a file."),
            "modified": count("When it changed last, in seconds since 1970."),
        }),
        &["path", "kind"],
    );
    let output = object(
        json!({
            "path": { "type": "string", "description": "The folder." },
            "entries": { "type": "array", "items": entry },
            "more": { "type": "boolean", "description": "Whether something is left out." },
        }),
        &["path", "entries", "more"],
    );
    let input = object(
        json!({
            "path": folder(),
            "recursive": switch("Also what is in the folders below."),
            "glob": glob(),
            "hidden": hidden(),
            "limit": number("How many entries to give at most.", default_entries(), 2_000),
        }),
        &[],
    );
    Tool {
        task_support: TaskSupport::Forbidden,
        output_schema: Some(output.to_string()),
        ..tool(
            LIST,
            "List files",
            "Shows what is in a folder of the user's files: files with their sizes, folders, and links.",
            input,
        )
    }
}

fn read() -> Tool {
    let input = object(
        json!({
            "path": { "type": "string", "minLength": 1, "maxLength": 1_024, "description": "The file, such as docs/plan.txt." },
            "offset": number("The first line to give of a text.", first_line(), 1_000_000_000),
            "limit": number("How many lines to give at most.", default_lines(), 100_000),
        }),
        &["path"],
    );
    Tool {
        task_support: TaskSupport::Forbidden,
        ..tool(
            READ,
            "Read file",
            "Gives one of the user's files: text by its lines, images as images, anything else as bytes. If a text \
             is longer than what is given, that is said, with the line to go on from.",
            input,
        )
    }
}

fn search() -> Tool {
    let found = object(
        json!({
            "path": { "type": "string" },
            "line": { "type": "integer", "minimum": 1 },
            "text": { "type": "string", "description": "The line, cut if it is long." },
        }),
        &["path", "line", "text"],
    );
    let output = object(
        json!({
            "matches": { "type": "array", "items": found },
            "searched": count("How many files were searched."),
            "skipped": count("How many were too large or no text."),
            "more": { "type": "boolean", "description": "Whether there may be more matches." },
        }),
        &["matches", "searched", "skipped", "more"],
    );
    let input = object(
        json!({
            "query": { "type": "string", "minLength": 1, "maxLength": 500, "description": "The text to look for, as it is." },
            "regex": { "type": "string", "minLength": 1, "maxLength": 500, "description": "Instead of query: a regular expression for a line." },
            "path": folder(),
            "glob": glob(),
            "caseSensitive": switch("Whether upper and lower case are different."),
            "hidden": hidden(),
            "maxResults": number("How many lines to give at most.", default_results(), 1_000),
        }),
        &[],
    );
    Tool {
        task_support: TaskSupport::Optional,
        output_schema: Some(output.to_string()),
        ..tool(
            SEARCH,
            "Search files",
            "Finds the lines of the user's files that hold a text or fit a regular expression, each with its file \
             and line number. Give either query or regex.",
            input,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_are_a_contract_and_only_the_search_takes_long() {
        let tools: Vec<_> = tools().into_iter().map(|tool| (tool.name, tool.task_support)).collect();
        let names: Vec<_> = tools.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["list_files", "read_file", "search_files"]);
        assert!(tools.iter().all(|(name, task)| (*task == TaskSupport::Optional) == (name == SEARCH)));
    }

    #[test]
    fn the_defaults_of_the_schemas_are_those_of_the_code() {
        for tool in tools() {
            let schema: Value = serde_json::from_str(&tool.input_schema).expect("JSON");
            let default = |name: &str| schema["properties"][name]["default"].as_u64();
            let expected = match tool.name.as_str() {
                LIST => [default("limit") == Some(default_entries() as u64)].to_vec(),
                READ => vec![default("limit") == Some(default_lines() as u64), default("offset") == Some(1)],
                _ => vec![default("maxResults") == Some(default_results() as u64)],
            };
            assert!(expected.into_iter().all(|same| same), "{}", tool.name);
        }
    }
}
