//! The limits of one run. The manifest's keys, the output of `toolyard tools --limits` and the
//! error messages all come from this single table.

use crate::deserializer::Error;
use crate::values::{Bytes, Count, Time};
use bytesize::ByteSize;
use jiff::SignedDuration;
use serde::Deserialize;
use std::time::Duration;
use toml::Spanned;
use toolyard_task::tool::ReportBounds;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const SECOND: u64 = 1_000;
/// The maximum duration of a run, in milliseconds.
const MAX_RUN_MS: u64 = 365 * 24 * 3600 * SECOND;

/// The unit of a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Bytes; written as `"64MiB"`.
    Bytes,
    /// Items; written as a number.
    Count,
    /// Milliseconds; written as `"30s"`.
    Time,
}

impl Unit {
    /// Formats a figure of this unit.
    #[must_use]
    pub fn show(self, figure: u64) -> String {
        match self {
            Self::Bytes => ByteSize::b(figure).display().iec().to_string(),
            Self::Count => figure.to_string(),
            Self::Time => i64::try_from(figure).map_or_else(
                |_| format!("{figure}ms"),
                |ms| format!("{:#}", SignedDuration::from_millis(ms)),
            ),
        }
    }
}

/// A row of the table.
#[derive(Debug)]
pub struct LimitRow {
    /// The key in `[limits]` of a manifest.
    pub key: &'static str,
    /// The unit of the limit.
    pub unit: Unit,
    /// The smallest value that a manifest may set.
    pub least: u64,
    /// The largest value that a manifest may set.
    pub most: u64,
    /// A description of the limited quantity.
    pub sentence: &'static str,
    get: fn(&Limits) -> u64,
    set: fn(&mut Limits, u64),
}

impl LimitRow {
    /// The value of this limit in `limits`.
    #[must_use]
    pub fn of(&self, limits: &Limits) -> u64 {
        (self.get)(limits)
    }

    /// Sets this limit in `limits`, at most to the largest value that a manifest may set.
    pub fn set(&self, limits: &mut Limits, figure: u64) {
        (self.set)(limits, figure.min(self.most));
    }

    /// The value of this limit as text, such as `64.0 MiB`.
    #[must_use]
    pub fn shown(&self, limits: &Limits) -> String {
        self.unit.show(self.of(limits))
    }
}

impl Limits {
    /// The limits that apply to the reports of a run.
    #[must_use]
    pub const fn reports(&self) -> ReportBounds {
        ReportBounds {
            log_bytes: self.log,
            logs_per_second: self.log_rate,
            progress_per_second: self.progress_rate,
            questions: self.questions,
            permissions: self.permissions,
        }
    }
}

/// Converts a value of the table to and from a bare number.
trait Figure {
    fn from_raw(raw: u64) -> Self;
    fn raw(&self) -> u64;
}

impl Figure for u64 {
    fn from_raw(raw: u64) -> Self {
        raw
    }

    fn raw(&self) -> u64 {
        *self
    }
}

impl Figure for u32 {
    fn from_raw(raw: u64) -> Self {
        Self::try_from(raw).unwrap_or(Self::MAX)
    }

    fn raw(&self) -> u64 {
        u64::from(*self)
    }
}

impl Figure for Duration {
    fn from_raw(raw: u64) -> Self {
        Self::from_millis(raw)
    }

    fn raw(&self) -> u64 {
        u64::try_from(self.as_millis()).unwrap_or(u64::MAX)
    }
}

