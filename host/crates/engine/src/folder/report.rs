//! Reports on the files of the folder, for the operator and the log.

use crate::folder::grant_summary::GrantSummary;
use crate::folder::serving::{FileOutcome, Served};
use crate::folder::snapshot::{PluginReport, PluginState};
use std::sync::Arc;
use toolyard_task::provider::ProviderSpec;

/// The report on one file.
pub(crate) fn of(file: &str, outcome: FileOutcome) -> PluginReport {
    let FileOutcome { served, left_out, state } = outcome;
    let served = served.as_deref();
    let plugin = served.map(|served| &served.plugin);
    let tools = || served.into_iter().flat_map(Served::tools);
    let provider = served.and_then(|served| served.provider.as_ref());
    let offers = |what: fn(&ProviderSpec) -> bool| provider.is_some_and(|provider| what(&provider.spec));
    PluginReport {
        file: file.to_owned(),
        digest: plugin.map(|plugin| plugin.base.component.digest.clone()),
        tools: tools().map(|tool| tool.spec.name().to_owned()).collect(),
        limits: tools().map(|tool| tool.limits.clone()).collect(),
        grants: plugin.map(|plugin| Arc::new(GrantSummary::of(&plugin.base))),
        concurrency: plugin.and_then(|plugin| plugin.base.manifest.concurrency),
        queue: plugin.and_then(|plugin| plugin.base.manifest.queue),
        prompts: provider
            .into_iter()
            .flat_map(|provider| &provider.spec.prompts)
            .map(|prompt| prompt.name.clone())
            .collect(),
        has_resources: offers(|spec| spec.has_resources),
        has_completion: offers(|spec| spec.has_completion),
        left_out,
        state,
        compiled_in: plugin.and_then(|plugin| plugin.base.component.compiled_in),
    }
}

/// Logs a report that differs from the previous one.
pub(crate) fn log(report: &PluginReport) {
    let PluginReport { file, tools, prompts, has_resources, left_out, state, .. } = report;
    for why in left_out {
        tracing::warn!(
            event = "plugin.name_left_out", plugin = file, reason = %why,
            "name of a plugin left out"
        );
    }
    match state {
        PluginState::Serving => {
            let (tools, prompts) = (tools.len(), prompts.len());
            tracing::info!(
                event = "plugin.loaded",
                plugin = file,
                tools,
                prompts,
                resources = has_resources,
                "plugin loaded"
            );
        }
        PluginState::KeptPrevious { why } => {
            tracing::warn!(
                event = "plugin.previous_kept", plugin = file, reason = %why,
                "new version of a plugin refused; the previous one stays"
            )
        }
        PluginState::Refused { why } => tracing::warn!(
            event = "plugin.refused", plugin = file, reason = %why,
            "plugin refused"
        ),
        PluginState::Disabled => {
            tracing::info!(event = "plugin.disabled", plugin = file, "plugin disabled by its manifest")
        }
    }
}
