//! Formats the events of the log, as text or as JSON (`log.format`). Fields hold text of guests and clients,
//! so each is kept within its line. Styles and the rest of the line come from this program.

pub mod lossy;

use std::error::Error;
use std::fmt::{self, Debug, Write as _};
use toolyard_dispatch::visible;
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime as _, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// Writes fields as `name=value`, and the message without its name.
#[derive(Debug)]
pub struct ShownFields;

impl<'w> FormatFields<'w> for ShownFields {
    fn format_fields<R: RecordFields>(&self, writer: Writer<'w>, fields: R) -> fmt::Result {
        let mut visitor = Visitor { writer, is_first: true, result: Ok(()) };
        fields.record(&mut visitor);
        visitor.result
    }
}

struct Visitor<'w> {
    writer: Writer<'w>,
    is_first: bool,
    result: fmt::Result,
}

impl Visitor<'_> {
    fn put(&mut self, name: &str, value: fmt::Arguments<'_>) -> fmt::Result {
        if !std::mem::take(&mut self.is_first) {
            self.writer.write_char(' ')?;
        }
        if name != "message" {
            match self.writer.has_ansi_escapes() {
                true => write!(self.writer, "\u{1b}[3m{name}\u{1b}[0m\u{1b}[2m=\u{1b}[0m")?,
                false => write!(self.writer, "{name}=")?,
            }
        }
        visible::Line(&mut self.writer).write_fmt(value)
    }
}

impl Visit for Visitor<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "message" => self.record_debug(field, &format_args!("{value}")),
            _ => self.record_debug(field, &value),
        }
    }

    fn record_error(&mut self, field: &Field, error: &(dyn Error + 'static)) {
        let text = with_causes(error);
        self.record_debug(field, &format_args!("{text}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if self.result.is_ok() {
            self.result = self.put(name_of(field), format_args!("{value:?}"));
        }
    }
}

fn name_of(field: &Field) -> &'static str {
    let name = field.name();
    name.strip_prefix("r#").unwrap_or(name)
}

fn with_causes(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        // Writing to a String does not fail.
        let _ = write!(text, ": {error}");
        cause = error.source();
    }
    text
}

/// Writes an event as one JSON object in one line. The format of `tracing-subscriber` would lose the causes
/// of errors, repeat keys, and leave control characters beyond ASCII as they are.
#[derive(Debug)]
pub struct JsonLines;

impl<S, N> FormatEvent<S, N> for JsonLines
where
    S: Subscriber + for<'lookup> LookupSpan<'lookup>,
    N: for<'writer> FormatFields<'writer> + 'static,
{
    fn format_event(
        &self,
        _context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let metadata = event.metadata();
        let mut time = String::new();
        SystemTime.format_time(&mut Writer::new(&mut time))?;
        let mut object = JsonObject(String::with_capacity(256));
        object.put("timestamp", time);
        object.put("level", metadata.level().as_str());
        object.put("target", metadata.target());
        event.record(&mut object);
        object.0.push('}');
        writeln!(writer, "{}", visible::json(&object.0))
    }
}

/// A JSON object without its closing brace.
struct JsonObject(String);

impl JsonObject {
    fn put(&mut self, name: &str, value: impl Into<serde_json::Value>) {
        self.0.push(if self.0.is_empty() { '{' } else { ',' });
        // Writing to a String does not fail.
        let _ = write!(self.0, "{}:{}", serde_json::Value::from(name), value.into());
    }

    /// A field must not repeat one of the first keys: the last one would win.
    fn put_field(&mut self, field: &Field, value: impl Into<serde_json::Value>) {
        match name_of(field) {
            name @ ("timestamp" | "level" | "target") => self.put(&format!("field_{name}"), value),
            name => self.put(name, value),
        }
    }
}

