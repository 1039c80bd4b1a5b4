//! Writers of the log that lose lines if these cannot be written: a full disk or a reader that has stopped reading must
//! not stop the host. Lost lines are counted.

use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{self, Write};
use std::sync::LazyLock;
use std::time::Duration;
use toolyard_dispatch::visible;
use tracing_subscriber::fmt::MakeWriter;

/// How long the log waits for the reader of standard error, once. After that it waits no more until the reader has read.
const PATIENCE: Duration = Duration::from_millis(200);
/// The bytes that a pipe takes without waiting, if it can be written at all (POSIX, `PIPE_BUF`).
const PIECE: usize = 512;

static LOST: LazyLock<Counter> = LazyLock::new(Counter::default);

/// Prints text for people on standard error as the log is: a host starts and stops without its reader.
pub fn tell(text: &str) {
    drop(LossyLine(Stderr).write_all(visible::text(text).as_bytes()));
}

/// The number of lines that this process could not write.
pub fn lost_lines() -> Counter {
    LOST.clone()
}

/// Makes writers that lose lines instead of failing.
pub struct Lossy<W>(pub W);

impl<'w, W: MakeWriter<'w>> MakeWriter<'w> for Lossy<W> {
    type Writer = LossyLine<W::Writer>;

    fn make_writer(&'w self) -> Self::Writer {
        LossyLine(self.0.make_writer())
    }
}

/// Writes one line, or counts it as lost.
pub struct LossyLine<W>(W);

impl<W: Write> Write for LossyLine<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if self.0.write_all(line).is_err() {
            LOST.inc();
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Standard error without the lock of [`std::io::Stderr`], which a thread may hold while it waits for the reader.
pub struct Stderr;

#[derive(Default)]
struct State {
    /// The reader has not read for [`PATIENCE`].
    is_stuck: bool,
    /// The last line was cut.
    is_cut: bool,
}

static STATE: Mutex<State> = Mutex::new(State { is_stuck: false, is_cut: false });

impl Write for Stderr {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        STATE.lock().write(&rustix::stdio::stderr(), line)?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl State {
    fn write(&mut self, to: &impl std::os::fd::AsFd, line: &[u8]) -> io::Result<()> {
        if self.is_cut {
            self.put(to, b"\n")?;
            self.is_cut = false;
        }
        for (number, piece) in line.chunks(PIECE).enumerate() {
            let done = self.put(to, piece);
            self.is_cut = done.is_err() && number > 0;
            done?;
        }
        Ok(())
    }

    fn put(&mut self, to: &impl std::os::fd::AsFd, mut piece: &[u8]) -> io::Result<()> {
        while !piece.is_empty() {
            let patience = if self.is_stuck { Duration::ZERO } else { PATIENCE };
            let timeout = Timespec::try_from(patience).map_err(io::Error::other)?;
            let mut polled = [PollFd::new(to, PollFlags::OUT)];
            self.is_stuck = match poll(&mut polled, Some(&timeout)) {
                Err(rustix::io::Errno::INTR) => continue,
                ready => ready? == 0,
            };
            if self.is_stuck {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            match rustix::io::write(to, piece) {
                Err(rustix::io::Errno::INTR) => {}
                written => piece = &piece[written?..],
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;
    use std::time::Instant;

    #[test]
    fn a_reader_that_stops_reading_delays_the_log_once_and_costs_whole_lines() {
        let (mut reader, writer) = io::pipe().expect("a pipe");
        let (mut state, mut kept) = (State::default(), Vec::new());
        let line = |number: usize| format!("{number:>1999}\n");
        let began = Instant::now();
        for number in 0..200 {
            if state.write(&writer, line(number).as_bytes()).is_ok() {
                kept.push(line(number));
            }
        }
        // With a wait for each line, 160 lines would take half a minute.
        assert!(kept.len() < 60 && began.elapsed() < 10 * PATIENCE, "{} {:?}", kept.len(), began.elapsed());
        let mut read = vec![0; 4096];
        reader.read_exact(&mut read).expect("some of it");
        state.write(&writer, b"last\n").expect("there is room");
        drop(writer);
        reader.read_to_end(&mut read).expect("the rest");
        let read = String::from_utf8(read).expect("text");
        assert!(read.starts_with(&kept.concat()) && read.ends_with("\nlast\n"), "{}", read.len());
    }

    #[test]
    fn a_line_that_cannot_be_written_is_counted_and_is_no_error() {
        let before = lost_lines().get();
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("a device");
        LossyLine(full).write_all(b"x\n").expect("no error");
        assert_eq!(lost_lines().get(), before + 1);
    }
}
