//! What a running guest can reach: the interface `host` of the contract, and
//! WASI with nothing granted but the manifest's environment variables and folders.

use crate::bindings::FullPlugin;
use crate::bindings::toolyard::plugin::types as wit;
use crate::bindings::toolyard::plugin::{host, types};
use crate::failure::Failure;
use crate::files;
use crate::form::Forms;
use crate::grant::Grants;
use crate::inputs;
use crate::limiter::Limiter;
use crate::limits::Limits;
use crate::schema::Bounds;
use crate::stdio::{self, GuestOutput};
use std::sync::Arc;
use std::time::{Duration, Instant};
use toolyard_task::RunContext;
use toolyard_task::tool::{AskError, Change, GivenAnswer, Report};
use toolyard_task::wire::{Progress, RawJson, RpcError, Timestamp, is_uri};
use wasmtime::component::{HasSelf, Linker, ResourceTable};
use wasmtime_wasi::{WasiCtx, WasiCtxBuilder, WasiCtxView, WasiView};

/// Random bytes that a guest may ask for at once.
const MAX_RANDOM: u64 = 1 << 20;

/// The state of one run, in its store.
pub(crate) struct Run {
    pub limiter: Limiter,
    pub context: Arc<dyn RunContext>,
    pub about: About,
    /// Made when the guest first reaches for WASI; many never do.
    wasi: Option<Box<WasiCtx>>,
    pub table: ResourceTable,
}

/// What the run is of.
#[derive(Clone)]
pub(crate) struct About {
    pub plugin: Arc<str>,
    /// A tool, or a function of the contract.
    pub function: Arc<str>,
    pub is_tool: bool,
    pub grants: Arc<Grants>,
    pub limits: Arc<Limits>,
    /// How large the schemas of forms may be.
    pub schemas: Bounds,
    pub began: Instant,
}

impl Run {
    /// # Errors
    /// If a folder that is granted is not where it was. It could still be used,
    /// but who moved it away should not find that it is.
    pub fn new(limiter: Limiter, context: Arc<dyn RunContext>, about: About) -> Result<Self, Failure> {
        if let Some(lost) = about.grants.folders.iter().find(|folder| !folder.is_in_place()) {
            let (plugin, folder) = (&about.plugin, lost.grant.host.display());
            tracing::warn!(%plugin, %folder, "a granted folder was moved, replaced or removed");
            return Err(Failure::Folder(lost.grant.guest.clone()));
        }
        let mut run = Self { limiter, context, about, wasi: None, table: ResourceTable::new() };
        run.table.set_max_capacity(run.about.limits.handles as usize);
        Ok(run)
    }
}

/// The linker with all that a component may import.
pub(crate) fn linker(engine: &wasmtime::Engine) -> wasmtime::Result<Linker<Run>> {
    let mut linker = Linker::new(engine);
    wasmtime_wasi::p2::add_to_linker_async(&mut linker)?;
    files::add_to_linker(&mut linker)?;
    FullPlugin::add_to_linker::<_, HasSelf<Run>>(&mut linker, |run| run)?;
    Ok(linker)
}

impl WasiView for Run {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        let Self { wasi, table, about, .. } = self;
        let ctx = wasi.get_or_insert_with(|| Box::new(bare_context(about).build()));
        WasiCtxView { ctx, table }
    }
}

/// No network, no arguments, no input.
fn bare_context(about: &About) -> WasiCtxBuilder {
    let budget = stdio::budget(about.limits.stdio);
    let output = |stream| GuestOutput::new(&about.plugin, &about.function, stream, &budget);
    let mut wasi = WasiCtx::builder();
    wasi.envs(&about.grants.env)
        .stdout(output("stdout"))
        .stderr(output("stderr"))
        .max_random_size(MAX_RANDOM)
        .allow_tcp(false)
        .allow_udp(false)
        .allow_ip_name_lookup(false);
    wasi
}

impl types::Host for Run {}

impl host::Host for Run {
    fn progress(
        &mut self,
        progress: f64,
        total: Option<f64>,
        message: Option<String>,
    ) -> wasmtime::Result<()> {
        // JSON has no word for these.
        if progress.is_finite() {
            let total = total.filter(|total| total.is_finite());
            let message = message.map(|message| inputs::cut(message, inputs::MESSAGE_BYTES));
            self.context.report(Report::Progress(Progress { progress, total, message }));
        }
        Ok(())
    }

    fn status(&mut self, message: String) -> wasmtime::Result<()> {
        self.context.report(Report::Status(inputs::cut(message, inputs::MESSAGE_BYTES)));
        Ok(())
    }

