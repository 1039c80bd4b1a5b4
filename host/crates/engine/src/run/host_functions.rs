//! What a running guest can reach: the interface `host` of the contract, and
//! WASI with nothing granted but what the manifest does.

use crate::bindings::FullPlugin;
use crate::bindings::toolyard::plugin::types as wit;
use crate::bindings::toolyard::plugin::{host, types};
use crate::wasi::clocks;
use crate::limits::failure::Failure;
use crate::wasi::files;
use crate::convert::form::Forms;
use crate::grant::Grants;
use crate::convert::guest_input;
use crate::limits::memory_limiter::Limiter;
use crate::wasi::logging;
use crate::network::http::{Network, Outgoing};
use crate::network::sockets;
use crate::wasi::stdio::{self, GuestOutput};
use crate::network::policy::Traffic;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use toolyard_manifest::Limits;
use toolyard_schema::Bounds;
use toolyard_task::RunContext;
use toolyard_task::tool::{AskError, Change, GivenAnswer, Report};
use toolyard_task::wire::{LogLevel, Progress, RawJson, RpcError, Timestamp, is_uri};
use wasmtime::component::{HasSelf, Linker, ResourceTable};
use wasmtime_wasi::p2::bindings::sockets::ip_name_lookup;
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};
use wasmtime_wasi_http::{WasiHttpCtxView, WasiHttpView};

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
    /// Made when the guest first reaches for the network.
    traffic: OnceLock<Arc<Traffic>>,
    outgoing: Option<Box<Outgoing>>,
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
    pub network: Arc<Network>,
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
        let mut run = Self {
            limiter,
            context,
            about,
            wasi: None,
            table: ResourceTable::new(),
            traffic: OnceLock::new(),
            outgoing: None,
        };
        run.table.set_max_capacity(run.about.limits.handles as usize);
        Ok(run)
    }

    /// The network traffic of this run.
    pub fn traffic(&self) -> &Arc<Traffic> {
        self.traffic.get_or_init(|| Arc::new(Traffic::new(&self.about, &self.context)))
    }

    /// What was refused of it, in sentences.
    pub fn refusals(&self) -> Vec<String> {
        self.traffic.get().map(|traffic| traffic.refusals()).unwrap_or_default()
    }

    /// No arguments, no input, and of the network what is granted.
    fn wasi(&self) -> WasiCtx {
        let About { plugin, function, grants, limits, .. } = &self.about;
        let budget = stdio::budget(limits.stdio);
        let output = |stream| GuestOutput::new((plugin, function), stream, &budget, grants.redactor.clone());
        let mut wasi = WasiCtx::builder();
        wasi.stdout(output("stdout"))
            .stderr(output("stderr"))
            .max_random_size(MAX_RANDOM)
            .allow_tcp(false)
            .allow_udp(false)
            .allow_ip_name_lookup(false);
        clocks::grant(&mut wasi, grants.clock, grants.random);
        for (name, value) in grants.environment() {
            wasi.env(name, value);
        }
        if !grants.sockets.is_empty() {
            sockets::grant(&mut wasi, self.traffic());
        }
        wasi.build()
    }

    /// Reports a log message of the guest's.
    pub fn report_log(&self, level: LogLevel, logger: Option<String>, data: RawJson) {
        let logger = logger.map(|logger| guest_input::cut(self.clean(logger), guest_input::NAME_BYTES));
        self.context.report(Report::Log { level, logger, data: self.clean_json(data) });
    }

    /// A text of the guest's without its secrets.
    fn clean(&self, text: String) -> String {
        self.about.grants.clean(text)
    }

    fn clean_json(&self, json: RawJson) -> RawJson {
        match &self.about.grants.redactor {
            Some(redactor) => redactor.json(json),
            None => json,
        }
    }

    fn holds_secret(&self, text: &str) -> bool {
        self.about.grants.redactor.as_ref().is_some_and(|redactor| redactor.finds(text))
    }
}

/// The linker with all that a component may import.
pub(crate) fn linker(engine: &wasmtime::Engine) -> wasmtime::Result<Linker<Run>> {
    let mut linker = Linker::new(engine);
    wasmtime_wasi::p2::add_to_linker_async(&mut linker)?;
    wasmtime_wasi_http::p2::add_only_http_to_linker_async(&mut linker)?;
    // In the place of wasmtime's own look-up, which is for all names or none.
    linker.allow_shadowing(true);
    ip_name_lookup::add_to_linker::<_, HasSelf<Run>>(&mut linker, |run| run)?;
    linker.allow_shadowing(false);
    files::add_to_linker(&mut linker)?;
    logging::add_to_linker(&mut linker)?;
    FullPlugin::add_to_linker::<_, HasSelf<Run>>(&mut linker, |run| run)?;
    Ok(linker)
}

impl WasiView for Run {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        if self.wasi.is_none() {
            self.wasi = Some(Box::new(self.wasi()));
        }
        let Self { wasi, table, .. } = self;
        let ctx = wasi.get_or_insert_with(|| Box::new(WasiCtx::builder().build()));
        WasiCtxView { ctx, table }
    }
}

impl WasiHttpView for Run {
    fn http(&mut self) -> WasiHttpCtxView<'_> {
        let traffic = self.traffic().clone();
        let outgoing = self.outgoing.get_or_insert_with(|| Box::new(Outgoing::new(traffic)));
        let Outgoing { context, sender } = &mut **outgoing;
        WasiHttpCtxView { ctx: context, table: &mut self.table, hooks: sender }
    }
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
            let message = message.map(|message| guest_input::cut(self.clean(message), guest_input::MESSAGE_BYTES));
            self.context.report(Report::Progress(Progress { progress, total, message }));
        }
        Ok(())
    }

    fn status(&mut self, message: String) -> wasmtime::Result<()> {
        self.context.report(Report::Status(guest_input::cut(self.clean(message), guest_input::MESSAGE_BYTES)));
        Ok(())
    }

    fn log(&mut self, level: wit::LogLevel, logger: Option<String>, data: String) -> wasmtime::Result<()> {
        self.report_log(guest_input::level(level), logger, guest_input::log_data(data));
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
        let mut questions = match guest_input::questions(questions) {
            Ok(questions) => questions,
            Err(what) => return Ok(Err(wit::AskError::Invalid(what))),
        };
        if questions.iter().any(|question| self.holds_secret(&question.key)) {
            return Ok(Err(wit::AskError::Invalid("the key of a question holds a secret".to_owned())));
        }
        for question in &mut questions {
            question.params =
                self.clean_json(std::mem::replace(&mut question.params, RawJson::empty_object()));
        }
        let forms = match Forms::compile(&mut questions, self.about.schemas) {
            Ok(forms) => forms,
            Err(what) => return Ok(Err(wit::AskError::Invalid(what))),
        };
        let answers = self.context.ask(questions).await;
        let answers =
            answers.map(|answers| answers.into_iter().map(|given| answer(forms.check(given))).collect());
        Ok(answers.map_err(ask_error))
    }

    fn elicitation_complete(&mut self, key: String) -> wasmtime::Result<()> {
        if guest_input::is_key(&key) && !self.holds_secret(&key) {
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
            wit::Change::Resource(uri) if !is_uri(&uri) || self.holds_secret(&uri) => return Ok(()),
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
