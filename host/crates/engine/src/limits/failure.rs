//! The failure of a run, described for the model: the limit that was reached, with its value and
//! its key in the manifest, or how the guest crashed. The description never contains paths of the
//! host or addresses.

use crate::limits::memory_limiter::DeniedGrowth;
use bytesize::ByteSize;
use jiff::SignedDuration;
use std::time::Duration;
use toolyard_manifest::Limits;
use toolyard_task::NotPermitted;
use toolyard_task::wire::visible::clip;
use wasmtime::Trap;
use wasmtime::component::ResourceTableError;

/// The failure of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Failure {
    /// A growth was refused, and the guest gave up.
    DeniedGrowth(DeniedGrowth, String),
    Cpu,
    Wall,
    /// The host has too little memory left to check data that it received.
    NoMemory,
    Output,
    Hostcall,
    /// The handle table of the run is full.
    Handles,
    /// The component consists of too many core instances.
    Instances,
    Stack,
    /// The guest called `exit`.
    Exit(i32),
    /// The guest crashed.
    Trap(String),
    /// The result of the guest does not follow the contract.
    Malformed(String),
    /// The folder granted under this name is no longer in its place.
    Folder(String),
    /// The run was not started, because the user did not permit an access.
    NotPermitted(NotPermitted),
    /// The run could not be started, or the host failed.
    Host,
}

fn bytes(bytes: u64) -> String {
    ByteSize::b(bytes).display().iec().to_string()
}

/// Describes an event, with the limit that was reached and its key.
pub(crate) fn limit(limits: &Limits, key: &'static str, what: &str) -> String {
    let row = Limits::ROWS.iter().find(|row| row.key == key);
    let value = row.map(|row| row.shown(limits)).unwrap_or_default();
    format!("{what}; the limit is {value} (`limits.{key}`)")
}

impl DeniedGrowth {
    /// Names the limit with its value and its key.
    pub fn sentence(self, limits: &Limits) -> String {
        match self {
            Self::Memory => format!("memory limit of {} reached (`limits.memory`)", bytes(limits.memory)),
            Self::Table => format!("table limit of {} elements reached (`limits.table`)", limits.table),
            Self::Host(most) => format!(
                "the {} of memory that this host has for all guests are used up (`calls.memory`)",
                bytes(most)
            ),
        }
    }
}

impl Failure {
    /// Determines why wasmtime ended a run, before or after the guest's function was `entered`.
    pub fn of(error: &wasmtime::Error, denied: Option<DeniedGrowth>, entered: bool) -> Self {
        if let Some(exit) = error.downcast_ref::<wasmtime_wasi::I32Exit>() {
            return denied.map_or(Self::Exit(exit.0), |denied| Self::DeniedGrowth(denied, "exit".to_owned()));
        }
        if let Some(trap) = error.downcast_ref::<Trap>() {
            let text = trap.to_string();
            let text = text.strip_prefix("wasm trap: ").unwrap_or(&text).to_owned();
            return match (trap, denied) {
                (Trap::StackOverflow, _) => Self::Stack,
                (_, Some(denied)) => Self::DeniedGrowth(denied, text),
                (_, None) => Self::Trap(text),
            };
        }
        let text = error.root_cause().to_string();
        // wasmtime does not export this error's type.
        if text.contains("fuel allocated for hostcalls") {
            return Self::Hostcall;
        }
        let is_full = matches!(error.downcast_ref(), Some(ResourceTableError::Full));
        // Nor does it export the error types of the store's own handle table and of the instance
        // count.
        if is_full || text.contains("store handle limit exceeded") {
            return Self::Handles;
        }
        if text.contains("resource limit exceeded: instance count") {
            return Self::Instances;
        }
        match denied {
            Some(denied) if entered => Self::DeniedGrowth(denied, clip(&text, 200)),
            // Its first memory is larger than the limit.
            Some(denied) => Self::DeniedGrowth(denied, "no instance".to_owned()),
            // An invalid UTF-8 string, too many handles, and similar errors.
            None if entered => Self::Trap(clip(&text, 200)),
            None => Self::Host,
        }
    }

