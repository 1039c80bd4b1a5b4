//! Converts the result of `list-tools` into tools that can be listed and validated (TL-3 to TL-8).
//! An offer from the cache passes the same checks.

use crate::bindings::toolyard::plugin::types as wit;
use crate::error::Refusal;
use crate::settings::Settings;
use serde::Deserialize;
use std::collections::HashSet;
use std::sync::Arc;
use toolyard_schema::{Allowance, Schema};
use toolyard_task::wire::{
    Execution, RawJson, TaskSupport, ToolDescription, is_tool_name, is_uri, param_headers,
};

/// The maximum number of tools in one component.
pub(crate) const MAX_TOOLS: usize = 256;
/// The maximum length of a description, in bytes.
pub(crate) const MAX_DESCRIPTION_BYTES: usize = 64 << 10;
/// The maximum length of a title, in bytes.
pub(crate) const MAX_TITLE_BYTES: usize = 1 << 10;
/// The maximum size of the annotations, the icons and the `_meta` of a tool or a prompt, in bytes
/// each.
const MAX_EXTRA_BYTES: usize = 64 << 10;

/// A tool as the component declares it.
pub(crate) struct DeclaredTool {
    pub description: ToolDescription,
    pub input: Arc<Schema>,
    pub output: Option<Arc<Schema>>,
}

/// Converts the tools that the guest listed.
pub(crate) fn describe(listed: Vec<wit::Tool>) -> Result<Vec<ToolDescription>, Refusal> {
    if listed.len() > MAX_TOOLS {
        return Err(Refusal::TooManyTools(listed.len()));
    }
    let describe = |tool: wit::Tool| {
        let name = tool.name.clone();
        if !is_tool_name(&name) {
            return Err(Refusal::ToolName(toolyard_task::wire::visible::clip(&name, 140)));
        }
        describe_one(tool).map_err(|what| Refusal::Tool { tool: name, what })
    };
    listed.into_iter().map(describe).collect()
}

fn describe_one(tool: wit::Tool) -> Result<ToolDescription, String> {
    let json =
        |what: &str, text: String| RawJson::parse(text).map_err(|error| format!("its {what} is {error}"));
    let icons = icons(tool.icons)?;
    let annotations = extra("annotations", tool.annotations, RawJson::is_object, "object")?;
    check_annotations(&annotations)?;
    let meta = meta(tool.meta)?;
    let support = match tool.task_support {
        wit::TaskSupport::Forbidden => TaskSupport::Forbidden,
        wit::TaskSupport::Optional => TaskSupport::Optional,
        wit::TaskSupport::Required => TaskSupport::Required,
    };
    Ok(ToolDescription {
        title: text("title", tool.title, MAX_TITLE_BYTES)?,
        description: text("description", tool.description, MAX_DESCRIPTION_BYTES)?,
        icons,
        input_schema: json("input schema", tool.input_schema)?,
        output_schema: tool.output_schema.map(|schema| json("output schema", schema)).transpose()?,
        annotations: Some(annotations).filter(|annotations| !is_empty(annotations)),
        execution: execution(support),
        meta,
        name: tool.name,
    })
}

fn extra(what: &str, text: String, is_right: fn(&RawJson) -> bool, kind: &str) -> Result<RawJson, String> {
    if text.len() > MAX_EXTRA_BYTES {
        return Err(format!("its {what} is longer than {MAX_EXTRA_BYTES} bytes"));
    }
    let json = RawJson::parse(text).map_err(|error| format!("its {what} is {error}"))?;
    if is_right(&json) { Ok(json) } else { Err(format!("its {what} is not a JSON {kind}")) }
}

/// A text of a tool or a prompt, of at most so many bytes.
pub(crate) fn text(what: &str, text: Option<String>, most: usize) -> Result<Option<String>, String> {
    match text {
        Some(text) if text.len() > most => Err(format!("its {what} is longer than {most} bytes")),
        text => Ok(text),
    }
}

/// The icons of a tool or a prompt; `None` if there are none.
pub(crate) fn icons(text: String) -> Result<Option<RawJson>, String> {
    let icons = extra("icons", text, RawJson::is_array, "array")?;
    check_icons(&icons)?;
    Ok(Some(icons).filter(|icons| !is_empty(icons)))
}

/// The `_meta` of a tool or a prompt.
pub(crate) fn meta(text: Option<String>) -> Result<Option<RawJson>, String> {
    text.map(|text| extra("meta", text, RawJson::is_object, "object")).transpose()
}

