//! What is told to whoever looks after this host: its numbers, and whether it is
//! ready. What is counted, the crates know; here it is put together.

use crate::assemble::Assembled;
use crate::config::Config;
use crate::system::SystemClock;
use anyhow::Context as _;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use toolyard_dispatch::{Clock as _, Dispatch};
use toolyard_store::Backend;
use toolyard_transport::http::admin::{self, AdminSettings};

/// What `/metrics` is written in.
const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The checks of `/readyz`.
const STOPPING: &str = "stopping";
const PLUGINS: &str = "plugins";
const STORE: &str = "store";

/// The state of this host, as it becomes known.
pub struct Vitals {
    /// Turns true at the first signal.
    stop: watch::Receiver<bool>,
    /// How long the store may take to answer.
    patience: Duration,
    /// There once the plugin folder is loaded.
    loaded: OnceLock<Loaded>,
}

/// What there is once the plugin folder is loaded.
struct Loaded {
    dispatch: Arc<Dispatch>,
    store: Arc<dyn Backend>,
    registry: Registry,
}

impl Vitals {
    /// Of a host that is still starting.
    fn new(config: &Config, stop: watch::Receiver<bool>) -> Arc<Self> {
        Arc::new(Self { stop, patience: config.limits.admin_patience, loaded: OnceLock::new() })
    }

    async fn look(&self) -> Vec<&'static str> {
        let mut failed = Vec::new();
        let loaded = self.loaded.get();
        if *self.stop.borrow() || loaded.is_some_and(|loaded| loaded.dispatch.is_closing()) {
            failed.push(STOPPING);
        }
        match loaded {
            None => failed.push(PLUGINS),
            Some(Loaded { store, .. }) => match tokio::time::timeout(self.patience, store.check()).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => {
                    tracing::warn!(error = &error as &dyn std::error::Error, "not ready: the store fails");
                    failed.push(STORE);
                }
                Err(_) => failed.push(STORE),
            },
        }
        failed
    }
}

impl admin::Health for Vitals {
    fn unready(&self) -> BoxFuture<'_, Vec<&'static str>> {
        self.look().boxed()
    }

    fn numbers(&self) -> (String, &'static str) {
        let mut text = String::new();
        let empty = Registry::default();
        let registry = self.loaded.get().map_or(&empty, |loaded| &loaded.registry);
        // Writing to a text does not fail, and a part of the numbers is better than
        // none.
        if encode(&mut text, registry).is_err() {
            tracing::error!("the numbers could not be written down whole");
        }
        (text, OPENMETRICS)
    }
}

/// The numbers that belong to the process as a whole.
pub fn registry() -> Registry {
    let mut registry = Registry::default();
    let build = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
    registry.register("toolyard_build", "The version of this host", build);
    let started = Gauge::<i64>::default();
    started.set(SystemClock.now().0 / 1000);
    registry.register_with_unit(
        "process_start_time",
        "When this process started, in seconds since 1970",
        Unit::Seconds,
        started,
    );
    registry
}

/// The admin listener, if the operator wants one.
pub struct Listening {
    vitals: Arc<Vitals>,
    service: JoinHandle<()>,
    end: watch::Sender<bool>,
    /// Where it listens.
    pub address: std::net::SocketAddr,
}

impl Listening {
    /// Begins to listen, before anything is loaded: whoever asks learns that the host
    /// lives and is not ready.
    pub async fn start(config: &Config, stop: watch::Receiver<bool>) -> anyhow::Result<Option<Self>> {
        let Some(address) = config.admin.listen else { return Ok(None) };
        let listener = TcpListener::bind(address)
            .await
            .with_context(|| format!("cannot listen on {address} (admin.listen)"))?;
        let address = listener.local_addr()?;
        let vitals = Vitals::new(config, stop);
        let settings = AdminSettings {
            on_network: config.limits.admin_on_network,
            names: config.admin.names.clone(),
            connections: config.limits.admin_connections as usize,
            time: config.limits.admin_time,
        };
        let (end, ended) = watch::channel(false);
        let service = tokio::spawn(admin::serve(vitals.clone(), settings, listener, ended));
        Ok(Some(Self { vitals, service, end, address }))
    }

    /// The plugin folder is loaded.
    pub fn loaded(&self, assembled: &mut Assembled) {
        let registry = std::mem::take(&mut assembled.registry);
        let loaded =
            Loaded { dispatch: assembled.server.dispatch.clone(), store: assembled.store(), registry };
        // There is one start.
        drop(self.vitals.loaded.set(loaded));
    }

    /// Stops listening, as the last thing that this host does.
    pub async fn end(self) {
        self.end.send_replace(true);
        if self.service.await.is_err() {
            tracing::error!("the admin listener panicked");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Flags;

    #[tokio::test]
    async fn a_host_that_still_loads_is_not_ready_and_one_that_stops_says_so_at_once() {
        let flags = Flags { plugins: Some("p".into()), data: Some("d".into()), ..Flags::default() };
        let config = Config::read(&flags, None).expect("valid");
        let (stop, stopped) = watch::channel(false);
        let vitals = Vitals::new(&config, stopped);
        assert_eq!(vitals.look().await, [PLUGINS]);
        stop.send_replace(true);
        assert_eq!(vitals.look().await, [STOPPING, PLUGINS]);
    }
}