    /// Adds earlier refusals if they may be the cause: a guest that traps cannot give a reason
    /// itself.
    pub fn after(self, refused: &[String]) -> Self {
        match self {
            Self::Trap(how) if !refused.is_empty() => {
                Self::Trap(format!("{how}; before: {}", refused.join("; ")))
            }
            other => other,
        }
    }

    /// Describes the failure. `subject` names the object of the request, such as ``tool `x` ``.
    pub fn sentence(&self, subject: &str, limits: &Limits) -> String {
        let time = |time: Duration| {
            SignedDuration::try_from(time).map_or_else(|_| format!("{time:?}"), |time| format!("{time:#}"))
        };
        match self {
            Self::DeniedGrowth(denied, how) => {
                format!("The {subject} was stopped: {}, then it ended with: {how}", denied.sentence(limits))
            }
            Self::Cpu => format!(
                "The {subject} was stopped: processor time limit of {} reached (`limits.cpu`)",
                time(limits.cpu)
            ),
            Self::NoMemory => {
                format!("The {subject} was stopped: not enough memory is left for it (`calls.memory`)")
            }
            Self::Wall => {
                format!(
                    "The {subject} was stopped: time limit of {} reached (`limits.wall`)",
                    time(limits.wall)
                )
            }
            Self::Output => format!(
                "The {subject} gave a result above the output limit of {} (`limits.output`)",
                bytes(limits.output)
            ),
            Self::Hostcall => format!(
                "The {subject} was stopped: it passed more than {} to the host at once (`limits.hostcall`)",
                bytes(limits.hostcall)
            ),
            Self::Handles => format!(
                "The {subject} was stopped: it held more than {} handles at once (`limits.handles`)",
                limits.handles
            ),
            Self::Instances => format!(
                "The {subject} could not be run: it is made of more than {} core instances (`limits.instances`)",
                limits.instances
            ),
            Self::Stack => format!("The {subject} trapped: call stack exhausted"),
            Self::Exit(code) => {
                format!("The {subject} left by `exit` with the code {code}, without a result")
            }
            Self::Trap(how) => format!("The {subject} trapped: {how}"),
            Self::Malformed(what) => format!("The {subject} gave a malformed result: {what}"),
            Self::Folder(guest) => {
                format!(
                    "The {subject} could not be run: the folder granted as `{guest}` was moved, replaced or \
                     removed (`fs.\"{guest}\"`)"
                )
            }
            Self::NotPermitted(refused) => format!("The {subject} was not run: {refused}"),
            Self::Host => format!("The {subject} could not be run; the host's log says why"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cause_is_told_from_what_followed() {
        let of = |trap: Trap, denied| Failure::of(&trap.into(), denied, true);
        assert_eq!(of(Trap::StackOverflow, Some(DeniedGrowth::Memory)), Failure::Stack);
        assert!(matches!(
            of(Trap::UnreachableCodeReached, Some(DeniedGrowth::Memory)),
            Failure::DeniedGrowth(DeniedGrowth::Memory, _)
        ));
        assert!(matches!(of(Trap::UnreachableCodeReached, None), Failure::Trap(_)));
        let other = wasmtime::format_err!("/home/somebody/secret");
        assert_eq!(Failure::of(&other, None, false), Failure::Host, "not for the model");
    }

    #[test]
    fn each_limit_names_its_value_and_its_key() {
        let limits = Limits::default();
        for (failure, says) in [
            (Failure::DeniedGrowth(DeniedGrowth::Memory, "x".into()), ["64.0 MiB", "`limits.memory`"]),
            (Failure::DeniedGrowth(DeniedGrowth::Table, "x".into()), ["100000", "`limits.table`"]),
            (Failure::Cpu, ["30s", "`limits.cpu`"]),
            (Failure::Wall, ["10m", "`limits.wall`"]),
            (Failure::Output, ["8.0 MiB", "`limits.output`"]),
            (Failure::Hostcall, ["16.0 MiB", "`limits.hostcall`"]),
            (Failure::Handles, ["256", "`limits.handles`"]),
            (Failure::Instances, ["100", "`limits.instances`"]),
            (Failure::Folder("/d".into()), ["moved", "`fs.\"/d\"`"]),
        ] {
            let sentence = failure.sentence("tool `t`", &limits);
            for word in says {
                assert!(sentence.contains(word), "{sentence}");
            }
        }
    }
}
