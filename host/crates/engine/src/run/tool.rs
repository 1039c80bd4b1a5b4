//! A tool of a plugin, for the dispatcher.

use crate::bindings::toolyard::plugin::types::{CallError, ToolResult};
use crate::component::describe::DeclaredTool;
use crate::component::exports::Called;
use crate::convert::encode;
use crate::convert::guest_error::{self, Missing};
use crate::convert::typed::Function;
use crate::journal::{self, GuestJournal, JournalFailure};
use crate::limits::failure::Failure;
use crate::limits::first_poll::FirstPolls;
use crate::run::engine::ToolOfPlugin;
use crate::run::invoke::{self, ContractCall, Invocation, PlainCall, RunOutcome, Subject, TimeLeft};
use crate::run::loaded::{JournalledCode, PluginBase};
use crate::run::prefault::{Prefault, PrefaultedCall};
use futures_util::future::BoxFuture;
use sha2::{Digest as _, Sha256};
use std::sync::Arc;
use toolyard_journal::RecordError;
use toolyard_manifest::Limits;
use toolyard_schema::{Schema, Verdict};
use toolyard_task::tool::{ArgumentCheck, CheckOrder, ToolSpec};
use toolyard_task::wire::RawJson;
use toolyard_task::{
    ArgumentValue, Digest, Reservation, ReservationError, RunContext, RunEnd, RunJournal, Tool,
};
use wasmtime::component::{ComponentExportIndex, Val};

/// A tool, with everything that a run of it needs.
pub(crate) struct GuestTool {
    pub spec: ToolSpec,
    /// The guest's name for it, without the manifest's prefix.
    pub guest_name: Arc<str>,
    pub declared: Arc<DeclaredTool>,
    pub callee: Callee,
    pub limits: Arc<Limits>,
    pub first_polls: FirstPolls,
    pub prefault: Prefault,
    pub base: Arc<PluginBase>,
}

/// The function that implements a tool.
pub(crate) enum Callee {
    /// The function `call` of the contract.
    Contract(ComponentExportIndex),
    /// An ordinary function.
    Plain(Arc<Function>),
}

impl Tool for GuestTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn check(&self, arguments: &RawJson) -> ArgumentCheck {
        self.checked(self.declared.input.check_quickly(arguments))
    }

    fn check_fully(
        self: Arc<Self>,
        arguments: RawJson,
        order: CheckOrder,
    ) -> BoxFuture<'static, ArgumentCheck> {
        Box::pin(async move {
            let Self { declared, base, limits, .. } = &*self;
            let checker = &base.engine.checker;
            match checker.check(declared.input.clone(), arguments, order, limits.cpu).await {
                Ok(verdict) => self.checked(verdict),
                Err(failure) => {
                    let subject = format!("check of the arguments of `{}`", self.spec.name());
                    ArgumentCheck::Misfit(failure.sentence(&subject, limits))
                }
            }
        })
    }

    fn typed_arguments(&self, arguments: &RawJson) -> Option<ArgumentValue<'static>> {
        match &self.callee {
            Callee::Contract(_) => None,
            Callee::Plain(function) => function.seen_arguments(arguments),
        }
    }

    fn reserve(&self) -> Result<Reservation, ReservationError> {
        self.base.engine.budget.take(self.base.component.needs.within(self.limits.memory))
    }

    fn is_quick(&self) -> bool {
        self.first_polls.is_quick()
    }

    fn run(
        self: Arc<Self>,
        arguments: RawJson,
        reservation: Reservation,
        context: Arc<dyn RunContext>,
    ) -> BoxFuture<'static, RunEnd> {
        Box::pin(run(self, arguments, reservation, context))
    }

    fn interrupt(&self) {
        self.base.engine.interrupt();
    }

    fn of_component(self: Arc<Self>, digest: Digest) -> BoxFuture<'static, Result<Arc<dyn Tool>, String>> {
        let PluginBase { engine, file, manifest, grants, .. } = &*self.base;
        match engine.former.get() {
            None => Box::pin(std::future::ready(Err("this host keeps no components".to_owned()))),
            Some(former) => former.clone().tool(
                engine.clone(),
                ToolOfPlugin {
                    digest,
                    guest_name: self.guest_name.clone(),
                    file: file.clone(),
                    manifest: manifest.clone(),
                    grants: grants.clone(),
                },
            ),
        }
    }
}

/// Runs one call and redacts its result.
async fn run(
    tool: Arc<GuestTool>,
    arguments: RawJson,
    reservation: Reservation,
    context: Arc<dyn RunContext>,
) -> RunEnd {
    let redactor = tool.base.grants.redactor.clone();
    let end = call(tool, arguments, reservation, context).await;
    match redactor {
        Some(redactor) => redactor.run_end(end),
        None => end,
    }
}

