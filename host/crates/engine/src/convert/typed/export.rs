//! The ordinary functions of a component, each as a tool or with the reason why it is not one.

use super::docs::{Docs, Said};
use super::shape::{Field, Reading, Shape, write_fields};
use super::{Function, schema};
use crate::component::describe::{self, DeclaredTool};
use crate::error::{Refusal, Skipped};
use crate::settings::Settings;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::Arc;
use toolyard_schema::Allowance;
use toolyard_task::wire::{RawJson, TaskSupport, ToolDescription, is_tool_name};
use wasmtime::Engine;
use wasmtime::component::types::{ComponentFunc, ComponentItem};
use wasmtime::component::{Component, ComponentExportIndex};

/// The maximum number of functions that are examined.
const MAX_FUNCTIONS: usize = 2_000;
/// The maximum number of parts in the types of all functions of a component.
const MAX_PARTS: usize = 50_000;

/// The functions of a component.
#[derive(Debug, Default)]
pub(crate) struct Functions {
    /// The functions that are tools, by the tool's name.
    pub by_name: HashMap<String, Arc<Function>>,
    pub skipped: Vec<Skipped>,
}

/// A function and where it was found.
struct ExportedFunction {
    /// The full name of the function, such as `a:b/math@1.0.0#add` or `add`.
    path: String,
    /// The name of its interface, without package and version.
    interface: Option<String>,
    name: String,
    index: ComponentExportIndex,
    func: ComponentFunc,
}

impl Functions {
    /// Finds the functions of a component that was compiled from these bytes and declares their
    /// tools.
    pub fn of(
        engine: &Engine,
        component: &Component,
        bytes: &[u8],
        settings: &Settings,
    ) -> Result<(Self, Vec<Arc<DeclaredTool>>), Refusal> {
        let mut functions = Self::default();
        let found = functions.find(engine, component);
        let docs = Docs::of(bytes);
        let mut declared = Vec::new();
        let mut allowance = Allowance::of_component();
        let mut parts_left = MAX_PARTS;
        let mut paths: HashMap<String, Vec<String>> = HashMap::new();
        for found in &found {
            paths.entry(tool_name(found)).or_default().push(found.path.clone());
        }
        for found in found {
            let name = tool_name(&found);
            let twin = paths[&name].iter().find(|path| **path != found.path);
            let tool = match twin {
                None => tool(&found, name, &docs, settings, (&mut allowance, &mut parts_left)),
                Some(twin) => Err(format!("its tool would be called `{name}`, as that of {twin}")),
            };
            match tool {
                Ok((function, tool)) => {
                    functions.by_name.insert(tool.description.name.clone(), Arc::new(function));
                    declared.push(tool);
                    if declared.len() > describe::MAX_TOOLS {
                        return Err(Refusal::TooManyTools(paths.len()));
                    }
                }
                Err(why) => functions.skipped.push(Skipped { function: found.path, why }),
            }
        }
        if declared.is_empty() {
            return Err(Refusal::NoFunctions(functions.skipped));
        }
        Ok((functions, declared))
    }

    fn find(&mut self, engine: &Engine, component: &Component) -> Vec<ExportedFunction> {
        let mut all = Vec::new();
        for (name, item) in component.component_type().exports(engine) {
            let mut skip = |why: &str| {
                self.skipped.push(Skipped { function: name.to_owned(), why: why.to_owned() });
            };
            match item.ty {
                ComponentItem::ComponentFunc(func) => {
                    if let Some(index) = component.get_export_index(None, name) {
                        let (path, name) = (name.to_owned(), name.to_owned());
                        all.push(ExportedFunction { path, interface: None, name, index, func });
                    }
                }
                ComponentItem::ComponentInstance(_) if name.starts_with("wasi:") => {
                    skip("interfaces of WASI are never tools");
                }
                ComponentItem::ComponentInstance(instance) => {
                    let Some(place) = component.get_export_index(None, name) else { continue };
                    for (function, item) in instance.exports(engine) {
                        let ComponentItem::ComponentFunc(func) = item.ty else { continue };
                        let Some(index) = component.get_export_index(Some(&place), function) else {
                            continue;
                        };
                        all.push(ExportedFunction {
                            path: format!("{name}#{function}"),
                            interface: Some(own_name(name).to_owned()),
                            name: function.to_owned(),
                            index,
                            func,
                        });
                    }
                }
                _ => {}
            }
        }
        if all.len() > MAX_FUNCTIONS {
            let why = format!(
                "the component exports {} functions, of which {MAX_FUNCTIONS} are looked at",
                all.len()
            );
            self.skipped.push(Skipped { function: all[MAX_FUNCTIONS].path.clone(), why });
            all.truncate(MAX_FUNCTIONS);
        }
        all
    }
}

