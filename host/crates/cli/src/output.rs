//! All text goes to stdout and stderr through this module.
//!
//! Everything that a command prints may hold text of a guest or of a remote client. Text
//! for people is always shown by [`visible`]. Text for programs is exact in a file or a pipe, and is made
//! harmless on a terminal: JSON by equivalent escapes, anything else like text for people.
//!
//! `host/clippy.toml` refuses `println!` and its relatives in the program and its commands.

use std::fmt;
use std::io::{self, IsTerminal as _, Write};
use toolyard_protocol::visible;

/// Prints a line for people to stdout.
#[macro_export]
macro_rules! say {
    ($($text:tt)*) => { $crate::output::say_line(format_args!($($text)*)) };
}

/// Prints a line for people to stderr.
#[macro_export]
macro_rules! tell {
    ($($text:tt)*) => { $crate::output::tell_line(format_args!($($text)*)) };
}

/// Prints text for people to stdout, with a line end.
pub fn say_line(text: fmt::Arguments<'_>) {
    put(io::stdout(), &visible::text(&format!("{text}\n")));
}

/// Prints text for people to stderr, with a line end.
pub fn tell_line(text: fmt::Arguments<'_>) {
    put(io::stderr(), &visible::text(&format!("{text}\n")));
}

/// Prints text for people to stdout, and adds no line end.
pub fn say_text(text: &str) {
    put(io::stdout(), &visible::text(text));
}

/// Prints text for people to stderr, and adds no line end.
pub fn tell_text(text: &str) {
    put(io::stderr(), &visible::text(text));
}

/// Prints JSON as one line on stdout.
pub fn json(value: impl fmt::Display) {
    put(io::stdout(), &json_text(&format!("{value}\n"), io::stdout().is_terminal()));
}

/// Prints the text of a result, which a program may read: exact except on a terminal.
///
/// # Errors
/// If the text cannot be written. A reader that stops early, such as `head`, is no error.
pub fn result(text: &str, to_stderr: bool) -> io::Result<()> {
    let mut stream: Box<dyn Write> = match to_stderr {
        true => Box::new(io::stderr()),
        false => Box::new(io::stdout()),
    };
    let is_terminal = if to_stderr { io::stderr().is_terminal() } else { io::stdout().is_terminal() };
    let shown = if is_terminal { visible::text(text) } else { text.into() };
    match stream.write_all(shown.as_bytes()).and_then(|()| stream.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

/// Begins red text on a terminal.
pub const RED: &str = "\u{1b}[31m";
/// Begins green text on a terminal.
pub const GREEN: &str = "\u{1b}[32m";
/// Begins yellow text on a terminal.
pub const YELLOW: &str = "\u{1b}[33m";
/// Begins cyan text on a terminal.
pub const CYAN: &str = "\u{1b}[36m";
/// Begins faint text on a terminal.
pub const DIM: &str = "\u{1b}[2m";
/// Ends all styles.
pub const RESET: &str = "\u{1b}[0m";

/// Text with the host's own styles; text of guests and clients cannot break out of its line.
#[derive(Debug, Default)]
pub struct Styled(String);

impl Styled {
    /// JSON for stdout, as [`json`] prints it.
    pub fn json(text: &str) -> Self {
        Self(json_text(text, io::stdout().is_terminal()).into_owned())
    }

    /// Adds a control sequence of the host itself.
    #[must_use]
    pub fn control(mut self, sequence: &'static str) -> Self {
        self.0.push_str(sequence);
        self
    }

    /// Adds text within a line.
    #[must_use]
    pub fn line(mut self, text: &str) -> Self {
        self.0.push_str(&visible::line(text));
        self
    }

    /// Adds text over several lines.
    #[must_use]
    pub fn text(mut self, text: &str) -> Self {
        self.0.push_str(&visible::text(text));
        self
    }

    /// The same text with `indent` in front of every line but the first.
    #[must_use]
    pub fn indented(&self, indent: &'static str) -> Self {
        let lines: Vec<&str> = self.0.lines().collect();
        Self(lines.join(&format!("\n{indent}")) + "\n")
    }

    /// Adds other styled text.
    #[must_use]
    pub fn styled(mut self, other: &Self) -> Self {
        self.0.push_str(&other.0);
        self
    }

    /// The text with its control sequences.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Prints it to stdout.
    pub fn say(&self) {
        put(io::stdout(), &self.0);
    }

    /// Prints it to stderr.
    pub fn tell(&self) {
        put(io::stderr(), &self.0);
    }
}

/// Stdout for lines of JSON, such as protocol messages.
pub fn json_lines() -> impl Write + Send + 'static {
    JsonLines { out: io::stdout(), line: Vec::new(), shows: io::stdout().is_terminal() }
}

struct JsonLines<W> {
    out: W,
    /// The beginning of an unfinished line, for a terminal.
    line: Vec<u8>,
    shows: bool,
}

impl<W: Write> Write for JsonLines<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.shows {
            return self.out.write(bytes);
        }
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(part);
            if part.ends_with(b"\n") {
                self.show()?;
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        // The rest of a character may still arrive.
        if std::str::from_utf8(&self.line).is_ok() {
            self.show()?;
        }
        self.out.flush()
    }
}

impl<W: Write> JsonLines<W> {
    fn show(&mut self) -> io::Result<()> {
        let line = std::mem::take(&mut self.line);
        self.out.write_all(visible::json(&String::from_utf8_lossy(&line)).as_bytes())
    }
}

/// Lines of JSON for a stream; `is_terminal` says whether they must be harmless on a terminal.
pub fn json_text(text: &str, is_terminal: bool) -> std::borrow::Cow<'_, str> {
    if is_terminal { visible::json(text) } else { text.into() }
}

/// Ignores errors: if the terminal is gone, no one can read about them.
fn put(mut stream: impl Write, text: &str) {
    drop(stream.write_all(text.as_bytes()).and_then(|()| stream.flush()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_sequences_are_sent() {
        let styled = Styled::default()
            .control("\u{1b}[31m")
            .line("a\u{1b}[2J\nb")
            .control("\u{1b}[0m")
            .text("\nc\u{9b}");
        assert_eq!(styled.as_str(), "\u{1b}[31ma\\u{1b}[2J\\nb\u{1b}[0m\nc\\u{9b}");
    }

    #[test]
    fn lines_of_json_are_shown_whole_on_a_terminal_and_exact_elsewhere() {
        let given = "{\"a\":\"\u{9b}ä\"}\n{\"b\":1}";
        for (shows, expected) in [(true, "{\"a\":\"\\u009bä\"}\n{\"b\":1}"), (false, given)] {
            let mut lines = JsonLines { out: Vec::new(), line: Vec::new(), shows };
            for byte in given.as_bytes() {
                lines.write_all(&[*byte]).expect("memory");
            }
            lines.flush().expect("memory");
            assert_eq!(String::from_utf8(lines.out).expect("text"), expected);
        }
    }
}
