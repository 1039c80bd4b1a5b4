//! The admin endpoints of a host, for its operator (`admin.listen`).

use crate::Host;
use crate::http::Connection;

impl Host {
    /// The port of the admin listener.
    ///
    /// # Panics
    /// If the host runs without `admin.listen`.
    pub fn admin(&self) -> u16 {
        let log = self.log();
        let (before, _) = log.split_once(" has /healthz").expect("an admin listener");
        before.rsplit_once(':').and_then(|(_, port)| port.parse().ok()).expect("a port")
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
        let mut connection = Connection::open(self.admin()).await.not_mcp();
        let answer = connection.send(hyper::Method::GET, "/metrics", &[], "").await;
        let text = String::from_utf8(answer.bytes().await.to_vec()).expect("text");
        text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' ')?.parse().ok())
    }
}
