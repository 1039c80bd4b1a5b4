//! Loads the plugin folder and keeps its tools up to date, as a service of the host.

use crate::config::Config;
use crate::install::folder;
use crate::log::lossy;
use anyhow::bail;
use std::path::{self, Path};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::SetOnce;
use tokio_util::sync::CancellationToken;
use toolyard_engine::{PluginReport, Plugins, Snapshot};

/// Refuses a named folder that does not exist: otherwise a misspelt name would be a host without tools. The default folder may appear later.
pub fn check(config: &Config) -> anyhow::Result<()> {
    folder::recover(&config.plugins);
    if !config.names_plugins || config.plugins.is_dir() {
        return Ok(());
    }
    let path = path::absolute(&config.plugins).unwrap_or_else(|_| config.plugins.clone());
    let path = path.display();
    if config.plugins.exists() {
        bail!("the plugin folder {path} (`plugins`) is not a folder; name the folder that has the tools");
    }
    bail!("there is no plugin folder {path} (`plugins`); create it, or name another by --plugins")
}

/// The reports of the plugin folder, as they are now.
pub type PluginReports = parking_lot::Mutex<Vec<PluginReport>>;

/// When the start of the host is complete, as regards the plugins.
pub enum FirstLoad {
    /// After all components are compiled.
    Complete,
    /// After this time at the latest. The tools of components that still compile are added later.
    Within(Duration),
    /// At once. Lists wait for this time at the latest.
    Later(Duration),
}

impl FirstLoad {
    /// How long the first load waits for components, and whether the start waits for the first load.
    pub const fn terms(self) -> (Option<Duration>, bool) {
        match self {
            Self::Complete => (None, true),
            Self::Within(wait) => (Some(wait), true),
            Self::Later(wait) => (Some(wait), false),
        }
    }
}

/// Loads the folder, publishes its tools, sets `first`, and follows the changes of the folder until `stop` is
/// cancelled. With `wait`, components that take longer to compile are not in the first
/// snapshot; their tools are published when they are ready.
pub async fn serve(
    mut plugins: Plugins,
    wait: Option<Duration>,
    publish: impl Fn(Snapshot) + Send + 'static,
    first: Arc<SetOnce<Snapshot>>,
    stop: CancellationToken,
) {
    let dir = plugins.folder().to_owned();
    let load = async {
        match wait {
            Some(wait) => plugins.load_within(wait).await,
            None => plugins.load().await,
        }
    };
    let loaded = tokio::select! {
        biased;
        snapshot = announced(load, &dir) => Some(snapshot),
        () = stop.cancelled() => None,
    };
    let Some(snapshot) = loaded else { return plugins.end().await };
    publish(snapshot.clone());
    // Nothing else sets it.
    drop(first.set(snapshot));
    plugins.watch(stop, publish).await;
}

/// Awaits `loading`, and says on stderr after one second what takes so long.
async fn announced<T>(loading: impl Future<Output = T>, dir: &Path) -> T {
    tokio::pin!(loading);
    if let Ok(loaded) = tokio::time::timeout(Duration::from_secs(1), &mut loading).await {
        return loaded;
    }
    let dir = dir.display();
    lossy::tell(&format!("toolyard: compiling the tools in {dir}; the next start finds them compiled\n"));
    loading.await
}
