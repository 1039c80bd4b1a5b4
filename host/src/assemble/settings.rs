//! The settings of the parts, from the configuration.

use crate::config::Config;
use std::time::Duration;
use toolyard_dispatch::rules::AccessRules;
use toolyard_dispatch::{Bounds, MAX_PAGE, Policy, Rates, Settings, Weights};
use toolyard_engine::MAX_FILES;
use toolyard_store::TimelineBounds;

/// The time after which the host cuts an HTTP connection whose client reads nothing. A slow client reads
/// something each minute. A client that reads nothing is gone, and resumes its stream later.
const WRITE_TIME: Duration = Duration::from_secs(60);

/// How long a question of a task waits for the client to request the task's result. After that the host sends
/// it on any open stream. Clients that poll ask about once a second (`tasks.poll-interval`).
const QUESTION_SETTLE: Duration = Duration::from_millis(1_500);

/// The dispatcher's settings. `capacity` is the number of runs that the machine can execute at once.
pub fn dispatch_settings(config: &Config, capacity: u32) -> Settings {
    let limits = &config.limits;
    Settings {
        tasks: limits.tasks,
        ttl_default_ms: milliseconds(limits.ttl_default),
        ttl_cap_ms: milliseconds(limits.ttl_cap),
        poll_interval_ms: milliseconds(limits.poll_interval),
        admission: Bounds {
            running: limits.running.min(capacity),
            running_per_principal: limits.running_per_principal,
            waiting_per_principal: limits.waiting_per_principal,
            parked_per_principal: limits.parked_per_principal,
        },
        live_tasks: limits.live_tasks,
        kept_bytes_per_owner: limits.kept_bytes_per_principal.as_u64(),
        kept_bytes: limits.kept_bytes.as_u64(),
        journal_bytes: limits.journals.as_u64(),
        question_ms: milliseconds(limits.question_wait),
        question_settle_ms: milliseconds(QUESTION_SETTLE),
        approval_ms: milliseconds(limits.approval_wait),
        inline_for_ms: milliseconds(limits.inline_for),
        bridge: config.bridge.clone(),
        tool_search: limits.tool_search,
        queue_when_busy: limits.queue_when_busy,
        attempts: limits.attempts,
        rerun_after_ms: milliseconds(limits.rerun_after),
        adopts: true,
        shares: limits.share,
        page: MAX_PAGE,
        sessions: limits.sessions,
        session_idle_ms: milliseconds(limits.session_idle),
        log_rate: limits.log_rate,
    }
}

/// The access rules, rate limits and weights.
pub fn policy(config: &Config) -> anyhow::Result<Policy> {
    let limits = &config.limits;
    let rates = Rates {
        requests: limits.rate_requests,
        calls: limits.rate_calls,
        creation: limits.rate_creation,
        polling: limits.rate_polling,
        failed_lookups: limits.rate_failed_lookups,
        sessions: limits.rate_sessions,
        local: limits.rate_local,
    };
    let weights = Weights::new(&config.weights).map_err(anyhow::Error::msg)?;
    Ok(Policy::new(AccessRules::new(config.rules.clone())?, &rates).weighing(weights))
}

pub(super) fn wire_settings(config: &Config) -> toolyard_transport::Settings {
    let limits = &config.limits;
    let count = |number: u32| number as usize;
    toolyard_transport::Settings {
        message_bytes: limits.message.as_u64() as usize,
        connections: connections(limits.connections),
        head_time: limits.head_time,
        body_time: limits.body_time,
        write_time: WRITE_TIME,
        requests_per_session: count(limits.requests_per_session),
        subscriptions: count(limits.subscriptions),
        cache: limits.cache,
        stream_after: limits.stream_after,
        keep_alive: limits.keep_alive,
    }
}

/// How much the store keeps of timelines.
pub(super) fn timelines(config: &Config) -> TimelineBounds {
    TimelineBounds { keep_ms: milliseconds(config.limits.timeline_keep), ..TimelineBounds::default() }
}

/// Clients get half of the descriptors at most; the host needs the others for its store and its plugins.
fn connections(wanted: u32) -> usize {
    let wanted = wanted as usize;
    let half = crate::system::descriptor_limit().and_then(|most| usize::try_from(most / 2).ok());
    let most = half.unwrap_or(wanted);
    if most < wanted {
        tracing::warn!(
            event = "http.connections_limited",
            setting = "wire.connections",
            wanted,
            limit = most,
            "descriptors of this process limit the connections"
        );
    }
    wanted.min(most)
}

/// Components get a quarter of the descriptors at most: each loaded one keeps one open.
pub(super) fn plugin_files() -> usize {
    let most = crate::system::descriptor_limit().and_then(|most| usize::try_from(most / 4).ok());
    most.map_or(MAX_FILES, |most| most.min(MAX_FILES))
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
