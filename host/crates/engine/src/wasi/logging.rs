//! The interface `wasi:logging/logging`: a draft of WASI that stands beside 0.2 and that
//! published components import. Its messages are log messages of the call, as those
//! of `log` in the contract are, under the same limits.
//!
//! What may not live here: what becomes of a log message.

use crate::component::inspect::LOGGING;
use crate::convert::guest_input;
use crate::guest::state::GuestState;
use toolyard_task::wire::LogLevel;
use wasmtime::StoreContextMut;
use wasmtime::component::{ComponentType, Lift, Linker};

#[expect(dead_code, reason = "each is made by lifting alone")]
#[derive(ComponentType, Lift, Debug, Clone, Copy)]
#[component(enum)]
#[repr(u8)]
enum Level {
    #[component(name = "trace")]
    Trace,
    #[component(name = "debug")]
    Debug,
    #[component(name = "info")]
    Info,
    #[component(name = "warn")]
    Warn,
    #[component(name = "error")]
    Error,
    #[component(name = "critical")]
    Critical,
}

impl From<Level> for LogLevel {
    fn from(level: Level) -> Self {
        match level {
            // MCP has nothing below it.
            Level::Trace | Level::Debug => Self::Debug,
            Level::Info => Self::Info,
            Level::Warn => Self::Warning,
            Level::Error => Self::Error,
            Level::Critical => Self::Critical,
        }
    }
}

pub(crate) fn add_to_linker(linker: &mut Linker<GuestState>) -> wasmtime::Result<()> {
    for name in LOGGING {
        linker.instance(name)?.func_wrap(
            "log",
            |store: StoreContextMut<'_, GuestState>, (level, context, message): (Level, String, String)| {
                let logger = (!context.is_empty()).then_some(context);
                store.data().report_log(level.into(), logger, guest_input::log_text(&message));
                Ok(())
            },
        )?;
    }
    Ok(())
}
