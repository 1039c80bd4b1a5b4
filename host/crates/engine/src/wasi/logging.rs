//! The interface `wasi:logging/logging`, a draft outside WASI 0.2 that published components import.
//! Its messages are log messages of the call, like those of the contract's `log`, and have the same
//! limits.
//!
//! The processing of a log message does not belong here.

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
            // MCP has no lower level.
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
