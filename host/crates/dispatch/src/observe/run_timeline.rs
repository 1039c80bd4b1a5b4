//! The events that a run adds to the timeline of its task.

use parking_lot::Mutex;
use std::time::Duration;
use tokio::time::Instant;
use toolyard_task::timeline::{MAX_EVENT, NewEvent};
use toolyard_task::tool::{OutputStream, Report};
use toolyard_task::wire::Progress;

/// Progress is stored at most this often: a timeline of nothing but progress tells a person nothing.
const PROGRESS: Duration = Duration::from_secs(1);
/// The text of a stream is stored at most this often. The lines of the time between are one event.
const OUTPUT: Duration = Duration::from_millis(250);

/// Makes events of the reports of one run. It is used only once the run is that of a task.
#[derive(Default)]
pub(crate) struct RunTimeline(Mutex<Merged>);

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
        (!self.held.is_empty()).then(|| self.stored.map_or(now, |stored| stored + OUTPUT))
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

impl RunTimeline {
    /// The event of this report, if it is one that is stored now. Status messages come with the commit
    /// that stores them.
    pub fn event(&self, attempt: u32, report: &Report) -> Option<NewEvent> {
        match report {
            Report::Progress(progress) => {
                let mut merged = self.0.lock();
                let now = Instant::now();
                if merged.progress_stored.is_some_and(|stored| now < stored + PROGRESS) {
                    merged.progress = Some(progress.clone());
                    return None;
                }
                (merged.progress_stored, merged.progress) = (Some(now), None);
                Some(NewEvent::progress(attempt, progress))
            }
            Report::Log { level, logger, data } => {
                Some(NewEvent::log(attempt, *level, logger.as_deref(), data))
            }
            Report::Output { stream, line } => {
                let mut merged = self.0.lock();
                let text = match stream {
                    OutputStream::Stdout => &mut merged.stdout,
                    OutputStream::Stderr => &mut merged.stderr,
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

    /// When held text may be stored.
    pub fn due(&self) -> Option<Instant> {
        let (merged, now) = (self.0.lock(), Instant::now());
        [&merged.stdout, &merged.stderr].into_iter().filter_map(|text| text.due(now)).min()
    }

    /// The held text that may be stored now.
    pub fn due_output(&self, attempt: u32) -> Vec<NewEvent> {
        self.output(attempt, false)
    }

    /// Everything that is held. The run has ended.
    pub fn last(&self, attempt: u32) -> Vec<NewEvent> {
        let mut events = self.output(attempt, true);
        let progress = self.0.lock().progress.take();
        events.extend(progress.map(|progress| NewEvent::progress(attempt, &progress)));
        events
    }

    fn output(&self, attempt: u32, is_last: bool) -> Vec<NewEvent> {
        let (mut merged, now) = (self.0.lock(), Instant::now());
        let stdout = merged.stdout.take(now, is_last).map(|text| (OutputStream::Stdout, text));
        let stderr = merged.stderr.take(now, is_last).map(|text| (OutputStream::Stderr, text));
        drop(merged);
        let texts = stdout.into_iter().chain(stderr);
        texts.map(|(stream, text)| NewEvent::output(attempt, stream, &text)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use toolyard_task::timeline::EventKind;

    #[tokio::test]
    async fn lines_are_merged_to_four_events_a_second_and_each_is_bounded() {
        let timeline = RunTimeline::default();
        let line = |text: &str| Report::Output { stream: OutputStream::Stderr, line: text.to_owned() };
        let first = timeline.event(1, &line("a")).expect("the first line is stored at once");
        assert_eq!((first.kind, first.body.as_str()), (EventKind::Stderr, r#"{"text":"a"}"#));
        assert_eq!((timeline.event(1, &line("b")), timeline.event(1, &line("c"))), (None, None));
        tokio::time::sleep_until(timeline.due().expect("two lines are held")).await;
        assert_eq!(timeline.due_output(1)[0].body.as_str(), r#"{"text":"b\nc"}"#);
        assert_eq!(timeline.due(), None);
        // Stored at once, or held; in any case bounded.
        let stored = (0..1_000).filter_map(|_| timeline.event(1, &line(&"x".repeat(1_000))));
        let last: Vec<_> = stored.collect::<Vec<_>>().into_iter().chain(timeline.last(1)).collect();
        assert!(
            last.iter().all(|event| event.body.as_bytes().len() <= MAX_EVENT)
                && last.iter().any(|event| event.body.as_str().contains('…'))
        );
    }
}
