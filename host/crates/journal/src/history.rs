//! The history of a run: one line for each entry, for people and as JSON.

mod fields;
mod units;

use crate::begin::Begin;
use crate::chunk::{Chunk, Frame};
use crate::entry::{DecidedBy, Entry, EntryKind, JournalLane, QuestionName};
use crate::error::DecodeError;
use crate::response::{Response, ResponseOutcome};
use crate::words;
use serde_json::{Map, Value};
use std::collections::HashMap;
use std::fmt;
use toolyard_protocol::{Timestamp, visible};
use units::{ByteCount, Span};

/// How much of the entries the JSON form shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Detail {
    /// Names and sizes.
    #[default]
    Summary,
    /// Results, answers, headers and bodies too.
    Full,
}

/// Reads the chunks of a journal in their order, from any of them on. The numbers of entries are right if it gets
/// the first chunk, or the number of entries before.
#[derive(Debug, Default)]
pub struct History {
    detail: Detail,
    chunks: u32,
    summary: HistorySummary,
    /// The step of the clock in milliseconds.
    clock_step: u64,
    /// When a request was stored, by its number.
    requested: HashMap<u32, u64>,
    /// When the questions were stored that wait for their answers.
    asked: Option<u64>,
}

/// An entry in words.
#[derive(Debug, Clone, PartialEq)]
pub struct HistoryLine {
    /// The number in the guest's lane; `None` for entries of other lanes.
    pub number: Option<u64>,
    /// The kind.
    pub kind: EntryKind,
    /// The time at which the entry was stored, in milliseconds since 1970.
    pub time_ms: u64,
    /// The entry in words. They contain foreign text as it is; `Display` escapes it.
    pub words: String,
    /// A remark, such as how long it took; may be empty.
    pub remark: String,
    /// The members of the JSON form besides number, kind and time.
    pub fields: Map<String, Value>,
}

/// The figures of a history.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HistorySummary {
    /// The entries in the guest's lane.
    pub entries: u64,
    /// The bytes of the chunks.
    pub bytes: u64,
    /// The HTTP requests.
    pub requests: u64,
    /// The questions.
    pub questions: u64,
    /// Whether the end of the run is among the entries.
    pub is_ended: bool,
}

impl History {
    /// A history without entries.
    #[must_use]
    pub fn new(detail: Detail) -> Self {
        Self { detail, clock_step: 1, ..Self::default() }
    }

    /// A history that goes on after a number of chunks and entries of the guest's lane that it does not show.
    #[must_use]
    pub fn after(detail: Detail, chunks: u32, entries: u64) -> Self {
        let summary = HistorySummary { entries, ..HistorySummary::default() };
        Self { chunks, summary, ..Self::new(detail) }
    }

    /// The lines of the next chunk, up to the first fault, and that fault.
    pub fn read(&mut self, chunk: &Chunk) -> (Vec<HistoryLine>, Option<DecodeError>) {
        let number = self.chunks;
        self.chunks = self.chunks.saturating_add(1);
        self.summary.bytes = self.summary.bytes.saturating_add(chunk.body.len() as u64);
        let mut lines = Vec::new();
        let fault = chunk.frames(number).and_then(|(head, frames)| {
            for frame in frames {
                lines.push(self.line(&frame?, head.time_ms)?);
            }
            Ok(())
        });
        (lines, fault.err())
    }

    /// The figures so far.
    #[must_use]
    pub const fn summary(&self) -> HistorySummary {
        self.summary
    }

    fn line(&mut self, frame: &Frame, time_ms: u64) -> Result<HistoryLine, DecodeError> {
        let entry = frame.entry()?;
        let fields = self.fields(&entry);
        let words = self.words(&entry);
        let remark = self.remark(&entry, time_ms);
        let number = (frame.kind.lane() == JournalLane::Guest).then_some(self.summary.entries);
        self.summary.entries += u64::from(number.is_some());
        Ok(HistoryLine { number, kind: frame.kind, time_ms, words, remark, fields })
    }

    fn words(&mut self, entry: &Entry<'_>) -> String {
        match entry {
            Entry::Begin(json) => self.begin_words(json),
            Entry::Clock { steps, readings } => {
                let ms = steps.saturating_mul(self.clock_step);
                format!("+{ms} ms ({})", units::counted(*readings, "reading"))
            }
            Entry::Poll { len, ready, times } => {
                format!("{} of {len} ready{}", ready.len(), repeated(*times))
            }
            Entry::Ready { is_ready, times } => {
                format!("{}{}", if *is_ready { "yes" } else { "no" }, repeated(*times))
            }
            Entry::Call { function, result, .. } => {
                format!("{} -> {}", words::short(function), text_of(result))
            }
            Entry::Ask { questions, .. } => question_words(questions),
            Entry::Answer(answers) => fields::answer_words(answers),
            Entry::Sleep { duration_ms, until_ms } => {
                format!("{} until {}", Span(*duration_ms), timestamp(*until_ms))
            }
            Entry::Request { number, method, uri, .. } => {
                format!("{number}  {} {}", words::short(method), words::short(uri))
            }
            Entry::Ended(outcome) => format!("sha256 {}", words::short_digest(outcome)),
            Entry::Response { number, response } => response_words(*number, response),
            Entry::Doubt { number, decision, by } => {
                format!("{number}  {}, decided by {}", decision.as_str(), decider(*by))
            }
            Entry::Key { number, key } => format!("{number}  {}", words::short(key)),
        }
    }