/// The own name of an interface: `math` for `a:b/math@1.0.0`.
fn own_name(interface: &str) -> &str {
    let path = interface.split('@').next().unwrap_or_default();
    path.rsplit('/').next().unwrap_or_default()
}

/// The tool's name: `math_add`, or `add` for a function without an interface. WIT names contain no
/// underscore, so two functions of one interface never collide.
fn tool_name(found: &ExportedFunction) -> String {
    match &found.interface {
        Some(interface) => format!("{interface}_{}", found.name),
        None => found.name.clone(),
    }
}

/// Makes a tool from a function.
///
/// # Errors
/// Why the function cannot be a tool.
fn tool(
    found: &ExportedFunction,
    name: String,
    docs: &Docs,
    settings: &Settings,
    (allowance, parts_left): (&mut Allowance, &mut usize),
) -> Result<(Function, Arc<DeclaredTool>), String> {
    if found.name.starts_with('[') {
        return Err("it belongs to a resource".to_owned());
    }
    if found.func.async_() {
        return Err("it is asynchronous, which is not of WASI 0.2".to_owned());
    }
    if !is_tool_name(&name) {
        return Err(format!(
            "`{}` cannot be the name of a tool",
            toolyard_task::wire::visible::clip(&name, 140)
        ));
    }
    if *parts_left == 0 {
        return Err(format!(
            "the types of the component's functions have more than {MAX_PARTS} parts together"
        ));
    }
    let mut reading = Reading::default();
    let read = read_types(found, &mut reading);
    // Refused functions count too, because reading them took as long.
    *parts_left = parts_left.saturating_sub(reading.parts());
    let (params, result) = read?;
    let function = Function { index: found.index, params, result };
    let Said { title, description, task_support, annotations } =
        docs.function(found.interface.as_deref(), &found.name);
    let description = ToolDescription {
        name,
        title: title.map(|title| toolyard_task::wire::visible::clip(&title, describe::MAX_TITLE_BYTES / 4)),
        description: Some(match description {
            Some(said) => toolyard_task::wire::visible::clip(&said, describe::MAX_DESCRIPTION_BYTES / 4),
            None => signature(found, &function),
        }),
        icons: None,
        input_schema: RawJson::of(&schema::object(&function.params)),
        output_schema: function.success().map(|shape| RawJson::of(&schema::output(shape))),
        annotations: (!annotations.is_empty()).then(|| RawJson::of(&annotations)),
        // Any run can be a task. Only the plugin's author can know that a tool must not be one.
        execution: describe::execution(task_support.unwrap_or(TaskSupport::Optional)),
        meta: None,
    };
    let declared =
        describe::declare_one(description, settings, allowance).map_err(|refusal| refusal.to_string())?;
    Ok((function, declared))
}

/// The parameters and the result of a function.
///
/// # Errors
/// Why a value of their types cannot be JSON.
fn read_types(
    found: &ExportedFunction,
    reading: &mut Reading,
) -> Result<(Vec<Field>, Option<Shape>), String> {
    let param = |(name, of): (&str, _)| Ok(Field { name: reading.name(name)?, shape: reading.shape(&of)? });
    let params = found.func.params().map(param).collect::<Result<Vec<_>, String>>()?;
    let result = found.func.results().next().map(|of| reading.shape(&of)).transpose()?;
    Ok((params, result))
}

/// The default description: the function in WIT syntax.
fn signature(found: &ExportedFunction, function: &Function) -> String {
    let mut out = format!("`{}: func(", found.path);
    // Writing to a `String` cannot fail.
    let _ = write_fields(&mut out, &function.params);
    out.push(')');
    if let Some(result) = &function.result {
        let _ = write!(out, " -> {result}");
    }
    out.push('`');
    toolyard_task::wire::visible::clip(&out, 1_000)
}
