//! Reads and writes lines on separate threads, because standard input and output block.

use crate::answer::one_line;
use bytes::Bytes;
use std::io::{BufRead, Read as _, Write};
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot};
use toolyard_dispatch::{NoRoom, RateKey, Shares, UNCOUNTED};
use toolyard_protocol::message::decode;
use toolyard_protocol::{DecodeError, Id, Incoming, Message, RpcError};

/// A line of input, without its end.
#[derive(Debug, PartialEq, Eq)]
pub enum Line {
    /// The line.
    Text(Bytes),
    /// The line was longer than allowed and was skipped.
    TooLong,
    /// The shares had no memory for it, and it was dropped. Contains the id of its request, if it was one.
    NoRoom(Option<Id>, NoRoom),
}

/// The error for a line of more than `most` bytes.
pub(crate) fn too_long(most: usize) -> DecodeError {
    let error = RpcError::invalid_request(format!("a line is longer than {most} bytes (wire.message)"));
    DecodeError { id: None, error }
}

/// Splits input into lines, and keeps no more of a line than is allowed.
pub struct LineReader<R> {
    input: R,
    most: usize,
}

impl<R: BufRead> LineReader<R> {
    /// Reads lines of at most `most` bytes each.
    pub const fn new(input: R, most: usize) -> Self {
        Self { input, most }
    }

    /// The next line; `None` at the end. An unfinished last line counts.
    ///
    /// # Errors
    /// The error of the input.
    pub fn next_line(&mut self) -> std::io::Result<Option<Line>> {
        let mut line = Vec::new();
        // With the line feed.
        let most = (self.most as u64).saturating_add(1);
        if self.input.by_ref().take(most).read_until(b'\n', &mut line)? == 0 {
            return Ok(None);
        }
        if line.pop_if(|byte| *byte == b'\n').is_some() {
            line.pop_if(|byte| *byte == b'\r');
        } else if line.len() > self.most {
            drop(line);
            self.input.skip_until(b'\n')?;
            return Ok(Some(Line::TooLong));
        }
        Ok(Some(Line::Text(line.into())))
    }
}

/// Reads lines on a thread. The thread may still be in its last read when the process ends, because a read of
/// standard input cannot be cancelled.
pub(crate) fn spawn_reader(
    input: impl BufRead + Send + 'static,
    most: usize,
    capacity: usize,
    shares: Option<Arc<Shares>>,
) -> mpsc::Receiver<Line> {
    let (lines, receiver) = mpsc::channel(capacity);
    let mut reader = LineReader::new(input, most);
    let read = move || {
        while let Ok(Some(line)) = reader.next_line() {
            let line = match (line, &shares) {
                (Line::Text(text), Some(shares)) if text.len() > UNCOUNTED => counted(text, shares),
                (line, _) => line,
            };
            if lines.blocking_send(line).is_err() {
                return;
            }
        }
    };
    std::thread::Builder::new().name("stdin".to_owned()).spawn(read).expect("a thread can be started");
    receiver
}

/// Counts a large line for the user of this machine. Its sender learns for which request there was no memory.
fn counted(text: Bytes, shares: &Arc<Shares>) -> Line {
    let mut held = shares.none(RateKey::Local);
    match held.grow_to(text.len()) {
        Ok(()) => Line::Text(Arc::new(held).keep(text)),
        Err(no_room) => match decode(&text) {
            Ok(Incoming::One(Message::Request { id, .. })) => Line::NoRoom(Some(id), no_room),
            _ => Line::NoRoom(None, no_room),
        },
    }
}

/// A line to write.
pub(crate) struct Outgoing {
    /// The line, without its end.
    pub line: Bytes,
    /// Signalled once the line is written; dropped if it cannot be.
    pub written: Option<oneshot::Sender<()>>,
}

impl Outgoing {
    /// A message as one line.
    pub fn line(message: Bytes) -> Self {
        Self { line: one_line(message), written: None }
    }
}

/// The queue of lines to write.
pub(crate) type Outbox = mpsc::Sender<Outgoing>;

/// Writes lines on a thread until all senders are gone or the output breaks; then the receiver completes.
pub(crate) fn spawn_writer(
    mut output: impl Write + Send + 'static,
    capacity: usize,
) -> (Outbox, oneshot::Receiver<()>) {
    let (sender, mut messages) = mpsc::channel::<Outgoing>(capacity);
    let (tell, told) = oneshot::channel();
    let write = move || {
        while let Some(Outgoing { line: message, written }) = messages.blocking_recv() {
            let mut line = Vec::with_capacity(message.len() + 1);
            line.extend_from_slice(&message);
            line.push(b'\n');
            if output.write_all(&line).and_then(|()| output.flush()).is_err() {
                break;
            }
            if let Some(written) = written {
                let _ = written.send(());
            }
        }
        // The other side may have stopped waiting, which does not matter here.
        let _ = tell.send(());
    };
    std::thread::Builder::new().name("stdout".to_owned()).spawn(write).expect("a thread can be started");
    (sender, told)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::BufReader;

    fn lines(input: &[u8], most: usize, buffer: usize) -> Vec<Line> {
        let mut reader = LineReader::new(BufReader::with_capacity(buffer, input), most);
        std::iter::from_fn(|| reader.next_line().expect("no fault")).collect()
    }

    #[test]
    fn s_1_lines_are_cut_whatever_the_chunks() {
        let text = |text: &str| Line::Text(Bytes::copy_from_slice(text.as_bytes()));
        for buffer in [1, 2, 3, 100] {
            let found = lines(b"ab\r\n\ncd\nlast", 10, buffer);
            assert_eq!(found, ["ab", "", "cd", "last"].map(text));
            assert_eq!(lines(b"", 10, buffer), []);
        }
    }

    #[test]
    fn a_line_that_is_too_long_is_skipped_and_the_next_is_read() {
        for buffer in [1, 4, 100] {
            let found = lines(b"0123456789x\nok\n0123456789x", 10, buffer);
            assert_eq!(found, [Line::TooLong, Line::Text(Bytes::from_static(b"ok")), Line::TooLong]);
        }
    }
}