    fn begin_words(&mut self, json: &[u8]) -> String {
        match Begin::from_json(json) {
            Ok(begin) => {
                self.clock_step = u64::from(begin.clock_step.get());
                format!(
                    "{}  {} {}, toolyard {}, {}",
                    timestamp(begin.base_time),
                    words::short(&begin.tool),
                    fields::short_name(&begin.digest),
                    words::short(&begin.version),
                    units::counted(begin.environment.len() as u64, "variable")
                )
            }
            Err(fault) => fault.to_string(),
        }
    }

    /// A remark about the time that passed, and the figures of the summary.
    fn remark(&mut self, entry: &Entry<'_>, time_ms: u64) -> String {
        match entry {
            Entry::Ask { questions, .. } => {
                self.summary.questions += questions.len() as u64;
                self.asked = Some(time_ms);
                String::new()
            }
            Entry::Answer(_) => took("after ", self.asked.take(), time_ms),
            Entry::Request { number, .. } => {
                self.summary.requests += 1;
                self.requested.insert(*number, time_ms);
                String::new()
            }
            Entry::Response { number, .. } => took("", self.requested.remove(number), time_ms),
            Entry::Ended(_) => {
                self.summary.is_ended = true;
                String::new()
            }
            _ => String::new(),
        }
    }
}

/// How long something took, unless it began and ended in one chunk.
fn took(before: &str, since: Option<u64>, until: u64) -> String {
    match since.and_then(|since| until.checked_sub(since)) {
        None | Some(0) => String::new(),
        Some(ms) => format!("{before}{}", Span(ms)),
    }
}

fn timestamp(ms: u64) -> Timestamp {
    Timestamp(i64::try_from(ms).unwrap_or(i64::MAX))
}

fn repeated(times: u64) -> String {
    if times == 1 { String::new() } else { format!(" ({})", units::counted(times, "time")) }
}

fn text_of(bytes: &[u8]) -> String {
    words::short(&String::from_utf8_lossy(bytes))
}

fn question_words(questions: &[QuestionName<'_>]) -> String {
    let names = questions.iter().map(|question| format!("{} {}", question.key, question.method));
    words::short(&names.collect::<Vec<_>>().join(", "))
}

fn response_words(number: u32, response: &Response) -> String {
    match &response.outcome {
        ResponseOutcome::Complete { status, body, .. } => {
            format!("{number}  {status}, {}", ByteCount(body.len() as u64))
        }
        ResponseOutcome::Error(error) => format!("{number}  failed: {}", words::short(error)),
    }
}

fn decider(by: DecidedBy<'_>) -> String {
    match by {
        DecidedBy::Method => "its method".to_owned(),
        DecidedBy::Key => "its idempotency key".to_owned(),
        DecidedBy::Manifest => "the manifest".to_owned(),
        DecidedBy::Person(name) => words::short(name),
    }
}

impl HistoryLine {
    /// The JSON form, an object in one line. Unsafe characters of foreign text are escaped.
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut object = Map::new();
        if let Some(number) = self.number {
            object.insert("entry".to_owned(), number.into());
        }
        object.insert("kind".to_owned(), self.kind.as_str().into());
        object.insert("at".to_owned(), timestamp(self.time_ms).to_string().into());
        object.extend(self.fields.clone());
        visible::json(&Value::Object(object).to_string()).into_owned()
    }
}

impl fmt::Display for HistoryLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = self.number.map(|number| number.to_string()).unwrap_or_default();
        write!(f, "{number:>4}  {:<8}  {}", self.kind.as_str(), visible::line(&self.words))?;
        if self.remark.is_empty() { Ok(()) } else { write!(f, "   {}", visible::line(&self.remark)) }
    }
}

impl fmt::Display for HistorySummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}, {}, {}, {}; {}",
            units::counted(self.entries, "entry"),
            ByteCount(self.bytes),
            units::counted(self.requests, "request"),
            units::counted(self.questions, "question"),
            if self.is_ended { "ended" } else { "not ended" }
        )
    }
}
