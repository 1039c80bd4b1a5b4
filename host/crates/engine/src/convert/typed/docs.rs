//! The documentation of a component's functions, from its `package-docs` section, which holds the
//! comments of its WIT package: one byte for the version (0 or 1), then JSON.
//!
//! Comment lines that begin with `@` and a known word state facts that do not fit into a
//! description: `@task forbidden|optional|required`, `@title TEXT`, and the hints `@read-only`,
//! `@destructive`, `@idempotent`, `@open-world`, with or without `true` or `false`.

use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, HashMap};
use toolyard_task::wire::TaskSupport;
use wasmparser::{Parser, Payload};

const SECTION: &str = "package-docs";
/// A larger section is ignored. The section of all of WASI is a tenth of this size.
const MAX_BYTES: usize = 1 << 20;
/// The maximum number of worlds and interfaces in a section, including those within worlds.
const MAX_SCOPES: usize = 4_000;

/// The documentation of one function.
#[derive(Debug, Default, Clone, PartialEq)]
pub(crate) struct Said {
    pub title: Option<String>,
    pub description: Option<String>,
    pub task_support: Option<TaskSupport>,
    /// MCP tool annotations.
    pub annotations: Map<String, Value>,
}

/// The comments of all functions, by interface name (if any) and function name.
#[derive(Debug, Default)]
pub(crate) struct Docs(HashMap<Option<String>, HashMap<String, String>>);

/// Sorted, so that the same world always documents a function that occurs in several.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Package {
    worlds: BTreeMap<String, World>,
    interfaces: BTreeMap<String, Interface>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct World {
    interfaces: BTreeMap<String, Interface>,
    interface_exports: BTreeMap<String, Interface>,
    funcs: BTreeMap<String, Documented>,
    func_exports: BTreeMap<String, Documented>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Interface {
    funcs: BTreeMap<String, Documented>,
}

/// Version 0 has only text.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Documented {
    Text(String),
    Item { docs: Option<String> },
}

impl Docs {
    /// Reads the section of a component. An invalid section counts as empty.
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
            [0 | 1, json @ ..] if json.len() <= MAX_BYTES => json,
            _ => return Self::default(),
        };
        serde_json::from_slice(json).map(Self::index).unwrap_or_default()
    }

    /// Indexes each function once, independently of the number of worlds and later look-ups.
    fn index(Package { worlds, interfaces }: Package) -> Self {
        let within = |world: &World| world.interfaces.len() + world.interface_exports.len();
        let scopes: usize = worlds.len() + interfaces.len() + worlds.values().map(within).sum::<usize>();
        let mut docs = Self::default();
        if scopes > MAX_SCOPES {
            return docs;
        }
        interfaces.into_iter().for_each(|(name, of)| docs.add(Some(name), of.funcs));
        for world in worlds.into_values() {
            let interfaces = world.interface_exports.into_iter().chain(world.interfaces);
            interfaces.for_each(|(name, of)| docs.add(Some(name), of.funcs));
            docs.add(None, world.func_exports);
            docs.add(None, world.funcs);
        }
        docs
    }

    /// Adds comments of functions that have none yet.
    fn add(&mut self, interface: Option<String>, functions: BTreeMap<String, Documented>) {
        let known = self.0.entry(interface).or_default();
        for (name, documented) in functions {
            if let Documented::Text(text) | Documented::Item { docs: Some(text) } = documented {
                known.entry(name).or_insert(text);
            }
        }
    }

    /// The documentation of a function of an interface, by the interface's own name, or of a
    /// function of a world.
    pub fn function(&self, interface: Option<&str>, function: &str) -> Said {
        let interface = interface.map(str::to_owned);
        self.0
            .get(&interface)
            .and_then(|known| known.get(function))
            .map(|text| said(text))
            .unwrap_or_default()
    }
}

/// Separates the `@` lines of a comment from its description.
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

/// Reads an `@` line; returns whether it was one.
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

    /// Scanning each world for each function would take many minutes.
    #[test]
    fn a_section_of_many_worlds_costs_no_more_than_its_bytes() {
        let worlds = |count: usize| {
            let worlds: Vec<String> =
                (0..count).map(|n| format!(r#""{n:x}":{{"funcs":{{"f{n}":"Does {n}."}}}}"#)).collect();
            [b"\x01", format!(r#"{{"worlds":{{{}}}}}"#, worlds.join(",")).as_bytes()].concat()
        };
        let docs = Docs::read(&worlds(MAX_SCOPES));
        let began = std::time::Instant::now();
        for n in 0..200 * MAX_SCOPES {
            let expected = (n < MAX_SCOPES).then(|| format!("Does {n}."));
            assert_eq!(docs.function(None, &format!("f{n}")).description, expected);
        }
        assert!(began.elapsed() < std::time::Duration::from_secs(300), "{:?}", began.elapsed());
        assert_eq!(Docs::read(&worlds(MAX_SCOPES + 1)).function(None, "f1"), Said::default(), "too many");
        let long = format!("\x01{{\"worlds\":{{}}{}}}", " ".repeat(MAX_BYTES));
        assert!(Docs::read(long.as_bytes()).0.is_empty(), "too long");
    }

    #[test]
    fn a_section_that_is_no_good_says_nothing() {
        for data in [&b""[..], b"\x02{}", b"\x01{", b"\x01[]", b"\x01{\"interfaces\":{\"a\":1}}"] {
            assert_eq!(Docs::read(data).function(None, "f"), Said::default());
        }
    }
}
