//! What a component says of its functions in its `package-docs` section, which holds
//! the comments of its WIT package: one byte for the version (0 or 1), then JSON.
//!
//! Lines of a comment that begin with `@` and a word of ours say what a description
//! cannot: `@task forbidden|optional|required`, `@title TEXT`, and the hints `@read-only`,
//! `@destructive`, `@idempotent`, `@open-world`, with or without `true` or `false`.

use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::HashMap;
use toolyard_task::wire::TaskSupport;
use wasmparser::{Parser, Payload};

const SECTION: &str = "package-docs";
/// A larger section is not read.
const MOST_BYTES: usize = 4 << 20;

/// What is said of one function.
#[derive(Debug, Default, Clone, PartialEq)]
pub(crate) struct Said {
    pub title: Option<String>,
    pub description: Option<String>,
    pub task_support: Option<TaskSupport>,
    /// MCP tool annotations.
    pub annotations: Map<String, Value>,
}

/// What is said of all functions.
#[derive(Debug, Default)]
pub(crate) struct Docs(Package);

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Package {
    worlds: HashMap<String, World>,
    interfaces: HashMap<String, Interface>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct World {
    interfaces: HashMap<String, Interface>,
    interface_exports: HashMap<String, Interface>,
    funcs: HashMap<String, Documented>,
    func_exports: HashMap<String, Documented>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Interface {
    funcs: HashMap<String, Documented>,
}

/// Version 0 had the text alone.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Documented {
    Text(String),
    Item { docs: Option<String> },
}

impl Docs {
    /// Reads the section of a component; one that is no good says nothing.
    pub fn of(component: &[u8]) -> Self {
        let mut depth = 0_u32;
        for payload in Parser::new(0).parse_all(component).map_while(Result::ok) {
            match payload {
                Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => depth += 1,
                Payload::End(_) => depth = depth.saturating_sub(1),
                Payload::CustomSection(section) if depth == 0 && section.name() == SECTION => {
                    return Self::read(section.data());
                }
                _ => {}
            }
        }
        Self::default()
    }

    fn read(data: &[u8]) -> Self {
        let json = match data {
            [0 | 1, json @ ..] if json.len() <= MOST_BYTES => json,
            _ => return Self::default(),
        };
        Self(serde_json::from_slice(json).unwrap_or_default())
    }

    /// What is said of a function of an interface, by the interface's own name, or of a
    /// function of a world.
    pub fn function(&self, interface: Option<&str>, function: &str) -> Said {
        let Package { worlds, interfaces } = &self.0;
        let found = match interface {
            Some(interface) => interfaces
                .get(interface)
                .into_iter()
                .chain(worlds.values().flat_map(|world| {
                    world.interface_exports.get(interface).into_iter().chain(world.interfaces.get(interface))
                }))
                .find_map(|interface| interface.funcs.get(function)),
            None => worlds
                .values()
                .find_map(|world| world.func_exports.get(function).or_else(|| world.funcs.get(function))),
        };
        match found {
            Some(Documented::Text(text) | Documented::Item { docs: Some(text) }) => said(text),
            _ => Said::default(),
        }
    }
}

/// Takes the lines that are for us out of a comment.
fn said(text: &str) -> Said {
    let mut said = Said::default();
    let mut rest = Vec::new();
    for line in text.lines() {
        if !tag(line.trim(), &mut said) {
            rest.push(line);
        }
    }
    let rest = rest.join("\n").trim().to_owned();
    said.description = (!rest.is_empty()).then_some(rest);
    said
}

/// Whether the line was for us.
fn tag(line: &str, said: &mut Said) -> bool {
    let Some((word, value)) = line.strip_prefix('@').map(|tag| tag.split_once(' ').unwrap_or((tag, "")))
    else {
        return false;
    };
    let value = value.trim();
    let hint = match word {
        "task" => {
            let support = match value {
                "forbidden" => TaskSupport::Forbidden,
                "optional" => TaskSupport::Optional,
                "required" => TaskSupport::Required,
                _ => return false,
            };
            said.task_support = Some(support);
            return true;
        }
        "title" if !value.is_empty() => {
            said.title = Some(value.to_owned());
            return true;
        }
        "read-only" => "readOnlyHint",
        "destructive" => "destructiveHint",
        "idempotent" => "idempotentHint",
        "open-world" => "openWorldHint",
        _ => return false,
    };
    match value {
        "" | "true" => drop(said.annotations.insert(hint.to_owned(), true.into())),
        "false" => drop(said.annotations.insert(hint.to_owned(), false.into())),
        _ => return false,
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_become_descriptions_and_tags() {
        let said = said(
            "Adds.\n@task required\nTwo numbers.\n@read-only\n@destructive false\n@title Sum\n@author me",
        );
        assert_eq!(said.description.as_deref(), Some("Adds.\nTwo numbers.\n@author me"));
        assert_eq!(said.task_support, Some(TaskSupport::Required));
        assert_eq!(said.title.as_deref(), Some("Sum"));
        assert_eq!(
            Value::from(said.annotations),
            serde_json::json!({"readOnlyHint": true, "destructiveHint": false})
        );
    }

    #[test]
    fn what_the_tools_for_wit_write_is_read_in_both_versions() {
        let new = br#"{"worlds":{"w":{"func_exports":{"add":{"docs":"Adds."}}}},
            "interfaces":{"math":{"docs":"Math.","funcs":{"sub":{"docs":"Subtracts.","stability":"unknown"}}}}}"#;
        let docs = Docs::read(&[&[1], &new[..]].concat());
        assert_eq!(docs.function(None, "add").description.as_deref(), Some("Adds."));
        assert_eq!(docs.function(Some("math"), "sub").description.as_deref(), Some("Subtracts."));
        assert_eq!(docs.function(Some("math"), "add"), Said::default());
        let old = br#"{"interfaces":{"math":{"funcs":{"sub":"Subtracts."}}}}"#;
        let docs = Docs::read(&[&[0], &old[..]].concat());
        assert_eq!(docs.function(Some("math"), "sub").description.as_deref(), Some("Subtracts."));
    }

    #[test]
    fn a_section_that_is_no_good_says_nothing() {
        for data in [&b""[..], b"\x02{}", b"\x01{", b"\x01[]", b"\x01{\"interfaces\":{\"a\":1}}"] {
            assert_eq!(Docs::read(data).function(None, "f"), Said::default());
        }
    }
}
