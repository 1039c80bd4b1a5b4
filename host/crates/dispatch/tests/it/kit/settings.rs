//! The settings that the tests of the dispatcher begin with.

use toolyard_dispatch::{Bounds, Settings};

/// Room enough, and times that nothing waits for.
pub const SETTINGS: Settings = Settings {
    tasks: true,
    ttl_default_ms: 3_600_000,
    ttl_cap_ms: 86_400_000,
    poll_interval_ms: 1000,
    admission: Bounds { running: 100, running_per_principal: 100, waiting_per_principal: 100 },
    live_tasks: 1000,
    kept_bytes_per_owner: 1 << 30,
    kept_bytes: 8 << 30,
    question_ms: 60_000,
    question_settle_ms: 0,
    state_ms: 3_600_000,
    inline_for_ms: 2_000,
    attempts: 3,
    rerun_after_ms: 10,
    adopts: true,
    shares: false,
    related_task: true,
    page: 100,
    list_ms: 2_000,
    sessions: 100,
    session_idle_ms: 3_600_000,
};
