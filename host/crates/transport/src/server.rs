//! The server: the state that both transports share.

use crate::http::access::HttpAccess;
use crate::metrics::Metrics;
use crate::settings::Settings;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use toolyard_dispatch::{ClientShares, Dispatch};
use toolyard_protocol::initialize::ServerIdentity;
use toolyard_protocol::method::Capability;
use toolyard_protocol::{Incoming, Message, Method, RawJson};

/// How long the first message waits for the plugins, so that it can say exactly what they offer. Plugins
/// whose code is in the cache are loaded by then.
const FIRST_WAIT: Duration = Duration::from_millis(80);

/// The identity of this server, as every result shows it; rendered once.
#[derive(Debug, Default)]
pub struct ServerInfo(OnceLock<RawJson>);

/// The state that both transports share.
pub struct Server {
    /// The application.
    pub dispatch: Arc<Dispatch>,
    /// The identity and instructions of the server.
    pub identity: ServerIdentity,
    /// The settings.
    pub settings: Settings,
    /// Access to the endpoint over HTTP. The client over stdio needs none, because it started this process.
    pub access: HttpAccess,
    /// The shares of the things that it holds for its clients.
    pub shares: ClientShares,
    /// The metrics.
    pub metrics: Metrics,
    /// The identity of this server, as results show it.
    pub server_info: ServerInfo,
}

impl Server {
    /// The identity of this server, as every result shows it (26J-5).
    pub(crate) fn server_info(&self) -> &RawJson {
        self.server_info.0.get_or_init(|| RawJson::of(&self.identity.info))
    }

    /// Whether no HTTP connection is open, and no call or task has a run.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.metrics.connections.get() == 0 && self.dispatch.is_idle()
    }

    /// Waits until the plugins are loaded, if the answer depends on them.
    pub(crate) async fn loaded_for(&self, incoming: &Incoming) {
        if self.dispatch.catalog().is_loaded() {
            return;
        }
        let loaded = self.dispatch.catalog().loaded();
        match incoming {
            Incoming::One(Message::Request { method, .. }) => match method {
                Method::Initialize | Method::ServerDiscover => {
                    drop(tokio::time::timeout(FIRST_WAIT, loaded).await);
                }
                method if reads_catalog(method) => loaded.await,
                _ => {}
            },
            Incoming::One(_) => {}
            Incoming::Batch(_) => loaded.await,
        }
    }
}

/// Whether the answer depends on what the plugins offer.
fn reads_catalog(method: &Method) -> bool {
    use Capability::{Completions, Prompts, Resources, Tools};
    matches!(method.capability(), Some(Tools | Resources | Prompts | Completions))
}
