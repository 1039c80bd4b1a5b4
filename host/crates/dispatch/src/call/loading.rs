//! Calls of tools whose components are being compiled.

use crate::application::Dispatch;
use crate::call::tools_call::ToolCall;
use crate::client::client_channel::Notice;
use std::time::Duration;
use toolyard_task::wire::Progress;

/// How long a call waits for a tool that is being compiled: less than the 60 s of common clients.
const MAX_WAIT_FOR_TOOL: Duration = Duration::from_secs(50);
/// The time between two progress messages to its client meanwhile.
const WAIT_BEAT: Duration = Duration::from_secs(2);

impl Dispatch {
    /// Waits while the tool is unknown because components are being compiled. Tells the client meanwhile that the call
    /// goes on.
    pub(super) async fn wait_for_tool(&self, call: &ToolCall) {
        let name = &call.params.name;
        let is_known = || {
            let offer = self.deps.catalog.snapshot();
            offer.tool(name).is_some() || self.host_tool(&offer, name, &call.terms).is_some()
        };
        let mut loading = self.deps.catalog.loading();
        let compiled = async {
            while !loading.borrow_and_update().is_empty() && !is_known() {
                // The sender lives as long as the catalog.
                drop(loading.changed().await);
            }
        };
        let told = async {
            let Some(token) = &call.params.progress_token else { return std::future::pending().await };
            let mut beats = 0_u32;
            loop {
                tokio::time::sleep(WAIT_BEAT).await;
                beats += 1;
                // Small, because the guest's own progress comes after it and must be greater.
                let message = Some("The tool is being compiled".to_owned());
                let progress = Progress { progress: f64::from(beats) * 1e-6, total: None, message };
                call.channel.notify(None, Notice::Progress { token: token.clone(), progress });
            }
        };
        tokio::select! {
            () = compiled => {}
            () = told => {}
            () = call.stop.wait() => {}
            () = self.deps.slots.closing.wait() => {}
            () = tokio::time::sleep(MAX_WAIT_FOR_TOOL) => {}
        }
    }
}
