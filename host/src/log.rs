//! Formats the events of the log. Fields hold text of guests and clients, so each is kept within its line.
//! Styles and the rest of the line come from this program.

use std::error::Error;
use std::fmt::{self, Debug, Write as _};
use toolyard_dispatch::visible;
use tracing::field::{Field, Visit};
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::fmt::FormatFields;
use tracing_subscriber::fmt::format::Writer;

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
        let mut text = error.to_string();
        let mut cause = error.source();
        while let Some(error) = cause {
            // Writing to a String does not fail.
            let _ = write!(text, ": {error}");
            cause = error.source();
        }
        self.record_debug(field, &format_args!("{text}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if self.result.is_ok() {
            let name = field.name();
            self.result = self.put(name.strip_prefix("r#").unwrap_or(name), format_args!("{value:?}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl std::io::Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().expect("free").extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn logged(colours: bool) -> String {
        let kept = Kept::default();
        let writer = kept.clone();
        let log = tracing_subscriber::fmt().fmt_fields(ShownFields).with_ansi(colours).without_time();
        let log = log.with_writer(move || writer.clone()).finish();
        tracing::subscriber::with_default(log, || {
            let foreign = "a\u{1b}[2J\n\u{202e}b\u{2028}\u{9b}";
            let error = std::io::Error::other(foreign);
            tracing::info!(plugin = %foreign, said = foreign, count = 3, error = &error as &dyn Error, "line {foreign}");
        });
        let bytes = kept.0.lock().expect("free").clone();
        String::from_utf8(bytes).expect("text")
    }

    #[test]
    fn foreign_text_is_shown_in_every_field() {
        let line = logged(false);
        assert_eq!(line.lines().count(), 1, "{line}");
        assert!(!line.trim_end().chars().any(visible::is_unsafe), "{line:?}");
        let shown = "a\\u{1b}[2J\\n\\u{202e}b\\u{2028}\\u{9b}";
        assert_eq!(line.matches(shown).count(), 4, "{line}");
        assert!(line.contains(&format!("line {shown} plugin={shown} said=\"")), "{line}");
        assert!(line.contains(" count=3 "), "{line}");
    }

    #[test]
    fn on_a_terminal_only_our_styles_are_sent() {
        let line = logged(true);
        for piece in line.trim_end().split('\u{1b}').skip(1) {
            let (style, _) = piece.strip_prefix('[').and_then(|rest| rest.split_once('m')).expect("a style");
            assert!(style.bytes().all(|byte| byte.is_ascii_digit() || byte == b';'), "{piece:?}");
        }
        assert!(line.contains("a\\u{1b}[2J"), "{line:?}");
    }
}
