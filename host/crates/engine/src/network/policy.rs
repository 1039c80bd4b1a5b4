//! The network policy of one run: what it may connect to, and which accesses were refused or failed. The
//! host keeps each reason once for the result, because most WASI error codes carry no text. It also logs the
//! refusals for the operator.

use crate::grant::Grants;
#[cfg(test)]
use crate::grant::http::HttpGrant;
use crate::limits::failure;
use crate::network::Network;
use crate::network::exchange_report::ExchangeReport;
use crate::network::resolved_peers::ResolvedPeers;
use parking_lot::Mutex;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use toolyard_manifest::{Limits, Protocol, Target};
use toolyard_task::RunContext;
use toolyard_task::host_call::{HostAction, HostCall};
use toolyard_task::tool::Report;
use wasmtime_wasi_http::Error;

/// The maximum number of reasons of a run that are kept and logged.
const MAX_REASONS: usize = 8;

pub(crate) struct NetworkPolicy {
    pub plugin: Arc<str>,
    pub function: Arc<str>,
    pub grants: Arc<Grants>,
    pub limits: Arc<Limits>,
    pub network: Arc<Network>,
    pub context: Arc<dyn RunContext>,
    /// The addresses of names that the run has looked up for raw sockets.
    pub resolved: ResolvedPeers,
    reasons: Mutex<Vec<String>>,
    /// Exchanges that are not reported yet.
    exchanges: Mutex<Vec<Arc<ExchangeReport>>>,
    /// The peer of the last datagram.
    last_datagram: Mutex<Option<SocketAddr>>,
}

impl NetworkPolicy {
    pub fn new(
        (plugin, function): (Arc<str>, Arc<str>),
        grants: Arc<Grants>,
        limits: Arc<Limits>,
        network: Arc<Network>,
        context: Arc<dyn RunContext>,
    ) -> Self {
        Self {
            plugin,
            function,
            grants,
            limits,
            network,
            context,
            resolved: ResolvedPeers::default(),
            reasons: Mutex::default(),
            exchanges: Mutex::default(),
            last_datagram: Mutex::default(),
        }
    }

    /// A policy for tests.
    #[cfg(test)]
    pub fn of(http: HttpGrant, limits: Limits, network: Network, context: Arc<dyn RunContext>) -> Self {
        let grants = Grants { http, ..Grants::default() };
        let names = ("p.wasm".into(), "t".into());
        Self::new(names, Arc::new(grants), Arc::new(limits), Arc::new(network), context)
    }

    /// The addresses of a name, looked up for the account of the run's caller; `None` if it could
    /// not be resolved.
    pub async fn addresses(&self, name: &str) -> Option<Arc<[IpAddr]>> {
        self.network.lookups.find(name, &self.context.share().account).await
    }

    /// An exchange has begun.
    pub fn open_exchange(&self, report: Arc<ExchangeReport>) {
        let mut open = self.exchanges.lock();
        // `http-concurrent` bounds what is left.
        open.retain(|other| !other.is_over());
        open.push(report);
    }

    /// The run has ended, and with it every exchange.
    pub fn end_exchanges(&self) {
        let open = std::mem::take(&mut *self.exchanges.lock());
        open.iter().for_each(|report| report.abandon());
    }

    /// Reports the use of a raw socket. Datagrams to the same peer are one use.
    pub fn report_socket(&self, protocol: Protocol, peer: SocketAddr, is_allowed: bool) {
        if protocol == Protocol::Udp {
            let mut last = self.last_datagram.lock();
            if last.replace(peer) == Some(peer) {
                return;
            }
        }
        let what = HostAction::Socket { protocol: protocol.as_str(), peer: peer.to_string(), is_allowed };
        self.context.report(Report::HostCall(Box::new(HostCall { took: Duration::ZERO, what })));
    }

    /// The file name of the manifest that would have to grant more.
    pub fn manifest(&self) -> String {
        toolyard_manifest::file_name(&self.plugin)
    }

    /// Records why an access was refused, and logs the reason the first time.
    pub fn refused(&self, why: String) {
        if let Some(reason) = self.keep(why) {
            tracing::warn!(
                event = "guest.access_refused", plugin = %self.plugin, tool = %self.function, %reason,
                "access refused"
            );
        }
    }

    /// Records why a granted request failed. Some guests learn only that it did: the errors of StarlingMonkey's
    /// `fetch` have no cause.
    pub fn failed(&self, target: &Target, error: &Error) {
        if let Some(why) = super::error::why(error) {
            self.keep(format!("a request to {target} failed: {why}"));
        }
    }

    /// Keeps a reason for the result, and returns it if it is new.
    fn keep(&self, why: String) -> Option<String> {
        // A guest chooses the hosts that it names, and may put a secret into them.
        let why = self.grants.clean(why);
        let mut reasons = self.reasons.lock();
        let is_new = reasons.len() < MAX_REASONS && !reasons.contains(&why);
        is_new.then(|| reasons.push(why.clone()))?;
        Some(why)
    }

    /// Whether the run may still have effects outside the host. Records a refusal if not.
    pub fn may_act(&self) -> bool {
        let may = self.context.may_act();
        if !may {
            self.refused(
                "this host may have lost its task to another one, so nothing leaves it any more".to_owned(),
            );
        }
        may
    }

    /// Whether this use of a raw socket does not happen, because the exchanges of the run are recorded.
    /// Records a refusal if so.
    pub fn is_offline(&self, used: impl FnOnce() -> String) -> bool {
        let is = self.context.http_tape().is_some_and(|tape| !tape.allows_sockets());
        if is {
            self.refused(format!("{} needs the network; `toolyard test --network` allows it", used()));
        }
        is
    }

    /// Records that a limit was reached, and returns an error that says so.
    pub fn over(&self, key: &'static str, what: &str) -> Error {
        let why = failure::limit(&self.limits, key, what);
        self.refused(why.clone());
        Error::InternalError(Some(why))
    }

    /// The reasons, one sentence each.
    pub fn reasons(&self) -> Vec<String> {
        self.reasons.lock().clone()
    }
}