    fn log(&mut self, level: wit::LogLevel, logger: Option<String>, data: String) -> wasmtime::Result<()> {
        let level = inputs::level(level);
        let logger = logger.map(|logger| inputs::cut(logger, inputs::NAME_BYTES));
        self.context.report(Report::Log { level, logger, data: inputs::log_data(data) });
        Ok(())
    }

    fn cancelled(&mut self) -> wasmtime::Result<bool> {
        Ok(self.context.stopped())
    }

    async fn sleep(&mut self, milliseconds: u64) -> wasmtime::Result<()> {
        // No run outlives its wall-clock limit, so no sleep needs to, but it must
        // not end before the limit is noticed.
        let time = Duration::from_millis(milliseconds).min(self.about.limits.wall.saturating_mul(2));
        if !time.is_zero() {
            tokio::time::sleep(time).await;
        }
        Ok(())
    }

    async fn ask(
        &mut self,
        questions: Vec<wit::Question>,
    ) -> wasmtime::Result<Result<Vec<wit::Answer>, wit::AskError>> {
        let questions = match inputs::questions(questions) {
            Ok(questions) => questions,
            Err(what) => return Ok(Err(wit::AskError::Invalid(what))),
        };
        let forms = match Forms::compile(&questions, self.about.schemas) {
            Ok(forms) => forms,
            Err(what) => return Ok(Err(wit::AskError::Invalid(what))),
        };
        let answers = self.context.ask(questions).await;
        let answers =
            answers.map(|answers| answers.into_iter().map(|given| answer(forms.check(given))).collect());
        Ok(answers.map_err(ask_error))
    }

    fn elicitation_complete(&mut self, key: String) -> wasmtime::Result<()> {
        if inputs::is_key(&key) {
            self.context.report(Report::ElicitationComplete { key });
        }
        Ok(())
    }

    async fn begin_task(&mut self) -> wasmtime::Result<Result<(), wit::TaskError>> {
        Ok(self.context.begin_task().await.map_err(wit::TaskError::Failed))
    }

    async fn effects(&mut self) -> wasmtime::Result<Result<(), wit::AskError>> {
        Ok(self.context.effects().await.map_err(ask_error))
    }

    fn call_info(&mut self) -> wasmtime::Result<String> {
        let info = self.context.info();
        let left = self.about.limits.wall.saturating_sub(self.about.began.elapsed());
        let now = std::time::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_millis() as i64);
        let limit = Timestamp(now).plus(left.as_millis() as u64);
        let deadline = info.deadline.map_or(limit, |deadline| deadline.min(limit));
        let mut out = serde_json::json!({
            "attempt": info.attempt,
            "deadline": deadline.to_string(),
            "clientCapabilities": info.client_capabilities,
        });
        if self.about.is_tool {
            out["tool"] = (*self.about.function).into();
        }
        if let Some(task) = info.task {
            out["taskId"] = task.to_string().into();
        }
        if let Some(trace) = info.trace {
            out["traceparent"] = trace.parent().into();
            if let Some(state) = trace.state {
                out["tracestate"] = state.into();
            }
        }
        Ok(out.to_string())
    }

    fn changed(&mut self, what: wit::Change) -> wasmtime::Result<()> {
        let change = match what {
            wit::Change::Tools => Change::Tools,
            wit::Change::Prompts => Change::Prompts,
            wit::Change::Resources => Change::Resources,
            // No client can have subscribed to it.
            wit::Change::Resource(uri) if !is_uri(&uri) => return Ok(()),
            wit::Change::Resource(uri) => Change::Resource(uri),
        };
        self.context.report(Report::Changed(change));
        Ok(())
    }

    fn release_stream(&mut self, retry_ms: u64) -> wasmtime::Result<()> {
        self.context.report(Report::ReleaseStream { retry_ms });
        Ok(())
    }
}

fn answer(given: GivenAnswer) -> wit::Answer {
    let outcome = given.outcome.map(|result| result.as_str().to_owned()).map_err(ask_error);
    wit::Answer { key: given.key, outcome }
}

fn ask_error(error: AskError) -> wit::AskError {
    match error {
        AskError::Unsupported(what) => wit::AskError::Unsupported(what),
        AskError::TimedOut => wit::AskError::TimedOut,
        AskError::Refused(RpcError { code, message, data }) => {
            let data = data.map(|data: RawJson| data.as_str().to_owned());
            wit::AskError::Refused(wit::RpcError { code, message, data })
        }
        AskError::Invalid(what) => wit::AskError::Invalid(what),
        AskError::TooLate => wit::AskError::TooLate,
        AskError::Cancelled => wit::AskError::Cancelled,
    }
}
