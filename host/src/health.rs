//! The health of this host for its operator: its metrics, and whether it is ready.

use crate::assemble::Assembled;
use crate::config::Config;
use anyhow::Context as _;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use toolyard_dispatch::PrincipalUse;
use toolyard_store::Backend;
use toolyard_transport::Server;
use toolyard_transport::http::admin::{self, AdminSettings};

/// The media type of `/metrics`.
const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The names of failed checks in `/readyz`.
const STOPPING: &str = "stopping";
const PLUGINS: &str = "plugins";
const STORE: &str = "store";

/// The principals that `/principals` names for each kind of thing that the host holds.
const LARGEST: usize = 10;
/// How long the store may take to answer before `/readyz` reports that it does not. A store that works
/// answers within milliseconds, and orchestrators often stop waiting after some seconds.
const STORE_TIME: Duration = Duration::from_secs(2);

/// The state of this host, as it becomes known.
pub struct Health {
    /// Cancelled at the first signal.
    stop: CancellationToken,
    /// Set once the plugin folder is loaded.
    loaded: OnceLock<Loaded>,
}

/// The parts that exist once the plugin folder is loaded.
struct Loaded {
    server: Arc<Server>,
    store: Arc<dyn Backend>,
    registry: Registry,
}

impl Health {
    /// The health of a host that is still starting.
    pub fn new(stop: CancellationToken) -> Arc<Self> {
        Arc::new(Self { stop, loaded: OnceLock::new() })
    }

    /// Reports that the plugin folder is loaded.
    pub fn loaded(&self, assembled: &mut Assembled) {
        let registry = std::mem::take(&mut assembled.registry);
        let loaded = Loaded { server: assembled.server.clone(), store: assembled.store.clone(), registry };
        // A host starts once.
        drop(self.loaded.set(loaded));
    }

    async fn look(&self) -> Vec<&'static str> {
        let mut failed = Vec::new();
        let loaded = self.loaded.get();
        if self.stop.is_cancelled() || loaded.is_some_and(|loaded| loaded.server.dispatch.is_closing()) {
            failed.push(STOPPING);
        }
        match loaded {
            None => failed.push(PLUGINS),
            Some(Loaded { store, .. }) => match tokio::time::timeout(STORE_TIME, store.check()).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => {
                    tracing::warn!(
                        event = "health.store_failed",
                        error = &error as &dyn std::error::Error,
                        "store check failed; not ready"
                    );
                    failed.push(STORE);
                }
                Err(_) => failed.push(STORE),
            },
        }
        failed
    }

    /// The metrics as text.
    async fn encoded(&self) -> String {
        let mut text = String::new();
        let empty = Registry::default();
        let registry = match self.loaded.get() {
            None => &empty,
            Some(Loaded { server, registry, .. }) => {
                server.dispatch.count_parked(STORE_TIME).await;
                registry
            }
        };
        // Writing to a String does not fail, and incomplete metrics are better than none.
        if encode(&mut text, registry).is_err() {
            tracing::error!(event = "health.metrics_incomplete", "cannot encode all metrics");
        }
        text
    }
}

impl admin::Health for Health {
    fn unready(&self) -> BoxFuture<'_, Vec<&'static str>> {
        self.look().boxed()
    }

    fn numbers(&self) -> BoxFuture<'_, (String, &'static str)> {
        self.encoded().map(|text| (text, OPENMETRICS)).boxed()
    }

    fn principals(&self) -> Vec<PrincipalUse> {
        self.loaded.get().map(|loaded| loaded.server.shares.largest(LARGEST)).unwrap_or_default()
    }
}

/// The admin listener, if the operator configured one.
pub struct Listening {
    service: JoinHandle<()>,
    end: CancellationToken,
    /// The address that it listens on.
    pub address: std::net::SocketAddr,
}

impl Listening {
    /// Begins to listen, before anything is loaded: a probe learns that the host lives and is not
    /// ready. Returns `None` if no address is configured.
    pub async fn start(config: &Config, health: Arc<Health>) -> anyhow::Result<Option<Self>> {
        let Some(address) = config.admin.listen else { return Ok(None) };
        let listener = TcpListener::bind(address)
            .await
            .with_context(|| format!("cannot listen on {address} (`admin.listen`)"))?;
        let address = listener.local_addr()?;
        let settings =
            AdminSettings { on_network: config.limits.admin_on_network, names: config.admin.names.clone() };
        let end = CancellationToken::new();
        let service = tokio::spawn(admin::serve(health, settings, listener, end.clone()));
        Ok(Some(Self { service, end, address }))
    }

    /// Stops listening, as the last thing that this host does.
    pub async fn end(self) {
        self.end.cancel();
        if self.service.await.is_err() {
            tracing::error!(event = "health.listener_panicked", "admin listener panicked");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_host_that_still_loads_is_not_ready_and_one_that_stops_says_so_at_once() {
        let stop = CancellationToken::new();
        let health = Health::new(stop.clone());
        assert_eq!(health.look().await, [PLUGINS]);
        stop.cancel();
        assert_eq!(health.look().await, [STOPPING, PLUGINS]);
    }
}
