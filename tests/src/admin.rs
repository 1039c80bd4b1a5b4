//! The admin endpoints of a host, for its operator (`admin.listen`).

use crate::Host;
use crate::http::{Answer, Connection};

impl Host {
    /// The port of the admin listener.
    ///
    /// # Panics
    /// If the host runs without `admin.listen`.
    pub fn admin(&self) -> u16 {
        port(&self.log()).expect("an admin listener")
    }

    /// How many runs hold a slot.
    ///
    /// # Panics
    /// If it was started without `admin.listen`.
    pub async fn runs(&self) -> u32 {
        self.metric("toolyard_runs").await.and_then(|runs| runs.try_into().ok()).expect("the metric of runs")
    }

    /// The value of this series among the metrics, with its labels as they are written; `None` if it is not
    /// there.
    ///
    /// # Panics
    /// If it was started without `admin.listen`.
    pub async fn metric(&self, series: &str) -> Option<u64> {
        metric(self.admin(), series).await
    }
}

/// The port of the admin listener of the host that wrote this log.
pub fn port(log: &str) -> Option<u16> {
    let (before, _) = log.split_once(" has /healthz")?;
    before.rsplit_once(':')?.1.parse().ok()
}

/// Asks a listener that does not speak MCP for this path.
pub async fn get(port: u16, path: &str) -> Answer {
    Connection::open(port).await.not_mcp().send(hyper::Method::GET, path, &[], "").await
}

/// The value of this series, with its labels as they are written, at this admin listener.
pub async fn metric(port: u16, series: &str) -> Option<u64> {
    let text = get(port, "/metrics").await.text().await;
    text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' ')?.parse().ok())
}
