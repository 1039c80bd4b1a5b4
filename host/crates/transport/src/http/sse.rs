//! Server-sent events: frames, ids, keep-alive (H-13, H-14, H-27, H-28).

use crate::answer::one_line;
use crate::stream::{ReadStep, Stream, StreamReader};
use bytes::Bytes;
use futures_util::Stream as FutureStream;
use futures_util::stream;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// The id of an event: the stream, in 16 hexadecimal digits, and the number in
/// it. Unique in its session, because the streams are (H-27).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventId {
    /// The stream.
    pub stream: u64,
    /// The number; 0 is the event that opens the stream.
    pub number: u64,
}

impl EventId {
    /// The id that `text` spells exactly as the host does.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (stream, number) = text.split_once('-')?;
        let id = Self { stream: u64::from_str_radix(stream, 16).ok()?, number: number.parse().ok()? };
        (id.to_string() == text).then_some(id)
    }
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}-{}", self.stream, self.number)
    }
}

/// The comment that keeps a silent stream open.
pub(crate) const KEEP_ALIVE: Bytes = Bytes::from_static(b": keep-alive\n\n");

/// The time after which a client should reconnect when an event stream broke: short enough that users do not
/// notice, and long enough that clients do not overload a restarting host.
pub(super) const RECONNECT: Duration = Duration::from_secs(1);

/// How a stream is written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EventFormat {
    /// Whether the client accepts an event with empty data (H-13).
    pub priming: bool,
    pub keep_alive: Duration,
}

/// The events of `stream` after `number`. A stream that is read from its beginning starts with the event that
/// gives its id.
pub(crate) fn events(
    stream: &Arc<Stream>,
    number: u64,
    format: EventFormat,
) -> impl FutureStream<Item = Bytes> + Send + use<> {
    let reader = stream.read_after(number);
    let opening =
        (format.priming && number == 0).then(|| pause(EventId { stream: stream.id(), number: 0 }, RECONNECT));
    stream::unfold((Some(reader), stream.id(), opening), move |(reader, id, opening)| async move {
        let mut reader = reader?;
        if let Some(opening) = opening {
            return Some((opening, (Some(reader), id, None)));
        }
        let (event, goes_on) = next_event(&mut reader, id, format.keep_alive).await?;
        Some((event, (goes_on.then_some(reader), id, None)))
    })
}

/// The next event, and whether another may follow.
async fn next_event(reader: &mut StreamReader, id: u64, keep_alive: Duration) -> Option<(Bytes, bool)> {
    match tokio::time::timeout(keep_alive, reader.next()).await {
        Ok(ReadStep::Message(number, message)) => {
            Some((frame(EventId { stream: id, number }, message), true))
        }
        Ok(ReadStep::Released(number, retry)) => Some((pause(EventId { stream: id, number }, retry), false)),
        Ok(ReadStep::Ended | ReadStep::CutOff) => None,
        Err(_) => Some((KEEP_ALIVE, true)),
    }
}

/// An event without data: it names the position to resume from, and when.
fn pause(id: EventId, retry: Duration) -> Bytes {
    format!("id: {id}\nretry: {}\ndata: \n\n", retry.as_millis()).into()
}

fn frame(id: EventId, message: Bytes) -> Bytes {
    event(&format!("id: {id}\ndata: "), message)
}

/// An event without an id, because no client resumes from it (26H-12).
pub(crate) fn bare(message: Bytes) -> Bytes {
    event("data: ", message)
}

fn event(head: &str, message: Bytes) -> Bytes {
    let message = one_line(message);
    let mut out = Vec::with_capacity(head.len() + message.len() + 2);
    out.extend_from_slice(head.as_bytes());
    out.extend_from_slice(&message);
    out.extend_from_slice(b"\n\n");
    out.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn h_27_event_ids_name_stream_and_number_and_have_one_spelling() {
        let id = EventId { stream: 0xabc, number: 7 };
        assert_eq!(id.to_string(), "0000000000000abc-7");
        assert_eq!(EventId::parse("0000000000000abc-7"), Some(id));
        for other in "|-|abc-7|0000000000000ABC-7|0000000000000abc-07|0000000000000abc-+7|x-1".split('|') {
            assert_eq!(EventId::parse(other), None, "{other}");
        }
    }

    #[test]
    fn newlines_between_tokens_do_not_break_the_frame() {
        let framed = frame(EventId { stream: 1, number: 1 }, Bytes::from_static(b"{\n\r\n\"a\": 1}"));
        assert_eq!(framed, "id: 0000000000000001-1\ndata: {   \"a\": 1}\n\n".as_bytes());
    }
}
