//! A tool: the author's function and its declaration.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::{Error, IntoResult, raw, schema};

/// A tool: its name, its function, and its declaration for clients.
///
/// The function takes one value, whose type gives the input schema. It returns an [`IntoResult`] type or an
/// [`Error`]. By default, a call of the tool may become a task, and the tool gives no hints.
pub struct Tool {
    name: Cow<'static, str>,
    title: Option<Cow<'static, str>>,
    description: Option<Cow<'static, str>>,
    icons: Vec<Value>,
    hints: Map<String, Value>,
    task_support: raw::TaskSupport,
    meta: Option<Value>,
    // Functions, because a call needs neither schema.
    input_schema: fn() -> Value,
    output_schema: fn() -> Option<Value>,
    run: Box<Run>,
}

/// Runs a call with the JSON of the arguments.
type Run = dyn Fn(&str) -> Result<raw::ToolResult, Error>;

impl Tool {
    /// A tool that runs this function. The name has 1 to 128 characters from `A-Z a-z 0-9 _ . -`.
    pub fn new<A, R, E>(
        name: impl Into<Cow<'static, str>>,
        function: impl Fn(A) -> Result<R, E> + 'static,
    ) -> Self
    where
        A: DeserializeOwned + JsonSchema,
        R: IntoResult,
        E: Into<Error>,
    {
        Self {
            name: name.into(),
            title: None,
            description: None,
            icons: Vec::new(),
            hints: Map::new(),
            task_support: raw::TaskSupport::Optional,
            meta: None,
            input_schema: schema::input::<A>,
            output_schema: R::output_schema,
            run: Box::new(move |json| function(arguments(json)?).map_err(Into::into)?.into_result()),
        }
    }

    /// A name for people.
    pub fn title(mut self, title: impl Into<Cow<'static, str>>) -> Self {
        self.title = Some(title.into());
        self
    }

    /// A description of the tool, for the model.
    pub fn description(mut self, description: impl Into<Cow<'static, str>>) -> Self {
        self.description = Some(description.into());
        self
    }

    /// Allows calls as a task, which is the default. Under 2026-07-28 a call becomes a task if it takes long, or
    /// at [`begin_task`](crate::begin_task).
    pub fn optional_task(mut self) -> Self {
        self.task_support = raw::TaskSupport::Optional;
        self
    }

    /// Makes every call a task, if the client knows tasks.
    pub fn required_task(mut self) -> Self {
        self.task_support = raw::TaskSupport::Required;
        self
    }

    /// Keeps every call a plain call, for a tool that always ends at once. A client that requests a task gets an
    /// error, and the host never hands a long call off as a task.
    pub fn forbidden_task(mut self) -> Self {
        self.task_support = raw::TaskSupport::Forbidden;
        self
    }

    /// Hint: the tool changes nothing. The hints about changes say nothing then, so they are left out.
    pub fn read_only(self) -> Self {
        self.hint("readOnlyHint", true)
    }

    /// Hint: the tool changes something, but removes nothing.
    pub fn additive(self) -> Self {
        self.hint("readOnlyHint", false).hint("destructiveHint", false)
    }

    /// Hint: the tool may overwrite or delete something.
    pub fn destructive(self) -> Self {
        self.hint("readOnlyHint", false).hint("destructiveHint", true)
    }

    /// Hint: whether a second call with the same arguments has no further effect.
    pub fn idempotent(self, is_idempotent: bool) -> Self {
        self.hint("idempotentHint", is_idempotent)
    }

    /// Hint: whether the tool interacts with the outside world, such as the web or the user.
    pub fn open_world(self, is_open: bool) -> Self {
        self.hint("openWorldHint", is_open)
    }

    /// All hints of a tool that only reads and computes.
    pub fn pure(self) -> Self {
        self.read_only().open_world(false)
    }

    fn hint(mut self, name: &str, value: bool) -> Self {
        self.hints.insert(name.to_owned(), value.into());
        self
    }

    /// Adds an icon: an MCP `Icon`, such as `{"src": "data:…", "mimeType": "image/svg+xml"}`.
    pub fn icon(mut self, icon: Value) -> Self {
        self.icons.push(icon);
        self
    }

    /// Sets an object as the tool's `_meta`.
    pub fn meta(mut self, meta: Value) -> Self {
        self.meta = Some(meta);
        self
    }

    /// The name of the tool.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The declaration in `tools/list`.
    pub fn declaration(&self) -> raw::Tool {
        raw::Tool {
            name: self.name.to_string(),
            title: self.title.as_deref().map(str::to_owned),
            description: self.description.as_deref().map(str::to_owned),
            icons: Value::from(self.icons.clone()).to_string(),
            input_schema: (self.input_schema)().to_string(),
            output_schema: (self.output_schema)().map(|schema| schema.to_string()),
            annotations: Value::from(self.hints.clone()).to_string(),
            task_support: self.task_support,
            meta: self.meta.as_ref().map(Value::to_string),
        }
    }

