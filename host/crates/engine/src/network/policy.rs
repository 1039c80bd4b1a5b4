//! The network policy of one run: what it may connect to, and what it was refused. The host logs
//! each reason once for the operator and keeps it for the result, because most error codes of WASI
//! carry no words.

use crate::grant::Grants;
#[cfg(test)]
use crate::grant::http::HttpGrant;
use crate::limits::failure;
use crate::network::Network;
use crate::network::resolved_peers::ResolvedPeers;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use toolyard_manifest::Limits;
use toolyard_task::RunContext;
use wasmtime_wasi_http::Error;

/// The most refusals of a run that are kept and logged.
const MAX_REFUSALS: usize = 8;

/// The network policy of one run.
pub(crate) struct NetworkPolicy {
    pub plugin: Arc<str>,
    pub function: Arc<str>,
    pub grants: Arc<Grants>,
    pub limits: Arc<Limits>,
    pub network: Arc<Network>,
    pub context: Arc<dyn RunContext>,
    /// The addresses of names that the run has looked up for raw sockets.
    pub resolved: ResolvedPeers,
    refusals: Mutex<Vec<String>>,
}

impl NetworkPolicy {
    pub fn new(
        (plugin, function): (Arc<str>, Arc<str>),
        grants: Arc<Grants>,
        limits: Arc<Limits>,
        network: Arc<Network>,
        context: Arc<dyn RunContext>,
    ) -> Self {
        let (resolved, refusals) = (ResolvedPeers::default(), Mutex::default());
        Self { plugin, function, grants, limits, network, context, resolved, refusals }
    }

    /// The policy of a test, with one rule or more.
    #[cfg(test)]
    pub fn of(http: HttpGrant, limits: Limits, network: Network, context: Arc<dyn RunContext>) -> Self {
        let grants = Grants { http, ..Grants::default() };
        let names = ("p.wasm".into(), "t".into());
        Self::new(names, Arc::new(grants), Arc::new(limits), Arc::new(network), context)
    }

    /// The addresses of a name, looked up on the account of the run's caller; nothing if it could not
    /// be resolved.
    pub async fn addresses(&self, name: &str) -> Option<Arc<[IpAddr]>> {
        self.network.lookups.find(name, &self.context.share().account).await
    }

    /// The manifest that would have to grant more.
    pub fn manifest(&self) -> String {
        toolyard_manifest::file_name(&self.plugin)
    }

    /// Notes why something was refused, and logs it the first time.
    pub fn refused(&self, why: String) {
        // A guest chooses the hosts that it names, and may put a secret into them.
        let why = self.grants.clean(why);
        let mut refusals = self.refusals.lock().unwrap_or_else(PoisonError::into_inner);
        if refusals.len() < MAX_REFUSALS && !refusals.contains(&why) {
            tracing::warn!(plugin = %self.plugin, tool = %self.function, "refused: {why}");
            refusals.push(why);
        }
    }

    /// Whether the run may still do something outside; notes it if not.
    pub fn may_act(&self) -> bool {
        let may = self.context.may_act();
        if !may {
            self.refused(
                "this host may have lost its task to another one, so nothing leaves it any more".to_owned(),
            );
        }
        may
    }

    /// Notes that a limit was met, and gives an error that says so.
    pub fn over(&self, key: &'static str, what: &str) -> Error {
        let why = failure::limit(&self.limits, key, what);
        self.refused(why.clone());
        Error::InternalError(Some(why))
    }

    /// The refusals, in sentences.
    pub fn refusals(&self) -> Vec<String> {
        self.refusals.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