/// Checks that icons follow the official schemas. A strict client rejects a whole listing that has
/// one invalid icon.
///
/// # Errors
/// The fault of the first invalid icon.
pub(crate) fn check_icons(icons: &RawJson) -> Result<(), String> {
    #[derive(Deserialize)]
    struct Icon {
        src: String,
        #[serde(default, rename = "mimeType")]
        _mime_type: Present<String>,
        #[serde(default, rename = "sizes")]
        _sizes: Present<Vec<String>>,
        #[serde(default)]
        theme: Present<String>,
    }
    let icons: Vec<Icon> = icons.decode().map_err(|error| format!("its icons do not fit MCP: {error}"))?;
    for Icon { src, theme, .. } in icons {
        if !is_uri(&src) {
            return Err("an icon has a `src` that is not an absolute URI".to_owned());
        }
        if theme.0.is_some_and(|theme| theme != "light" && theme != "dark") {
            return Err("an icon has a `theme` that is not `light` or `dark`".to_owned());
        }
    }
    Ok(())
}

/// Checks that a tool's annotations follow the official schemas.
fn check_annotations(annotations: &RawJson) -> Result<(), String> {
    #[derive(Deserialize)]
    struct Annotations {
        #[serde(default, rename = "title")]
        _title: Present<String>,
        #[serde(default, rename = "readOnlyHint")]
        _read_only: Present<bool>,
        #[serde(default, rename = "destructiveHint")]
        _destructive: Present<bool>,
        #[serde(default, rename = "idempotentHint")]
        _idempotent: Present<bool>,
        #[serde(default, rename = "openWorldHint")]
        _open_world: Present<bool>,
    }
    let fits = annotations.decode::<Annotations>();
    fits.map(drop).map_err(|error| format!("its annotations do not fit MCP: {error}"))
}

/// A member that may be absent but not `null`.
struct Present<T>(Option<T>);

impl<T> Default for Present<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Present<T> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        T::deserialize(deserializer).map(|value| Self(Some(value)))
    }
}

/// Whether the text is `[]` or `{}`.
fn is_empty(json: &RawJson) -> bool {
    json.as_str()[1..].trim_start().len() == 1
}

/// The `execution` member of a listing. `forbidden` is the protocol's default; it is stated
/// nevertheless, so that readers need not know the default (TL-8).
pub(crate) fn execution(task_support: TaskSupport) -> Option<Execution> {
    Some(Execution { task_support })
}

/// The task support that [`execution`] states.
pub(crate) fn task_support(execution: Option<Execution>) -> TaskSupport {
    execution.map_or(TaskSupport::Forbidden, |execution| execution.task_support)
}

/// Why clients that use HTTP ignore a tool: its header declarations for parameters are invalid
/// (26XH-1). The host still serves it to other clients.
pub(crate) fn header_fault(input_schema: &RawJson) -> Option<String> {
    param_headers(input_schema).err()
}

/// Checks the tools as a set and compiles their schemas.
pub(crate) fn declare(
    described: Vec<ToolDescription>,
    settings: &Settings,
) -> Result<Vec<Arc<DeclaredTool>>, Refusal> {
    let mut names = HashSet::new();
    for description in &described {
        if !names.insert(description.name.clone()) {
            return Err(Refusal::DuplicateTool(description.name.clone()));
        }
    }
    let mut allowance = Allowance::of_component();
    described.into_iter().map(|description| declare_one(description, settings, &mut allowance)).collect()
}