async fn call(
    tool: Arc<GuestTool>,
    arguments: RawJson,
    reservation: Reservation,
    context: Arc<dyn RunContext>,
) -> RunEnd {
    let Some(port) = context.journal() else {
        return call_by(&tool, arguments, reservation, &context, None).await;
    };
    let (journal, code) = match tool.journal(port, &arguments).await {
        Ok(opened) => opened,
        Err(failure) => return tool.not_resumed(&failure),
    };
    if context.info().task.is_none() {
        // A call that becomes a task while its guest computes has a beginning then.
        journal.push_recorded();
    }
    let end = call_by(&tool, arguments, reservation, &context, Some((journal.clone(), code))).await;
    tool.recorded_end(&journal, end).await
}

async fn call_by(
    tool: &GuestTool,
    arguments: RawJson,
    reservation: Reservation,
    context: &Arc<dyn RunContext>,
    journal: Option<(Arc<GuestJournal>, &JournalledCode)>,
) -> RunEnd {
    let code = journal.as_ref().map(|(_, code)| *code);
    let recorded =
        journal.as_ref().map(|(journal, _)| Arc::new(journal::limits_of(&journal.begin(), &tool.limits)));
    let order = Invocation {
        base: &tool.base,
        limits: recorded.as_ref().unwrap_or(&tool.limits),
        reserved: tool.limits.memory,
        first_polls: &tool.first_polls,
        subject: Subject::Tool(tool.guest_name.clone()),
        reservation,
        journal,
    };
    match &tool.callee {
        Callee::Contract(export) => {
            let told = context.tells_missing_capabilities();
            let ended = match code.map(|code| code.exports.tools.as_ref()) {
                None => {
                    let call = PrefaultedCall {
                        export,
                        name: &tool.guest_name,
                        arguments: arguments.as_str(),
                        prefault: &tool.prefault,
                    };
                    invoke::invoke(order, call, context).await
                }
                Some(Some(exports)) => {
                    let call = ContractCall::new(&exports.call, (&*tool.guest_name, arguments.as_str()));
                    invoke::invoke(order, call, context).await
                }
                Some(None) => RunOutcome::Failed(Failure::Host),
            };
            tool.end(ended.map(|(called,): Called| Ok(called)), told, context).await
        }
        Callee::Plain(function) => {
            let by_name = code.map(|code| code.functions.by_name.get(&*tool.guest_name));
            let function = match by_name {
                None => function,
                Some(Some(function)) => function,
                Some(None) => return tool.end(RunOutcome::Failed(Failure::Host), false, context).await,
            };
            let read = match function.arguments(&arguments) {
                Ok(read) => read,
                Err(what) => return encode::error(&tool.misfit(&what)),
            };
            // The text is no longer needed and may be large.
            drop(arguments);
            let ended = invoke::invoke(order, PlainCall { function, arguments: read }, context).await;
            let result =
                |returned: Option<Val>| function.result(returned.as_ref(), tool.limits.output).map(Ok);
            tool.end(ended.map(result), false, context).await
        }
    }
}

impl GuestTool {
    /// Opens the journal of a run, and finds the code of such runs.
    async fn journal(
        &self,
        port: Arc<dyn RunJournal>,
        arguments: &RawJson,
    ) -> Result<(Arc<GuestJournal>, &JournalledCode), JournalFailure> {
        let misuse = |what| JournalFailure::Record(RecordError::Misuse(what));
        let component = &self.base.component;
        let Some(code) = component.journalled.get() else {
            port.stuck();
            return Err(JournalFailure::NotDeclared);
        };
        let version = self.base.engine.settings.host_version;
        let about = (self.spec.name(), &*component.digest.0, version);
        let begin = journal::begin(about, arguments.as_bytes(), &self.base.grants, &self.limits);
        let begin = begin.map_err(|_| misuse(journal::NO_RANDOM))?;
        Ok((GuestJournal::open(port, begin, &self.base.engine.budget).await?, code))
    }

    /// Records the end of a run, unless the run could not go on.
    async fn recorded_end(&self, journal: &GuestJournal, end: RunEnd) -> RunEnd {
        if let Some(failure) = journal.failure() {
            return self.not_resumed(&failure);
        }
        let mut outcome = Sha256::new();
        match &end {
            RunEnd::Stopped => return end,
            RunEnd::Result { is_error, result, .. } => {
                outcome.update([u8::from(*is_error)]);
                outcome.update(result.as_bytes());
            }
            RunEnd::Error(error) => {
                outcome.update(error.code.to_le_bytes());
                outcome.update(&error.message);
            }
        }
        match journal.end(outcome.finalize().into()) {
            Ok(()) => end,
            Err(failure) => self.not_resumed(&failure),
        }
    }

