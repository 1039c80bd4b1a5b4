//! The state of one run, which its store holds.

use crate::convert::guest_input;
use crate::grant::redact::Redactor;
use crate::guest::about::About;
use crate::journal::GuestJournal;
use crate::limits::failure::Failure;
use crate::limits::memory_limiter::MemoryLimiter;
use crate::network::http::OutgoingHttp;
use crate::network::policy::NetworkPolicy;
use bytes::Bytes;
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use toolyard_task::RunContext;
use toolyard_task::tool::Report;
use toolyard_task::wire::{LogLevel, RawJson};
use wasmtime::component::ResourceTable;
use wasmtime_wasi::WasiCtx;
use wasmtime_wasi_http::{WasiHttpCtxView, WasiHttpView};

pub(crate) struct GuestState {
    pub limiter: MemoryLimiter,
    pub context: Arc<dyn RunContext>,
    pub about: About,
    /// Created when the guest first uses WASI; many guests never do.
    pub wasi: Option<Box<WasiCtx>>,
    pub table: ResourceTable,
    /// Created when the guest first uses the network.
    policy: OnceLock<Arc<NetworkPolicy>>,
    outgoing: Option<Box<OutgoingHttp>>,
    /// The journal of a run that can be repeated.
    journal: Option<Arc<GuestJournal>>,
    /// The timers of such a run: until when, in milliseconds since 1970, by the number of the pollable.
    pub timers: HashMap<u32, u64>,
}

impl GuestState {
    /// # Errors
    /// If a granted folder is no longer in its place. The run could still use it, but an operator
    /// who has moved it expects that it cannot.
    pub fn new(limiter: MemoryLimiter, context: Arc<dyn RunContext>, about: About) -> Result<Self, Failure> {
        if let Some(lost) = about.grants.folders.iter().find(|folder| !folder.is_in_place()) {
            let (plugin, path) = (&about.plugin, lost.grant.host.display());
            tracing::warn!(
                event = "grant.folder_moved", %plugin, %path,
                "granted folder was moved, replaced or removed"
            );
            return Err(Failure::Folder(lost.grant.guest.clone()));
        }
        let mut run = Self {
            limiter,
            context,
            about,
            wasi: None,
            table: ResourceTable::new(),
            policy: OnceLock::new(),
            outgoing: None,
            journal: None,
            timers: HashMap::new(),
        };
        run.table.set_max_capacity(run.about.limits.handles as usize);
        Ok(run)
    }

    /// The same, with a journal.
    #[must_use]
    pub fn recorded(mut self, journal: Arc<GuestJournal>) -> Self {
        self.limiter.waiter = Some(journal.clone());
        Self { journal: Some(journal), ..self }
    }

    /// The journal of a run that has one.
    ///
    /// # Errors
    /// If it has none, which is a fault of the host.
    pub fn journal(&self) -> wasmtime::Result<&Arc<GuestJournal>> {
        self.journal
            .as_ref()
            .ok_or_else(|| wasmtime::Error::msg("a run without a journal has the linker of those with one"))
    }

    /// The journal, if the run has one.
    pub const fn find_journal(&self) -> Option<&Arc<GuestJournal>> {
        self.journal.as_ref()
    }

    pub fn network_policy(&self) -> &Arc<NetworkPolicy> {
        self.policy.get_or_init(|| {
            let About { plugin, function, grants, limits, network, .. } = self.about.clone();
            Arc::new(NetworkPolicy::new((plugin, function), grants, limits, network, self.context.clone()))
        })
    }

    /// Why accesses of the run to the network were refused or failed, one sentence each.
    pub fn network_reasons(&self) -> Vec<String> {
        self.policy.get().map(|policy| policy.reasons()).unwrap_or_default()
    }

    /// Reports something of the guest, unless the run repeats what was reported before.
    pub fn report(&self, report: Report) {
        if self.journal.as_ref().is_none_or(|journal| journal.is_live()) {
            self.context.report(report);
        }
    }

    /// Reports a log message of the guest.
    pub fn report_log(&self, level: LogLevel, logger: Option<String>, data: RawJson) {
        let logger = logger.map(|logger| guest_input::cut(self.clean(logger), guest_input::MAX_NAME_BYTES));
        self.report(Report::Log { level, logger, data: self.clean_json(data) });
    }

    /// Redacts the secrets in a text of the guest.
    pub fn clean(&self, text: String) -> String {
        self.about.grants.clean(text)
    }

    pub fn clean_json(&self, json: RawJson) -> RawJson {
        match &self.about.grants.redactor {
            Some(redactor) => redactor.json(json),
            None => json,
        }
    }

    /// A text for the journal: with the names of secrets in place of their values.
    pub fn kept(&self, text: String) -> String {
        self.redacted(text, Redactor::kept)
    }

    /// The text that [`kept`](Self::kept) was given, with the present values of the secrets.
    pub fn restored(&self, text: String) -> String {
        self.redacted(text, Redactor::restored)
    }

    fn redacted(&self, text: String, redact: impl Fn(&Redactor, &Bytes) -> Bytes) -> String {
        match &self.about.grants.redactor {
            Some(redactor) => String::from_utf8_lossy(&redact(redactor, &Bytes::from(text))).into_owned(),
            None => text,
        }
    }

    pub fn holds_secret(&self, text: &str) -> bool {
        self.about.grants.redactor.as_ref().is_some_and(|redactor| redactor.finds(text))
    }
}

impl WasiHttpView for GuestState {
    fn http(&mut self) -> WasiHttpCtxView<'_> {
        let (policy, journal) = (self.network_policy().clone(), self.journal.clone());
        let outgoing = self
            .outgoing
            .get_or_insert_with(|| Box::new(OutgoingHttp::new(policy, journal, self.limiter.outside())));
        let OutgoingHttp { context, sender } = &mut **outgoing;
        WasiHttpCtxView { ctx: context, table: &mut self.table, hooks: sender }
    }
}
