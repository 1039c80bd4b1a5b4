//! The official JSON Schemas of the revisions and of the tasks extension. They belong to others and are not
//! part of the repository: `TOOLYARD_SPEC` names their folder, which defaults to `../shared/spec`.

use crate::guests::root;
use jsonschema::{Draft, Validator};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

const SESSIONS: &str = "schema-2025-11-25.json";
const STATELESS: &str = "schema-2026-07-28.json";
const TASKS: &str = "schema-ext-tasks.json";
/// How many problems of one message are listed.
const MOST_PROBLEMS: usize = 5;

/// The official schemas.
pub struct Schema {
    /// Of 2025-11-25.
    pub sessions: Definitions,
    /// Of 2026-07-28.
    pub stateless: Definitions,
    /// Of the tasks extension of 2026-07-28.
    pub tasks: Definitions,
}

/// The definitions of a schema, each compiled at its first use.
pub struct Definitions {
    definitions: Value,
    compiled: Mutex<HashMap<String, Arc<Validator>>>,
}

/// The folder with the specification's files.
pub fn folder() -> PathBuf {
    std::env::var_os("TOOLYARD_SPEC").map_or_else(|| root().join("../shared/spec"), PathBuf::from)
}

/// Whether this is CI, where no test may be skipped.
pub fn is_ci() -> bool {
    std::env::var_os("CI").is_some_and(|ci| ci == "true")
}

/// Prints that a test is skipped. Tests may be skipped on a developer's machine, but not in CI.
///
/// # Panics
/// In CI.
pub fn skipped(what: &str) {
    assert!(!is_ci(), "{what}");
    // Not by `eprintln!`, which the test harness captures while a test passes.
    writeln!(std::io::stderr(), "SKIPPED: {what}").expect("stderr can be written to");
}

impl Schema {
    /// The official schemas, if they are on this machine.
    ///
    /// # Panics
    /// In CI if they are not; anywhere if they are not JSON.
    pub fn official() -> Option<&'static Self> {
        static OFFICIAL: OnceLock<Option<Schema>> = OnceLock::new();
        let read = || {
            let schema = Self::of(&folder());
            if schema.is_none() {
                skipped("no official schemas (TOOLYARD_SPEC names their folder): messages are not validated");
            }
            schema
        };
        OFFICIAL.get_or_init(read).as_ref()
    }

    /// The official schemas in this folder, if they are all there.
    ///
    /// # Panics
    /// If one is not JSON.
    pub fn of(folder: &Path) -> Option<Self> {
        let read = |file| Definitions::read(&folder.join(file));
        Some(Self { sessions: read(SESSIONS)?, stateless: read(STATELESS)?, tasks: read(TASKS)? })
    }
}

impl Definitions {
    fn read(file: &Path) -> Option<Self> {
        let text = std::fs::read(file).ok()?;
        let mut schema: Value = serde_json::from_slice(&text).expect("the official schema is JSON");
        Some(Self { definitions: schema["$defs"].take(), compiled: Mutex::default() })
    }

    /// The problems of `value` as an instance of `definition`.
    ///
    /// # Panics
    /// If there is no such definition.
    pub fn problems(&self, definition: &str, value: &Value) -> Vec<String> {
        let validator = self.validator(definition);
        if validator.is_valid(value) {
            return Vec::new();
        }
        let complaint = |error: jsonschema::ValidationError<'_>| {
            let mut text = error.to_string();
            text.truncate(text.floor_char_boundary(300));
            format!("{definition}: at `{}`: {text}", error.instance_path())
        };
        validator.iter_errors(value).take(MOST_PROBLEMS).map(complaint).collect()
    }

    /// The definition, in this union, of the messages of this method.
    pub fn of_method(&self, union: &str, method: &str) -> Option<&str> {
        let members = self.definitions[union]["anyOf"].as_array()?;
        let mut names = members.iter().filter_map(|member| member["$ref"].as_str()?.strip_prefix("#/$defs/"));
        names.find(|name| self.definitions[*name]["properties"]["method"]["const"] == method)
    }

    /// The definition of the result of a client's request. Never a union: `CreateTaskResult` is in none.
    pub fn of_result(&self, method: &str) -> Option<String> {
        let result = format!("{}Result", self.of_method("ClientRequest", method)?.strip_suffix("Request")?);
        let is_defined = self.definitions.get(&result).is_some();
        Some(if is_defined { result } else { "EmptyResult".to_owned() })
    }

    fn validator(&self, definition: &str) -> Arc<Validator> {
        // A panic elsewhere leaves the map intact.
        let mut compiled = self.compiled.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = compiled.entry(definition.to_owned());
        entry.or_insert_with(|| Arc::new(self.compile(definition))).clone()
    }

    fn compile(&self, definition: &str) -> Validator {
        assert!(self.definitions.get(definition).is_some(), "the schema defines no {definition}");
        let schema = json!({"$ref": format!("#/$defs/{definition}"), "$defs": self.definitions});
        jsonschema::options()
            .with_draft(Draft::Draft202012)
            .should_validate_formats(true)
            .offline()
            .build(&schema)
            .expect("the official schema compiles")
    }
}