impl Visit for JsonObject {
    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put_field(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put_field(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put_field(field, value);
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put_field(field, value);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put_field(field, value);
    }

    fn record_error(&mut self, field: &Field, error: &(dyn Error + 'static)) {
        self.put_field(field, with_causes(error));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.put_field(field, format!("{value:?}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::value::LogFormat;
    use std::io::Seek as _;

    #[derive(Debug)]
    struct Failed(std::io::Error);

    impl fmt::Display for Failed {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("failed")
        }
    }

    impl Error for Failed {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            Some(&self.0)
        }
    }

    const FOREIGN: &str = "a\u{1b}[2J\n\u{202e}b\u{2028}\u{9b}\",\"level\":\"ERROR";

    fn log_foreign_text() {
        let error = &Failed(std::io::Error::other(FOREIGN)) as &dyn Error;
        tracing::info!(event = "test.logged", plugin = %FOREIGN, said = FOREIGN, count = 3, error, "line {FOREIGN}");
    }

    fn logged(format: LogFormat, colours: bool, log_line: fn()) -> String {
        let mut file = tempfile::tempfile().expect("a file");
        let log = tracing_subscriber::fmt().fmt_fields(ShownFields).with_ansi(colours);
        let log = log.with_writer(file.try_clone().expect("the same file"));
        let log: tracing::Dispatch = match format {
            LogFormat::Text => log.without_time().into(),
            LogFormat::Json => log.event_format(JsonLines).into(),
        };
        tracing::dispatcher::with_default(&log, log_line);
        file.rewind().expect("to the begin");
        std::io::read_to_string(file).expect("text")
    }

    #[test]
    fn foreign_text_is_shown_in_every_field() {
        let line = logged(LogFormat::Text, false, log_foreign_text);
        assert_eq!(line.lines().count(), 1, "{line}");
        assert!(!line.trim_end().chars().any(visible::is_unsafe), "{line:?}");
        let shown = "a\\u{1b}[2J\\n\\u{202e}b\\u{2028}\\u{9b}";
        assert_eq!(line.matches(shown).count(), 4, "{line}");
        assert!(line.contains(&format!("line {shown}")), "{line}");
        assert!(line.contains(&format!(" event=\"test.logged\" plugin={shown}")), "{line}");
        assert!(line.contains(&format!(" said=\"{shown}")), "{line}");
        assert!(line.contains(" count=3 "), "{line}");
    }

    #[test]
    fn on_a_terminal_only_our_styles_are_sent() {
        let line = logged(LogFormat::Text, true, log_foreign_text);
        for piece in line.trim_end().split('\u{1b}').skip(1) {
            let (style, _) = piece.strip_prefix('[').and_then(|rest| rest.split_once('m')).expect("a style");
            assert!(style.bytes().all(|byte| byte.is_ascii_digit() || byte == b';'), "{piece:?}");
        }
        assert!(line.contains("a\\u{1b}[2J"), "{line:?}");
    }

    #[test]
    fn in_json_foreign_text_stays_within_its_field() {
        for colours in [false, true] {
            let line = logged(LogFormat::Json, colours, log_foreign_text);
            assert_eq!(line.matches('\n').count(), 1, "{line:?}");
            assert!(!line.trim_end().chars().any(visible::is_unsafe), "{line:?}");
            assert_eq!(line.matches("\"level\":").count(), 1, "no key is repeated: {line}");
            let object: serde_json::Value = serde_json::from_str(&line).expect("a JSON object");
            let text = |key: &str| object[key].as_str().unwrap_or_else(|| panic!("{key}: {line}")).to_owned();
            assert_eq!((text("level"), text("event")), ("INFO".to_owned(), "test.logged".to_owned()));
            assert!(text("target").ends_with("::log::tests"), "{line}");
            assert!(text("timestamp").parse::<jiff::Timestamp>().is_ok(), "{line}");
            assert_eq!(text("message"), format!("line {FOREIGN}"));
            assert_eq!((text("plugin"), text("said")), (FOREIGN.to_owned(), FOREIGN.to_owned()));
            assert_eq!(text("error"), format!("failed: {FOREIGN}"), "with its cause");
            assert_eq!(object["count"], 3);
        }
    }

    #[test]
    fn in_json_no_field_replaces_a_key_of_the_host() {
        let line = logged(LogFormat::Json, false, || tracing::info!(level = "forged", timestamp = true, "m"));
        let object: serde_json::Value = serde_json::from_str(&line).expect("a JSON object");
        assert_eq!((&object["level"], &object["field_level"]), (&"INFO".into(), &"forged".into()));
        assert_eq!(object["field_timestamp"], true);
    }
}
