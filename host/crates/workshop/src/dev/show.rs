//! The output of `toolyard dev`: a line for each event, with the time in front, or one JSON object per line.
//!
//! A separate thread writes, so that a slow or paused terminal delays no call. Its queue is bounded; lines
//! that do not fit are left out, and the output says so.

use anyhow::Context as _;
use parking_lot::Mutex;
use serde_json::{Map, Value};
use std::io::IsTerminal as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use tokio::sync::mpsc;
use toolyard_cli::output::Styled;
pub use toolyard_cli::output::{CYAN, DIM, GREEN, RED, RESET, YELLOW};
use toolyard_dispatch::Clock;

/// The most lines that may wait to be written.
const MAX_WAITING: usize = 4096;
/// The most characters of one value in a line for people.
const MAX_SHOWN_CHARS: usize = 300;
/// Larger values (bytes) are shown as shortened texts in JSON.
const MAX_SHOWN_BYTES: usize = 16 << 10;

/// Prints lines on a separate thread.
pub struct Show {
    lines: mpsc::Sender<Option<Styled>>,
    lost: AtomicU64,
    json: bool,
    colours: bool,
    clock: Arc<dyn Clock>,
    writer: Mutex<Option<JoinHandle<()>>>,
}

impl Show {
    /// Starts the thread that writes.
    ///
    /// # Errors
    /// If the system cannot start another thread.
    pub fn start(json: bool, clock: Arc<dyn Clock>) -> anyhow::Result<Arc<Self>> {
        let colours = !json && std::io::stdout().is_terminal();
        let (lines, mut queue) = mpsc::channel::<Option<Styled>>(MAX_WAITING);
        let write = move || {
            while let Some(Some(line)) = queue.blocking_recv() {
                // The reader may be gone; the calls continue.
                line.say();
            }
        };
        let writer = std::thread::Builder::new().name("show".to_owned()).spawn(write);
        let writer = Mutex::new(Some(writer.context("cannot start a thread")?));
        Ok(Arc::new(Self { lines, lost: AtomicU64::new(0), json, colours, clock, writer }))
    }

    /// Shows an event without waiting; leaves it out if the queue is full. The event is one word, `text` is for people,
    /// and `json`, an object, is for programs. `colour` is the control sequence for the colour of the word: [`DIM`] for
    /// what is of minor interest, [`GREEN`] for success, [`RED`] for a failure, [`YELLOW`] for a question to a person,
    /// [`CYAN`] for a request of a client, [`RESET`] for the rest.
    pub fn say(&self, event: &'static str, colour: &'static str, text: &str, json: Value) {
        let lost = self.lost.swap(0, Ordering::Relaxed);
        let mut line = self.line(event, colour, text, json);
        if lost > 0 {
            let text = format!("{lost} lines were left out: too much happened at once");
            line = self.line("lost", RED, &text, serde_json::json!({"lines": lost})).styled(&line);
        }
        if self.lines.try_send(Some(line)).is_err() {
            self.lost.fetch_add(lost + 1, Ordering::Relaxed);
        }
    }

    /// Shows an event in any case.
    pub async fn whole(&self, event: &'static str, colour: &'static str, text: &str, json: Value) {
        // The thread ends only at the very end.
        drop(self.lines.send(Some(self.line(event, colour, text, json))).await);
    }

    /// Waits until all lines are written.
    pub fn end(&self) {
        drop(self.lines.blocking_send(None));
        let writer = self.writer.lock().take();
        drop(writer.map(JoinHandle::join));
    }

    fn line(&self, event: &'static str, colour: &'static str, text: &str, json: Value) -> Styled {
        let now = self.clock.now().to_string();
        if self.json {
            let mut line = Map::new();
            line.insert("time".to_owned(), now.into());
            line.insert("event".to_owned(), event.into());
            if let Value::Object(members) = json {
                line.extend(members);
            }
            return Styled::json(&format!("{}\n", Value::from(line)));
        }
        // The output of the person's own build has no time in front.
        if event == "output" {
            return Styled::default().text(text).text("\n");
        }
        let clock = now.get(11..19).unwrap_or(&now);
        let word = format!("{event:<9}");
        let text = text.trim_end().replace('\n', " ⏎ ").replace('\t', " ");
        let (dim, colour, reset) = if self.colours { (DIM, colour, RESET) } else { ("", "", "") };
        let line = Styled::default().control(dim).text(clock).control(reset).text(" ");
        line.control(colour).text(&word).control(reset).text(" ").line(&text).text("\n")
    }
}

/// A text for people, shortened if it is too long.
pub fn clipped(text: &str) -> String {
    match text.char_indices().nth(MAX_SHOWN_CHARS) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}… ({} bytes)", &text[..end], text.len()),
    }
}

/// A JSON value for programs: unchanged, or as a shortened text.
pub fn value(text: &str) -> Value {
    if text.len() <= MAX_SHOWN_BYTES
        && let Ok(value) = serde_json::from_str(text)
    {
        return value;
    }
    clipped(text).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use toolyard_dispatch::Timestamp;

    struct FixedClock;

    impl Clock for FixedClock {
        fn now(&self) -> Timestamp {
            Timestamp(0)
        }
    }

    fn show(json: bool) -> Show {
        let (lines, _) = mpsc::channel(1);
        let (clock, writer) = (Arc::new(FixedClock), Mutex::new(None));
        Show { lines, lost: AtomicU64::new(0), json, colours: false, clock, writer }
    }

    fn line(show: &Show, text: &str) -> Styled {
        show.line("call", CYAN, text, serde_json::json!({"call": 1}))
    }

    #[test]
    fn a_line_has_the_time_in_front_and_steers_nothing() {
        let text = line(&show(false), "a\nb\u{1b}[2J\n");
        let text = text.as_str();
        assert_eq!(&text[8..], " call      a ⏎ b\\u{1b}[2J\n");
        assert!(text[..8].split(':').all(|part| part.parse::<u8>().is_ok()), "{text}");
        let line: Value = serde_json::from_str(line(&show(true), "a").as_str()).expect("JSON");
        assert_eq!((&line["event"], &line["call"]), (&"call".into(), &1.into()));
        assert!(line["time"].as_str().is_some_and(|time| time.ends_with('Z')));
    }

    #[test]
    fn what_is_long_is_cut() {
        assert_eq!(clipped("short"), "short");
        assert!(clipped(&"ä".repeat(1000)).ends_with("… (2000 bytes)"));
        assert_eq!(value("{\"a\":1}"), serde_json::json!({"a": 1}));
        assert!(
            value(&format!("\"{}\"", "x".repeat(MAX_SHOWN_BYTES)))
                .as_str()
                .is_some_and(|text| text.len() < 400)
        );
    }

    #[test]
    fn what_does_not_fit_is_counted() {
        let (lines, mut queue) = mpsc::channel(1);
        let show = Show { lines, ..show(true) };
        let say = || show.say("call", CYAN, "a", Value::Null);
        (0..4).for_each(|_| say());
        drop(queue.try_recv());
        say();
        let line = queue.try_recv().expect("a line").expect("a line");
        assert!(line.as_str().contains("\"lines\":3"), "{line:?}");
    }
}
