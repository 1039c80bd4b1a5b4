//! What one run may use: one table of limits, from which the manifest's keys, the
//! listing of `toolyard tools --limits` and the sentences of errors are made.

use crate::Manifest;
use crate::error::ManifestError;
use crate::read::{Entry, Section};
use bytesize::ByteSize;
use jiff::SignedDuration;
use std::sync::Arc;
use std::time::Duration;
use toolyard_task::tool::ReportBounds;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const SECOND: u64 = 1_000;
/// No run is longer than this, in milliseconds.
const YEAR: u64 = 365 * 24 * 3600 * SECOND;

/// What a limit counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Bytes; written as `"64MiB"`.
    Bytes,
    /// Things; written as a number.
    Count,
    /// Milliseconds; written as `"30s"`.
    Time,
}

impl Unit {
    /// A figure of this unit, for people.
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

/// One row of the table.
#[derive(Debug)]
pub struct LimitRow {
    /// The key in `[limits]` of a manifest.
    pub key: &'static str,
    /// What it counts.
    pub unit: Unit,
    /// The least that a manifest may set.
    pub least: u64,
    /// The most that it may set.
    pub most: u64,
    /// What it bounds.
    pub sentence: &'static str,
    get: fn(&Limits) -> u64,
    set: fn(&mut Limits, u64),
}

impl LimitRow {
    /// The figure that `limits` has for it.
    #[must_use]
    pub fn of(&self, limits: &Limits) -> u64 {
        (self.get)(limits)
    }

    /// The same for people, such as `64.0 MiB`.
    #[must_use]
    pub fn shown(&self, limits: &Limits) -> String {
        self.unit.show(self.of(limits))
    }

    pub(crate) fn set(&self, limits: &mut Limits, figure: u64) {
        (self.set)(limits, figure);
    }
}

impl Limits {
    /// Those of them that are kept where the run is heard.
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

/// A value of the table, as a bare number.
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
        /// What one run may use. A manifest may set each of them for its plugin, and
        /// for single tools of it.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct Limits {
            $(#[doc = $sentence] pub $field: $type,)*
        }

        impl Limits {
            /// The table, in the order in which it is shown.
            pub const ROWS: &[LimitRow] = &[
                $(LimitRow {
                    key: $key,
                    unit: Unit::$unit,
                    least: $least,
                    most: $most,
                    sentence: $sentence,
                    get: |limits| limits.$field.raw(),
                    set: |limits, raw| limits.$field = <$type as Figure>::from_raw(raw),
                },)*
            ];
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
    cpu: Duration = "cpu", Time, 30 * SECOND, 1 => YEAR,
        "Processor time: time in which the guest is computing, summed.";
    wall: Duration = "wall", Time, 600 * SECOND, 1 => YEAR,
        "Time from the beginning of the run to its end.";
    output: u64 = "output", Bytes, 8 * MIB, KIB => GIB,
        "The encoded result.";
    hostcall: u64 = "hostcall", Bytes, 16 * MIB, KIB => GIB,
        "What one call of a function of the host may pass to it.";
    handles: u32 = "handles", Count, 256, 8 => 65_536,
        "Handles at once: open files, folders, streams, sockets, requests.";
    stdio: u64 = "stdio", Bytes, 64 * KIB, 0 => GIB,
        "What is kept of standard output and error; the rest is swallowed.";
    log: u64 = "log", Bytes, 64 * KIB, 0 => GIB,
        "What `host.log` may write to the host's own log; the rest is left out.";
    log_rate: u32 = "log-rate", Count, 50, 0 => 10_000,
        "Log messages a second that leave for the client; the rest is left out.";
    progress_rate: u32 = "progress-rate", Count, 20, 1 => 1_000,
        "Progress messages a second that leave for the client; the latest wins.";
    questions: u32 = "questions", Count, 64, 0 => 1_000,
        "Questions to the client.";
    permissions: u32 = "permissions", Count, 8, 0 => 100,
        "Questions to a person for what the manifest leaves to them (`grant = \"ask\"`).";
    http_requests: u32 = "http-requests", Count, 1_000, 0 => 1_000_000,
        "Outgoing HTTP requests.";
    http_concurrent: u32 = "http-concurrent", Count, 8, 1 => 1_000,
        "Outgoing HTTP requests at once.";
    http_request: u64 = "http-request", Bytes, 8 * MIB, 0 => 4 * GIB,
        "The body of one outgoing HTTP request.";
    http_response: u64 = "http-response", Bytes, 32 * MIB, KIB => 4 * GIB,
        "The body of one response to it.";
    http_time: Duration = "http-time", Time, 60 * SECOND, 1 => YEAR,
        "One exchange, from the name's resolution to the end of the response.";
}

/// What counts over all runs of a plugin and so is no limit of a run.
const OF_PLUGINS: [&str; 2] = ["concurrency", "queue"];

impl Manifest {
    /// Reads the section of the plugin.
    pub(crate) fn read_limits(&mut self, section: &Section<'_>) -> Result<(), ManifestError> {
        let mut limits = (*self.limits).clone();
        for entry in section.entries() {
            match entry.key() {
                "concurrency" => self.concurrency = Some(count(&entry, 1)?),
                "queue" => self.queue = Some(count(&entry, 0)?),
                _ => set(&mut limits, &entry, &OF_PLUGINS)?,
            }
        }
        self.limits = Arc::new(limits);
        Ok(())
    }
}

/// Reads the section of a tool; what it does not say is as for its plugin.
pub(crate) fn of_tool(section: &Section<'_>, plugin: &Limits) -> Result<Limits, ManifestError> {
    let mut limits = plugin.clone();
    for entry in section.entries() {
        if OF_PLUGINS.contains(&entry.key()) {
            return Err(entry.error("counts all runs of the plugin; set it in its `[limits]`".to_owned()));
        }
        set(&mut limits, &entry, &[])?;
    }
    Ok(limits)
}

fn count(entry: &Entry<'_>, least: u64) -> Result<u32, ManifestError> {
    entry.number(least, u64::from(u32::MAX)).map(|number| number as u32)
}

fn set(limits: &mut Limits, entry: &Entry<'_>, others: &[&str]) -> Result<(), ManifestError> {
    let Some(row) = Limits::ROWS.iter().find(|row| row.key == entry.key()) else {
        let keys: Vec<&str> = Limits::ROWS.iter().map(|row| row.key).chain(others.iter().copied()).collect();
        return Err(entry.unknown(&keys));
    };
    row.set(limits, figure(row, entry)?);
    Ok(())
}

fn figure(row: &LimitRow, entry: &Entry<'_>) -> Result<u64, ManifestError> {
    match row.unit {
        Unit::Bytes => entry.size(row.least, row.most),
        Unit::Count => entry.number(row.least, row.most),
        Unit::Time => entry.duration().map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX)),
    }
}

#[cfg(test)]
mod tests;