macro_rules! limits {
    ($($field:ident: $type:ty = $key:literal, $unit:ident, $default:expr, $least:expr => $most:expr, $sentence:literal;)*) => {
        /// The limits of one run. A manifest may set each of them for its plugin, and for single
        /// tools of it.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct Limits {
            $(#[doc = $sentence] pub $field: $type,)*
        }

        impl Limits {
            /// The table, in display order.
            pub const ROWS: &[LimitRow] = &[
                $(LimitRow {
                    key: $key,
                    unit: Unit::$unit,
                    least: $least,
                    most: $most,
                    sentence: $sentence,
                    get: |limits| limits.$field.raw(),
                    set: |limits, figure| limits.$field = Figure::from_raw(figure),
                },)*
            ];
        }

        /// `[limits]` of a plugin or of a tool, as in the text.
        #[derive(Deserialize, Default)]
        #[serde(deny_unknown_fields, default)]
        pub(crate) struct LimitsSection {
            $(#[serde(rename = $key)] $field: Option<$unit<{ $least }, { $most }>>,)*
            concurrency: Option<Spanned<Count<1, { u32::MAX as u64 }>>>,
            queue: Option<Spanned<Count<0, { u32::MAX as u64 }>>>,
        }

        impl LimitsSection {
            /// The limits of the section, completed with those of `others`.
            pub fn over(&self, others: &Limits) -> Limits {
                Limits {
                    $($field: self.$field.as_ref().map_or(others.$field, |figure| Figure::from_raw(figure.0)),)*
                }
            }
        }

        impl Default for Limits {
            fn default() -> Self {
                Self { $($field: <$type as Figure>::from_raw($default),)* }
            }
        }
    };
}

limits! {
    memory: u64 = "memory", Bytes, 64 * MIB, 64 * KIB => 4 * GIB,
        "Linear memory, over all memories of the run.";
    table: u64 = "table", Count, 100_000, 1 => 100_000,
        "Elements of tables, over all tables of the run.";
    instances: u32 = "instances", Count, 100, 1 => 200,
        "Core instances that the component is made of.";
    cpu: Duration = "cpu", Time, 30 * SECOND, 1 => MAX_RUN_MS,
        "Processor time: time in which the guest is computing, summed.";
    wall: Duration = "wall", Time, 600 * SECOND, 1 => MAX_RUN_MS,
        "Time from the beginning of the run to its end.";
    output: u64 = "output", Bytes, 8 * MIB, KIB => GIB,
        "The encoded result.";
    hostcall: u64 = "hostcall", Bytes, 16 * MIB, KIB => GIB,
        "Bytes that one call of a host function may pass to the host.";
    handles: u32 = "handles", Count, 256, 8 => 65_536,
        "Handles at once: open files, folders, streams, sockets, requests.";
    stdio: u64 = "stdio", Bytes, 64 * KIB, 0 => GIB,
        "Bytes of standard output and error that the host keeps; it drops the rest.";
    log: u64 = "log", Bytes, 64 * KIB, 0 => GIB,
        "Bytes that `host.log` may write to the host's own log; the rest is left out.";
    log_rate: u32 = "log-rate", Count, 50, 0 => 10_000,
        "Log messages a second that leave for the client; the rest is left out.";
    progress_rate: u32 = "progress-rate", Count, 20, 1 => 1_000,
        "Progress messages a second that leave for the client; the latest wins.";
    questions: u32 = "questions", Count, 64, 0 => 1_000,
        "Questions to the client.";
    permissions: u32 = "permissions", Count, 8, 0 => 100,
        "Questions to a person for what the manifest leaves to them (`grant = \"ask\"`).";
    journal: u64 = "journal", Bytes, 16 * MIB, 64 * KIB => GIB,
        "The journal of a task that resumes; a task that needs a longer one goes on, and no longer resumes.";
    http_requests: u32 = "http-requests", Count, 1_000, 0 => 1_000_000,
        "Outgoing HTTP requests.";
    http_concurrent: u32 = "http-concurrent", Count, 8, 1 => 1_000,
        "Outgoing HTTP requests at once.";
    http_request: u64 = "http-request", Bytes, 8 * MIB, 0 => 4 * GIB,
        "The body of one outgoing HTTP request.";
    http_response: u64 = "http-response", Bytes, 32 * MIB, KIB => 4 * GIB,
        "The body of one response to it.";
    http_time: Duration = "http-time", Time, 60 * SECOND, 1 => MAX_RUN_MS,
        "One exchange, from the name's resolution to the end of the response.";
}

/// `concurrency` and `queue` apply to all runs of a plugin together, so they are not limits of a
/// run.
impl LimitsSection {
    /// The maximum number of concurrent runs of the plugin.
    pub fn concurrency(&self) -> Option<u32> {
        self.concurrency.as_ref().map(|count| Figure::from_raw(count.get_ref().0))
    }

    /// The maximum number of waiting tasks of the plugin.
    pub fn queue(&self) -> Option<u32> {
        self.queue.as_ref().map(|count| Figure::from_raw(count.get_ref().0))
    }

    /// The limits of a tool whose plugin has these limits.
    pub fn of_tool(&self, plugin: &Limits) -> Result<Limits, Error> {
        const WHAT: &str = "counts all runs of the plugin; set it in its `[limits]`";
        match (&self.concurrency, &self.queue) {
            (Some(count), _) => Err(Error::at(count, WHAT)),
            (_, Some(count)) => Err(Error::at(count, WHAT)),
            (None, None) => Ok(self.over(plugin)),
        }
    }
}

#[cfg(test)]
mod tests;