/// Compiles the schemas of one tool, which count against the allowance of its component.
pub(crate) fn declare_one(
    description: ToolDescription,
    settings: &Settings,
    allowance: &mut Allowance,
) -> Result<Arc<DeclaredTool>, Refusal> {
    let mut compile = |which: &str, schema: &RawJson| {
        Schema::compile(schema, settings.schema_bounds(), allowance).map(Arc::new).map_err(|what| {
            Refusal::Tool { tool: description.name.clone(), what: format!("its {which} schema {what}") }
        })
    };
    let input = compile("input", &description.input_schema)?;
    let output = description.output_schema.as_ref().map(|schema| compile("output", schema)).transpose()?;
    Ok(Arc::new(DeclaredTool { description, input, output }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(name: &str) -> wit::Tool {
        wit::Tool {
            name: name.into(),
            title: None,
            description: Some("d".into()),
            icons: " [ ] ".into(),
            input_schema: "{\"type\":\"object\"}".into(),
            output_schema: None,
            annotations: "{ }".into(),
            task_support: wit::TaskSupport::Forbidden,
            meta: None,
        }
    }

    fn declared(tools: Vec<wit::Tool>) -> Result<Vec<Arc<DeclaredTool>>, Refusal> {
        declare(describe(tools)?, &Settings::default())
    }

    fn refused(tools: Vec<wit::Tool>, says: &str) {
        match declared(tools) {
            Ok(_) => panic!("taken, though {says}"),
            Err(refusal) => assert!(refusal.to_string().contains(says), "{refusal}"),
        }
    }

    #[test]
    fn empty_extras_are_left_out() {
        let tools = declared(vec![tool("a")]).expect("fine");
        let description = &tools[0].description;
        assert!(description.icons.is_none() && description.annotations.is_none());
    }

    #[test]
    fn _26xh_1_a_tool_with_a_wrong_annotation_is_taken_and_the_fault_is_known() {
        for (property, fault) in [
            (r#"{"type":"string","x-mcp-header":"Region"}"#, None),
            (r#"{"type":"number","x-mcp-header":"Region"}"#, Some("only a string")),
            (r#"{"type":"string","x-mcp-header":"a b"}"#, Some("not the name of a header")),
        ] {
            let input_schema = format!(r#"{{"type":"object","properties":{{"p":{property}}}}}"#);
            let tools = declared(vec![wit::Tool { input_schema, ..tool("t") }]).expect("taken");
            let found = header_fault(&tools[0].description.input_schema);
            match (&found, fault) {
                (None, None) => {}
                (Some(found), Some(says)) if found.contains(says) => {}
                _ => panic!("{property}: {found:?}"),
            }
        }
    }

    #[test]
    fn tl_3_names_have_1_to_128_of_certain_characters() {
        for name in ["a", "A.b_c-9", &"x".repeat(128)] {
            assert!(declared(vec![tool(name)]).is_ok(), "{name}");
        }
        for name in ["", "a b", "é", "a/b", &"x".repeat(129)] {
            refused(vec![tool(name)], "name");
        }
    }

    #[test]
    fn tools_are_checked_together() {
        refused(vec![tool("a"), tool("b"), tool("a")], "two tools are called `a`");
        refused((0..257).map(|n| tool(&n.to_string())).collect(), "257 tools");
    }

    #[test]
    fn malformed_parts_are_named_with_their_tool() {
        let icons = |icons: &str| wit::Tool { icons: icons.into(), ..tool("t") };
        let annotations = |annotations: &str| wit::Tool { annotations: annotations.into(), ..tool("t") };
        let meta = |meta: &str| wit::Tool { meta: Some(meta.into()), ..tool("t") };
        let input = |input: &str| wit::Tool { input_schema: input.into(), ..tool("t") };
        for (wrong, says) in [
            (icons("{}"), "its icons is not a JSON array"),
            (icons(r#"[{"src":7},3]"#), "its icons do not fit MCP"),
            (icons(r#"[{"src":"x"}]"#), "an icon has a `src`"),
            (icons(r#"[{"src":"a:b","theme":"red"}]"#), "an icon has a `theme`"),
            (icons(r#"[{"src":"a:b","sizes":null}]"#), "its icons do not fit MCP"),
            (annotations("{"), "its annotations is not valid JSON"),
            (annotations("[]"), "its annotations is not a JSON object"),
            (annotations(r#"{"title":5}"#), "its annotations do not fit MCP"),
            (annotations(r#"{"readOnlyHint":"yes"}"#), "its annotations do not fit MCP"),
            (annotations(r#"{"a":1,"a":1}"#), "its annotations is JSON that not every client"),
            (meta("1"), "its meta is not a JSON object"),
            (meta(r#"{"a":"\ud800"}"#), "its meta is JSON that not every client can read: half"),
            (meta(r#"{"b":1e999999}"#), "its meta is JSON that not every client can read: a number"),
            (input("{"), "its input schema is not valid JSON"),
            (input("{}"), "its input schema does not have"),
            (wit::Tool { output_schema: Some("[]".into()), ..tool("t") }, "its output schema is not"),
            (wit::Tool { description: Some("x".repeat(70_000)), ..tool("t") }, "its description is longer"),
        ] {
            refused(vec![wrong], &format!("the tool `t`: {says}"));
        }
    }
}