    /// Runs the tool with a JSON object of arguments, as `tools/call` does.
    pub fn call(&self, arguments: &str) -> Result<raw::ToolResult, raw::CallError> {
        (self.run)(arguments).or_else(Error::into_outcome)
    }
}

/// Parses the arguments. The host has checked them against the input schema, so an error means that the type
/// is stricter than its schema.
fn arguments<A: DeserializeOwned>(json: &str) -> Result<A, Error> {
    serde_json::from_str(json)
        .map_err(|error| Error::invalid_params(format!("The arguments do not fit: {error}.")))
}

/// [`plugin!`](crate::plugin!) implements `list-tools` with this.
#[doc(hidden)]
pub fn list(tools: &[Tool]) -> Vec<raw::Tool> {
    tools.iter().map(Tool::declaration).collect()
}

/// [`plugin!`](crate::plugin!) implements `call` with this.
#[doc(hidden)]
pub fn call(tools: &[Tool], name: &str, arguments: &str) -> Result<raw::ToolResult, raw::CallError> {
    match tools.iter().find(|tool| tool.name == name) {
        Some(tool) => tool.call(arguments),
        None => Error::invalid_params(format!("There is no tool named {name} here.")).into_outcome(),
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::json;

    use super::*;
    use crate::NoArguments;

    #[derive(Deserialize, JsonSchema)]
    struct Sum {
        a: u8,
        b: u8,
    }

    fn add(Sum { a, b }: Sum) -> Result<u8, Error> {
        a.checked_add(b).ok_or_else(|| Error::new("That is more than 255."))
    }

    fn tools() -> Vec<Tool> {
        let nothing = |NoArguments {}| Ok::<_, Error>(());
        vec![
            Tool::new("add", add).title("Add").description("Adds.").pure(),
            Tool::new("nothing", nothing).destructive().meta(json!({ "m": 1 })),
        ]
    }

    fn called(name: &str, arguments: &str) -> Result<(bool, Option<String>), i32> {
        match call(&tools(), name, arguments) {
            Ok(result) => Ok((result.is_error, result.structured_content)),
            Err(raw::CallError::Rpc(error)) => Err(error.code),
            Err(raw::CallError::MissingCapability(_)) => panic!("no tool needs a capability"),
        }
    }

    #[test]
    fn a_tool_is_declared_as_it_says() {
        let [add, nothing] = &list(&tools())[..] else { panic!("two tools") };
        assert_eq!((add.name.as_str(), add.title.as_deref()), ("add", Some("Add")));
        assert_eq!(add.icons, "[]");
        let hints: Value = serde_json::from_str(&add.annotations).expect("JSON");
        let pure = json!({ "readOnlyHint": true, "openWorldHint": false });
        assert_eq!(hints, pure);
        let schema: Value = serde_json::from_str(&add.input_schema).expect("JSON");
        assert_eq!(schema["required"], json!(["a", "b"]));
        assert!(add.output_schema.as_deref().is_some_and(|schema| schema.contains("\"result\"")));
        assert_eq!((nothing.output_schema.as_deref(), nothing.meta.as_deref()), (None, Some("{\"m\":1}")));
        let closed = json!({ "type": "object", "properties": {}, "additionalProperties": false });
        let schema: Value = serde_json::from_str(&nothing.input_schema).expect("JSON");
        assert_eq!(schema, closed);
    }

    #[test]
    fn a_call_may_become_a_task_unless_the_tool_forbids_it() {
        let tool = || Tool::new("add", add);
        let support = |tool: Tool| tool.declaration().task_support;
        assert_eq!(support(tool()), raw::TaskSupport::Optional);
        assert_eq!(support(tool().forbidden_task()), raw::TaskSupport::Forbidden);
        assert_eq!(support(tool().required_task()), raw::TaskSupport::Required);
        assert_eq!(support(tool().forbidden_task().optional_task()), raw::TaskSupport::Optional);
    }

    #[test]
    fn a_call_finds_its_tool_and_reads_its_arguments() {
        assert_eq!(called("add", r#"{"a":1,"b":2}"#), Ok((false, Some("{\"result\":3}".to_owned()))));
        assert_eq!(called("add", r#"{"a":255,"b":2}"#), Ok((true, None)));
        assert_eq!(called("nothing", "{}"), Ok((false, None)));
        assert_eq!(called("add", r#"{"a":1}"#), Err(-32602));
        assert_eq!(called("sub", "{}"), Err(-32602));
    }
}
