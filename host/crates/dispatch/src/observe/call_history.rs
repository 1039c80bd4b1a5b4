//! The history of plain calls, in memory, for the console. It does not exist unless something shows it.
//!
//! Not here: tasks, whose timelines are stored, and calls that were refused before a run began.

use crate::observe::Observers;
use crate::observe::call_end::CallEnd;
use crate::observe::event::{EventSink, RunEvent, RunFacts};
use crate::observe::host_call_log::HostCalls;
use parking_lot::Mutex;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use toolyard_protocol::{RawJson, Timestamp};
use toolyard_task::RunEnd;
use toolyard_task::tool::RunUsage;

/// The calls that are kept: the newest, the failed, and the slowest.
const MAX_NEWEST: usize = 2_000;
const MAX_FAILED: usize = 500;
const MAX_SLOWEST: usize = 200;
/// The most bytes of arguments, or of a result, that are kept of a call.
const MAX_CAPTURE: usize = 16 << 10;
/// The most bytes of details of all calls together. The oldest make room.
const MAX_DETAILS: usize = 16 << 20;
/// About the size of a host call, with its texts.
const HOST_CALL_BYTES: usize = 300;

/// Of which calls the arguments and results are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Capture {
    /// Of none.
    Off,
    /// Of those that failed.
    #[default]
    Errors,
    /// Of all.
    All,
}

/// A plain call that has ended.
#[derive(Debug, Clone)]
pub struct CallRecord {
    /// The number of the call, from 1, in this process.
    pub number: u64,
    /// The tool.
    pub tool: String,
    /// The principal, as a short text.
    pub principal: String,
    /// When it came in.
    pub began: Timestamp,
    /// How long it waited before its run began.
    pub waited: Duration,
    /// How long it took, the wait included.
    pub took: Duration,
    /// How it ended.
    pub end: CallEnd,
    /// The resources that the guest used.
    pub usage: Option<RunUsage>,
}

/// The parts of a call that need more memory. They are kept for a shorter time.
#[derive(Debug, Clone, Default)]
pub struct CallDetails {
    /// Requests, sockets and waits of the guest.
    pub host_calls: HostCalls,
    /// The arguments.
    pub arguments: Option<CapturedText>,
    /// The result, or the error.
    pub result: Option<CapturedText>,
}

/// A text that may have been clipped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CapturedText {
    /// The text.
    pub text: String,
    /// Whether this is all of it.
    pub is_whole: bool,
}

/// Which calls a list shows, and in which order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CallOrder {
    /// All, the newest first.
    #[default]
    Newest,
    /// The calls that failed, the newest first.
    Failed,
    /// The slowest first.
    Slowest,
}

/// The place of a call in a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallPosition {
    /// How long it took.
    pub took: Duration,
    /// The number of the call.
    pub number: u64,
}

impl CallRecord {
    /// Whether it has failed.
    #[must_use]
    pub const fn has_failed(&self) -> bool {
        matches!(self.end, CallEnd::ToolError | CallEnd::Error(_) | CallEnd::Stopped)
    }

    /// The place of the call in lists.
    #[must_use]
    pub const fn position(&self) -> CallPosition {
        CallPosition { took: self.took, number: self.number }
    }
}

impl CallDetails {
    fn bytes(&self) -> usize {
        let text = |text: &Option<CapturedText>| text.as_ref().map_or(0, |text| text.text.len());
        let host_calls = self.host_calls.listed.len() * HOST_CALL_BYTES;
        host_calls + text(&self.arguments) + text(&self.result)
    }
}

impl CapturedText {
    fn of(text: &str) -> Self {
        let end = text.floor_char_boundary(MAX_CAPTURE);
        Self { text: text[..end].to_owned(), is_whole: end == text.len() }
    }
}

/// The history of plain calls of this process.
#[derive(Debug, Default)]
pub struct CallHistory {
    capture: Capture,
    rings: Mutex<Rings>,
}

#[derive(Debug, Default)]
struct Rings {
    /// The number of calls so far.
    count: u64,
    newest: VecDeque<Arc<CallRecord>>,
    failed: VecDeque<Arc<CallRecord>>,
    slowest: BTreeMap<(Duration, u64), Arc<CallRecord>>,
    details: VecDeque<(u64, Arc<CallDetails>)>,
    details_bytes: usize,
}

impl CallHistory {
    pub(crate) fn new(capture: Capture) -> Self {
        Self { capture, rings: Mutex::default() }
    }

    fn push(&self, mut record: CallRecord, details: Option<CallDetails>) {
        let details = details.map(|details| (details.bytes(), Arc::new(details)));
        let mut rings = self.rings.lock();
        let rings = &mut *rings;
        rings.count += 1;
        record.number = rings.count;
        let record = Arc::new(record);
        if record.has_failed() {
            push_bounded(&mut rings.failed, record.clone(), MAX_FAILED);
        }
        let is_slow = match rings.slowest.first_key_value() {
            Some(((fastest, _), _)) => rings.slowest.len() < MAX_SLOWEST || record.took > *fastest,
            None => true,
        };
        if is_slow {
            rings.slowest.insert((record.took, record.number), record.clone());
            if rings.slowest.len() > MAX_SLOWEST {
                rings.slowest.pop_first();
            }
        }
        let number = record.number;
        push_bounded(&mut rings.newest, record, MAX_NEWEST);
        if let Some((bytes, details)) = details {
            rings.details_bytes += bytes;
            rings.details.push_back((number, details));
            while rings.details_bytes > MAX_DETAILS
                && let Some((_, oldest)) = rings.details.pop_front()
            {
                rings.details_bytes -= oldest.bytes();
            }
        }
    }

