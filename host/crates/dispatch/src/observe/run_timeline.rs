//! The events that a run adds to the timeline of its task.

use crate::observe::event::{EventSink, RunEvent, RunFacts};
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use toolyard_task::TaskId;
use toolyard_task::timeline::{MAX_EVENT, NewEvent, TimelineStore};
use toolyard_task::tool::{OutputStream, Report};
use toolyard_task::wire::Progress;

/// Progress is stored at most this often: a timeline of nothing but progress tells a person nothing.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);
/// The text of a stream is stored at most this often. The lines of the time between are one event.
const OUTPUT_INTERVAL: Duration = Duration::from_millis(250);

/// Adds the events of one run to the timeline of its task. Those of a plain call go nowhere.
pub(crate) struct RunTimeline {
    store: Arc<dyn TimelineStore>,
    /// Made by the first report of a task, because plain calls have none.
    merged: Mutex<Option<Box<Merged>>>,
}

#[derive(Default)]
struct Merged {
    /// When progress was last stored.
    progress_stored: Option<Instant>,
    /// The latest progress since then.
    progress: Option<Progress>,
    stdout: MergedText,
    stderr: MergedText,
}

/// The text of a stream that is not stored yet.
#[derive(Default)]
struct MergedText {
    stored: Option<Instant>,
    /// At most [`MAX_EVENT`] bytes and a line; the event is clipped.
    held: String,
}

impl MergedText {
    fn add(&mut self, line: &str) {
        if self.held.len() > MAX_EVENT {
            return;
        }
        if !self.held.is_empty() {
            self.held.push('\n');
        }
        self.held.push_str(line);
    }

    fn due(&self, now: Instant) -> Option<Instant> {
        (!self.held.is_empty()).then(|| self.stored.map_or(now, |stored| stored + OUTPUT_INTERVAL))
    }

    /// The held text, if it may be stored now.
    fn take(&mut self, now: Instant, is_last: bool) -> Option<String> {
        let due = self.due(now)?;
        (is_last || due <= now).then(|| {
            self.stored = Some(now);
            std::mem::take(&mut self.held)
        })
    }
}

impl EventSink for RunTimeline {
    fn receive(&self, run: &RunFacts<'_>, event: RunEvent<'_>) {
        let Some((task, fence)) = run.task else { return };
        match event {
            RunEvent::Reported(Report::Usage(used)) => self.store.append_usage(task, fence.attempt, *used),
            RunEvent::Reported(report) => {
                let event = self.merged.lock().get_or_insert_default().event(fence.attempt, report);
                if let Some(event) = event {
                    self.store.append(task, event);
                }
            }
            RunEvent::HostCall(call) => self.store.append(task, NewEvent::host_call(fence.attempt, call)),
            RunEvent::Ended { host_calls, .. } => {
                let further = Some(host_calls.further).filter(|further| !further.is_empty());
                let further = further.map(|further| NewEvent::further_host_calls(fence.attempt, further));
                let last = self.merged.lock().as_mut().map(|merged| merged.last(fence.attempt));
                for event in last.into_iter().flatten().chain(further) {
                    self.store.append(task, event);
                }
            }
            RunEvent::Started(_) | RunEvent::IsTask | RunEvent::Asked { .. } | RunEvent::Answered(_) => {}
        }
    }
}

impl RunTimeline {
    pub fn new(store: Arc<dyn TimelineStore>) -> Self {
        Self { store, merged: Mutex::default() }
    }

    /// When held text may be stored.
    pub fn due(&self) -> Option<Instant> {
        self.merged.lock().as_ref()?.due()
    }

    /// Stores the held text that may be stored now.
    pub fn store_due(&self, task: TaskId, attempt: u32) {
        let due = self.merged.lock().as_mut().map(|merged| merged.output(attempt, false));
        for event in due.into_iter().flatten() {
            self.store.append(task, event);
        }
    }
}

impl Merged {
    /// The event of this report, if it is one that is stored now. Status messages come with the commit
    /// that stores them.
    fn event(&mut self, attempt: u32, report: &Report) -> Option<NewEvent> {
        match report {
            Report::Progress(progress) => {
                let now = Instant::now();
                if self.progress_stored.is_some_and(|stored| now < stored + PROGRESS_INTERVAL) {
                    self.progress = Some(progress.clone());
                    return None;
                }
                (self.progress_stored, self.progress) = (Some(now), None);
                Some(NewEvent::progress(attempt, progress))
            }
            Report::Log { level, logger, data } => {
                Some(NewEvent::log(attempt, *level, logger.as_deref(), data))
            }
            Report::Output { stream, line } => {
                let text = match stream {
                    OutputStream::Stdout => &mut self.stdout,
                    OutputStream::Stderr => &mut self.stderr,
                };
                text.add(line);
                text.take(Instant::now(), false).map(|text| NewEvent::output(attempt, *stream, &text))
            }
            Report::Status(_)
            | Report::Changed(_)
            | Report::ElicitationComplete { .. }
            | Report::Usage(_)
            | Report::HostCall(_)
            | Report::ReleaseStream { .. } => None,
        }
    }

    fn due(&self) -> Option<Instant> {
        let now = Instant::now();
        [&self.stdout, &self.stderr].into_iter().filter_map(|text| text.due(now)).min()
    }

    /// The text that may be stored now; all of it if the run has ended.
    fn output(&mut self, attempt: u32, is_last: bool) -> Vec<NewEvent> {
        let now = Instant::now();
        let stdout = self.stdout.take(now, is_last).map(|text| (OutputStream::Stdout, text));
        let stderr = self.stderr.take(now, is_last).map(|text| (OutputStream::Stderr, text));
        let texts = stdout.into_iter().chain(stderr);
        texts.map(|(stream, text)| NewEvent::output(attempt, stream, &text)).collect()
    }

    /// Everything that is held. The run has ended.
    fn last(&mut self, attempt: u32) -> Vec<NewEvent> {
        let mut events = self.output(attempt, true);
        events.extend(self.progress.take().map(|progress| NewEvent::progress(attempt, &progress)));
        events
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use toolyard_task::timeline::EventKind;

    #[tokio::test]
    async fn lines_are_merged_to_four_events_a_second_and_each_is_bounded() {
        let mut timeline = Merged::default();
        let line = |text: &str| Report::Output { stream: OutputStream::Stderr, line: text.to_owned() };
        let first = timeline.event(1, &line("a")).expect("the first line is stored at once");
        assert_eq!((first.kind, first.body.as_str()), (EventKind::Stderr, r#"{"text":"a"}"#));
        assert_eq!((timeline.event(1, &line("b")), timeline.event(1, &line("c"))), (None, None));
        tokio::time::sleep_until(timeline.due().expect("two lines are held")).await;
        assert_eq!(timeline.output(1, false)[0].body.as_str(), r#"{"text":"b\nc"}"#);
        assert_eq!(timeline.due(), None);
        // Stored at once, or held; in any case bounded.
        let stored: Vec<_> =
            (0..1_000).filter_map(|_| timeline.event(1, &line(&"x".repeat(1_000)))).collect();
        let last: Vec<_> = stored.into_iter().chain(timeline.last(1)).collect();
        assert!(last.iter().all(|event| event.body.as_bytes().len() <= MAX_EVENT));
        assert!(last.iter().any(|event| event.body.as_str().contains('…')));
    }
}