    /// The end of a run whose journal does not let it go on.
    fn not_resumed(&self, failure: &JournalFailure) -> RunEnd {
        if matches!(failure, JournalFailure::Lost(_)) {
            // Another run has the task.
            return RunEnd::Stopped;
        }
        let why = match failure {
            // The difference may contain what the guest wrote, so only the operator sees it, in the log.
            JournalFailure::Record(RecordError::Diverged(difference)) => {
                format!("the run did not repeat entry {} of its journal", difference.entry)
            }
            other => other.to_string(),
        };
        encode::error(&format!("The task could not be resumed: {why}"))
    }

    fn checked(&self, verdict: Option<Verdict>) -> ArgumentCheck {
        match verdict {
            Some(Verdict::Fits) => ArgumentCheck::Fits,
            Some(Verdict::Misfit(what)) => ArgumentCheck::Misfit(self.misfit(&what)),
            None => ArgumentCheck::Unfinished,
        }
    }

    fn misfit(&self, what: &str) -> String {
        format!("The arguments do not fit the input schema of `{}`: {what}", self.spec.name())
    }

    /// Encodes a result after checking it against the output schema; `None` if the run was stopped.
    async fn result(
        &self,
        mut given: ToolResult,
        left: TimeLeft,
        context: &Arc<dyn RunContext>,
    ) -> Result<Option<RunEnd>, Failure> {
        let structured = encode::structured(given.structured_content.take())?;
        if let (Some(schema), false) = (&self.declared.output, given.is_error) {
            let Some(structured) = &structured else {
                return Err(Failure::Malformed(
                    "its output schema asks for structured content, and there is none".into(),
                ));
            };
            let verdict = match schema.check_quickly(structured) {
                Some(verdict) => verdict,
                None => match self.check_output(schema, structured.clone(), left, context).await? {
                    Some(verdict) => verdict,
                    None => return Ok(None),
                },
            };
            if let Verdict::Misfit(what) = verdict {
                return Err(Failure::Malformed(format!(
                    "its structured content does not fit its output schema: {what}"
                )));
            }
        }
        encode::result(given, structured, self.limits.output).map(Some)
    }

    /// Checks a large result in the remaining time of its run.
    async fn check_output(
        &self,
        schema: &Arc<Schema>,
        structured: RawJson,
        left: TimeLeft,
        context: &Arc<dyn RunContext>,
    ) -> Result<Option<Verdict>, Failure> {
        let stopped = context.clone();
        let order = CheckOrder { share: context.share(), stopped: Arc::new(move || stopped.stopped()) };
        let checking = self.base.engine.checker.check(schema.clone(), structured, order, left.cpu);
        tokio::time::timeout(left.wall, checking).await.unwrap_or(Err(Failure::Wall))
    }

    /// Converts the outcome of a call for the dispatcher. `told` says whether the client knows the
    /// error code for a missing capability.
    async fn end(
        &self,
        ended: RunOutcome<Result<Result<ToolResult, CallError>, Failure>>,
        told: bool,
        context: &Arc<dyn RunContext>,
    ) -> RunEnd {
        let limits = &*self.limits;
        // Built only if needed: a successful result does not mention its tool.
        let name = || format!("tool `{}`", self.spec.name());
        let fail = |failure: Failure| encode::error(&failure.sentence(&name(), limits));
        let redactor = self.base.grants.redactor.as_deref();
        match ended {
            RunOutcome::Stopped => RunEnd::Stopped,
            RunOutcome::Failed(failure) | RunOutcome::Returned(Err(failure), _) => fail(failure),
            RunOutcome::Returned(Ok(Ok(mut result)), refused) => {
                if result.is_error {
                    // If a guest was refused an access and fails with its own message, that message
                    // cannot name the limit or grant that was the reason.
                    let growth = refused.growth.map(|denied| denied.sentence(limits));
                    result.content.extend(growth.into_iter().chain(refused.network).map(encode::text));
                }
                if let Some(redactor) = redactor {
                    redactor.guest_result(&mut result);
                }
                match self.result(result, refused.left, context).await {
                    Ok(Some(end)) => end,
                    Ok(None) => RunEnd::Stopped,
                    Err(failure) => fail(failure),
                }
            }
            RunOutcome::Returned(Ok(Err(CallError::Rpc(mut error))), _) => {
                if let Some(redactor) = redactor {
                    redactor.guest_error(&mut error);
                }
                RunEnd::Error(guest_error::rpc_error(&name(), error))
            }
            RunOutcome::Returned(Ok(Err(CallError::MissingCapability(what))), _) => {
                let missing = Missing::of(&name(), &what);
                match missing.error() {
                    Some(error) if told => RunEnd::Error(error),
                    _ => encode::error(&missing.sentence),
                }
            }
        }
    }
}