    /// The calls after this one, at most `limit`, and whether there are more.
    #[must_use]
    pub fn list(
        &self,
        order: CallOrder,
        tool: Option<&str>,
        after: Option<CallPosition>,
        limit: usize,
    ) -> (Vec<Arc<CallRecord>>, bool) {
        let all: Vec<Arc<CallRecord>> = {
            let rings = self.rings.lock();
            match order {
                CallOrder::Newest => rings.newest.iter().rev().cloned().collect(),
                CallOrder::Failed => rings.failed.iter().rev().cloned().collect(),
                CallOrder::Slowest => rings.slowest.values().rev().cloned().collect(),
            }
        };
        let is_after = |record: &CallRecord| match (after, order) {
            (None, _) => true,
            (Some(after), CallOrder::Slowest) => (record.took, record.number) < (after.took, after.number),
            (Some(after), _) => record.number < after.number,
        };
        let mut found: Vec<_> = all
            .into_iter()
            .filter(|record| is_after(record) && tool.is_none_or(|tool| record.tool == tool))
            .take(limit.saturating_add(1))
            .collect();
        let more = found.len() > limit;
        found.truncate(limit);
        (found, more)
    }

    /// A call and its details, if they are still kept.
    #[must_use]
    pub fn get(&self, number: u64) -> Option<(Arc<CallRecord>, Option<Arc<CallDetails>>)> {
        let rings = self.rings.lock();
        let find = |ring: &VecDeque<Arc<CallRecord>>| {
            ring.binary_search_by_key(&number, |record| record.number).ok().map(|at| ring[at].clone())
        };
        let slow = || rings.slowest.values().find(|record| record.number == number).cloned();
        let record = find(&rings.newest).or_else(|| find(&rings.failed)).or_else(slow)?;
        let details = rings.details.binary_search_by_key(&number, |(number, _)| *number);
        Some((record, details.ok().map(|at| rings.details[at].1.clone())))
    }
}

fn push_bounded(ring: &mut VecDeque<Arc<CallRecord>>, record: Arc<CallRecord>, most: usize) {
    if ring.len() == most {
        ring.pop_front();
    }
    ring.push_back(record);
}

impl Observers {
    /// Keeps a history of plain calls from now on, for the console. The first setting stays.
    pub fn keep_history(&self, capture: Capture) {
        self.history.get_or_init(|| Arc::new(CallHistory::new(capture)));
    }

    /// An entry for a call that comes in now, if there is a history.
    pub(crate) fn begin_history(&self, now: impl FnOnce() -> Timestamp) -> Option<Box<HistoryEntry>> {
        let history = self.history.get()?.clone();
        let began = (now(), Instant::now());
        Some(Box::new(HistoryEntry { history, began, run: Mutex::default() }))
    }
}

/// The entry of a call under way.
pub(crate) struct HistoryEntry {
    history: Arc<CallHistory>,
    began: (Timestamp, Instant),
    run: Mutex<EntryRun>,
}

#[derive(Default)]
struct EntryRun {
    started: Option<Instant>,
    arguments: Option<RawJson>,
}

impl EventSink for HistoryEntry {
    fn receive(&self, run: &RunFacts<'_>, event: RunEvent<'_>) {
        match event {
            RunEvent::Started(arguments) => {
                let arguments = (self.history.capture != Capture::Off).then(|| arguments.clone());
                *self.run.lock() = EntryRun { started: Some(Instant::now()), arguments };
            }
            RunEvent::Ended { end, called, host_calls, .. } if run.task.is_none() => {
                self.end(run, (called, end), host_calls);
            }
            _ => {}
        }
    }
}

impl HistoryEntry {
    /// The call has ended, and was never a task.
    fn end(&self, run: &RunFacts<'_>, (called, end): (CallEnd, &RunEnd), host_calls: &HostCalls) {
        let EntryRun { started, arguments } = std::mem::take(&mut *self.run.lock());
        let (began, since) = self.began;
        let took = since.elapsed();
        let waited = started.map_or(took, |started| started.duration_since(since));
        let record = CallRecord {
            number: 0,
            tool: run.tool.unwrap_or_default().to_owned(),
            principal: run.principal.map(ToString::to_string).unwrap_or_default(),
            began,
            waited,
            took,
            end: called,
            usage: run.usage.copied(),
        };
        let is_captured = match self.history.capture {
            Capture::Off => false,
            Capture::Errors => record.has_failed(),
            Capture::All => true,
        };
        let has_host_calls = !host_calls.listed.is_empty();
        let details = (is_captured || has_host_calls).then(|| CallDetails {
            host_calls: host_calls.clone(),
            arguments: arguments.filter(|_| is_captured).map(|json| CapturedText::of(json.as_str())),
            result: is_captured.then(|| captured_end(end)).flatten(),
        });
        self.history.push(record, details);
    }
}

fn captured_end(end: &RunEnd) -> Option<CapturedText> {
    match end {
        RunEnd::Result { result, .. } => Some(CapturedText::of(result.as_str())),
        RunEnd::Error(error) => Some(CapturedText::of(RawJson::of(error).as_str())),
        RunEnd::Stopped => None,
    }
}

#[cfg(test)]
mod tests;
