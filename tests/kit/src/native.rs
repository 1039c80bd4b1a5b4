//! Tools written in Rust.

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use std::sync::Arc;
use std::time::Duration;
use toolyard_dispatch::{RawJson, TaskSupport, ToolSpec};
use toolyard_task::approval::{Confirm, ConfirmBy, ConfirmTerms};
use toolyard_task::tool::{ArgumentCheck, AskedQuestion, JournalTerms, ReportBounds};
use toolyard_task::wire::{Execution, ToolDescription, text_result};
use toolyard_task::{Digest, Durability, Reservation, RunContext, RunEnd, Tool};

type Body = Box<dyn Fn(RawJson, Arc<dyn RunContext>) -> BoxFuture<'static, RunEnd> + Send + Sync>;

type Components = Box<dyn Fn(Digest) -> Arc<dyn Tool> + Send + Sync>;

struct NativeTool {
    spec: ToolSpec,
    body: Body,
    components: Option<Components>,
}

impl Tool for NativeTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn check(&self, _: &RawJson) -> ArgumentCheck {
        ArgumentCheck::Fits
    }

    fn run(
        self: Arc<Self>,
        arguments: RawJson,
        _: Reservation,
        context: Arc<dyn RunContext>,
    ) -> BoxFuture<'static, RunEnd> {
        (self.body)(arguments, context)
    }

    fn of_component(self: Arc<Self>, digest: Digest) -> BoxFuture<'static, Result<Arc<dyn Tool>, String>> {
        let component = self.components.as_ref().map(|components| components(digest));
        let component = component.ok_or_else(|| "the tool has one component".to_owned());
        std::future::ready(component).boxed()
    }

    fn interrupt(&self) {}
}

/// A tool of the plugin `native` that still lacks its body.
pub struct Native {
    spec: ToolSpec,
    components: Option<Components>,
}

/// A tool of this name, whose calls may be tasks and whose unfinished runs are not repeated.
pub fn native(name: &str) -> Native {
    let spec = ToolSpec {
        description: ToolDescription {
            name: name.to_owned(),
            title: None,
            description: None,
            icons: None,
            input_schema: RawJson::trusted(r#"{"type":"object"}"#),
            output_schema: None,
            annotations: None,
            execution: None,
            meta: None,
        },
        task_support: TaskSupport::Optional,
        digest: Digest("00".into()),
        plugin: "native".into(),
        poll_interval_ms: None,
        immediate_response: None,
        durability: Durability::None,
        inline_for: None,
        bridge_after: None,
        on_client_timeout: None,
        concurrency: None,
        queue: None,
        rate: None,
        confirm: ConfirmTerms::default(),
        reports: ReportBounds::default(),
        journal: JournalTerms::default(),
    };
    Native { spec, components: None }
}

impl Native {
    /// Sets whether its calls may or must be tasks.
    #[must_use]
    pub fn task_support(mut self, support: TaskSupport) -> Self {
        self.spec.task_support = support;
        self.spec.description.execution = Some(Execution { task_support: support });
        self
    }

    /// Sets what happens to unfinished runs.
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> Self {
        self.spec.durability = durability;
        self
    }

    /// Makes its calls wait for an approval by these.
    #[must_use]
    pub fn confirm(mut self, by: ConfirmBy) -> Self {
        self.spec.confirm =
            ConfirmTerms { confirm: Confirm::Ask, by, message: Some("Deploys to production.".to_owned()) };
        self
    }

    /// Sets the version of its plugin.
    #[must_use]
    pub fn digest(mut self, digest: &str) -> Self {
        self.spec.digest = Digest(digest.into());
        self
    }

    /// Sets the tool as another component has it.
    #[must_use]
    pub fn components(mut self, of: impl Fn(Digest) -> Arc<dyn Tool> + Send + Sync + 'static) -> Self {
        self.components = Some(Box::new(of));
        self
    }

    /// Sets how long the host waits for a call before the call becomes a task.
    #[must_use]
    pub fn inline_for(mut self, time: Duration) -> Self {
        self.spec.inline_for = Some(time);
        self
    }

    /// Sets how many questions a call may ask.
    #[must_use]
    pub fn questions(mut self, most: u32) -> Self {
        self.spec.reports.questions = most;
        self
    }

    /// Sets the schema of its structured content.
    #[must_use]
    pub fn output_schema(mut self, schema: &'static str) -> Self {
        self.spec.description.output_schema = Some(RawJson::trusted(schema));
        self
    }

    /// Sets the schema of its arguments.
    #[must_use]
    pub fn input_schema(mut self, schema: &'static str) -> Self {
        self.spec.description.input_schema = RawJson::trusted(schema);
        self
    }

    /// The tool with this body.
    pub fn runs<F: Future<Output = RunEnd> + Send + 'static>(
        self,
        body: impl Fn(Arc<dyn RunContext>) -> F + Send + Sync + 'static,
    ) -> Arc<dyn Tool> {
        self.runs_with(move |_, context| body(context))
    }

    /// The tool with this body, each of whose runs gets a clone of `shared`.
    pub fn runs_sharing<S: Clone + Send + Sync + 'static, F: Future<Output = RunEnd> + Send + 'static>(
        self,
        shared: &S,
        body: impl Fn(S, Arc<dyn RunContext>) -> F + Send + Sync + 'static,
    ) -> Arc<dyn Tool> {
        let shared = shared.clone();
        self.runs(move |context| body(shared.clone(), context))
    }

    /// The tool with this body, which also gets the arguments.
    pub fn runs_with<F: Future<Output = RunEnd> + Send + 'static>(
        self,
        body: impl Fn(RawJson, Arc<dyn RunContext>) -> F + Send + Sync + 'static,
    ) -> Arc<dyn Tool> {
        let body = Box::new(move |arguments, context| body(arguments, context).boxed());
        Arc::new(NativeTool { spec: self.spec, body, components: self.components })
    }
}

/// A tool of this name with this body.
pub fn tool<F: Future<Output = RunEnd> + Send + 'static>(
    name: &str,
    body: impl Fn(Arc<dyn RunContext>) -> F + Send + Sync + 'static,
) -> Arc<dyn Tool> {
    native(name).runs(body)
}

/// The end of a run whose result is this text.
pub fn done(text: &str) -> RunEnd {
    RunEnd::Result { is_error: false, result: text_result(text, false), message: None }
}

/// A question with an empty form, under this key.
pub fn question(key: &str) -> AskedQuestion {
    AskedQuestion {
        key: key.to_owned(),
        method: "elicitation/create".to_owned(),
        params: RawJson::trusted(r#"{"message":"?","requestedSchema":{"type":"object","properties":{}}}"#),
        check: None,
    }
}

/// An answer to such a question.
pub const YES: &str = r#"{"action":"accept","content":{}}"#;
