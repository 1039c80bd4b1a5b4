//! A stream of messages to one client: an id, a sequence, and a bounded log (H-13 to H-15, H-27 to H-29).
//!
//! The log is the only queue. A reader takes messages at its own speed. It is cut off if it falls so far
//! behind that its next message was dropped. So a slow client takes a bounded amount of memory, and a client
//! that returns resumes where it stopped.

pub(crate) mod replay;

use crate::answer::Answer;
use bytes::Bytes;
use parking_lot::Mutex;
use replay::{ReplayBudget, ReplayReservation};
use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use toolyard_dispatch::{Handover, Held};

/// The most bytes that one stream keeps for a client that reconnects, besides its latest message. A client
/// returns after about a second, and few calls send a MiB in that time.
const MAX_BYTES: usize = 1 << 20;
/// The most events that one stream keeps. The bound of the bytes does not count the overhead of an event, a few
/// hundred bytes.
const MAX_EVENTS: usize = 1_000;

/// The bounds on what a stream keeps.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LogBounds {
    pub bytes: usize,
    pub events: usize,
}

impl LogBounds {
    /// The bounds of every stream to a client.
    pub const REPLAY: Self = Self { bytes: MAX_BYTES, events: MAX_EVENTS };
}

/// A stream of events to a client, with those that it may ask for again.
pub(crate) struct Stream {
    id: u64,
    bounds: LogBounds,
    state: Mutex<StreamState>,
    changed: Notify,
    me: Weak<Stream>,
}

struct StreamState {
    /// The sequence number of the next message; the first is 1, because 0 means the beginning.
    next: u64,
    log: VecDeque<(u64, Bytes)>,
    log_bytes: usize,
    ended: Option<Instant>,
    /// Counts the readers; only the latest continues to read (H-20).
    readers: u64,
    /// Whether the latest reader is still connected.
    read: bool,
    /// When the latest reader left, or the stream began.
    left: Instant,
    /// Tells the reader to leave and to return after this time (H-14).
    release: Option<Duration>,
    /// The budget that its log counts against once it has ended; `None` if no client can return.
    kept_within: Option<(Arc<ReplayBudget>, Arc<str>)>,
    /// Counts the log in the budget until it is dropped.
    counted: Option<ReplayReservation>,
    /// Whether its log is dropped once it has no reader.
    forgotten: bool,
    /// The obligation to tell the client of a task, which the last message fulfils.
    handover: Option<Handover>,
    /// The bytes of a large last message count for their principal until it has been read.
    held: Option<Arc<Held>>,
}

/// The next step of a reader.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ReadStep {
    /// A message and its number.
    Message(u64, Bytes),
    /// The stream has ended, and all of it was read.
    Ended,
    /// The reader was replaced, or fell too far behind.
    CutOff,
    /// The reader must leave after the message with this number, and return after this time.
    Released(u64, Duration),
}

impl StreamState {
    /// Appends a message, unless the stream has ended.
    fn append(&mut self, message: Bytes, bounds: LogBounds) {
        if self.ended.is_some() {
            return;
        }
        let number = self.next;
        self.next += 1;
        self.log_bytes += message.len();
        self.log.push_back((number, message));
        while self.log.len() > 1 && (self.log.len() > bounds.events || self.log_bytes > bounds.bytes) {
            let dropped = self.log.pop_front().map_or(0, |(_, message)| message.len());
            self.log_bytes -= dropped;
        }
    }

    fn clear(&mut self) {
        self.log = VecDeque::new();
        self.log_bytes = 0;
    }
}

impl Stream {
    pub fn new(id: u64, bounds: LogBounds) -> Arc<Self> {
        let state = StreamState {
            next: 1,
            log: VecDeque::new(),
            log_bytes: 0,
            ended: None,
            readers: 0,
            read: false,
            left: Instant::now(),
            release: None,
            kept_within: None,
            counted: None,
            forgotten: false,
            handover: None,
            held: None,
        };
        Arc::new_cyclic(|me| Self {
            id,
            bounds,
            state: Mutex::new(state),
            changed: Notify::new(),
            me: me.clone(),
        })
    }

    pub const fn id(&self) -> u64 {
        self.id
    }

    /// Appends a message. Over the bounds, the oldest messages are dropped, but never the latest.
    pub fn push(&self, message: Bytes) {
        self.state.lock().append(message, self.bounds);
        self.changed.notify_waiters();
    }

    /// Appends the last message, if any, and ends the stream in one step, so that no reader mistakes an only
    /// message for the first of several.
    pub fn end(&self, last: Option<Bytes>) {
        self.end_handing_over(last, None);
    }

    /// The same, if the last message tells the client of a task.
    fn end_handing_over(&self, last: Option<Bytes>, handover: Option<Handover>) {
        let mut state = self.state.lock();
        if state.ended.is_none() {
            state.handover = handover;
        }
        if let Some(last) = last {
            state.append(last, self.bounds);
        }
        state.ended.get_or_insert_with(Instant::now);
        let is_kept = state.kept_within.is_some();
        drop(state);
        if is_kept {
            self.count();
        }
        self.changed.notify_waiters();
    }

    /// Lets its client return to it: once the stream has ended, its log counts against this budget for this
    /// principal.
    pub fn keep_within(&self, budget: Arc<ReplayBudget>, principal: Arc<str>) {
        let mut state = self.state.lock();
        state.kept_within.get_or_insert((budget, principal));
        let has_ended = state.ended.is_some();
        drop(state);
        if has_ended {
            self.count();
        }
    }

    /// Counts its log, once.
    fn count(&self) {
        let state = self.state.lock();
        let Some((budget, principal)) = state.kept_within.clone().filter(|_| state.counted.is_none()) else {
            return;
        };
        let bytes = state.log_bytes;
        drop(state);
        let mut counted = Some(budget.count(&principal, &self.me, bytes));
        let mut state = self.state.lock();
        if state.counted.is_none() {
            state.counted = counted.take();
        }
        // Another call may have counted it meanwhile. The second count is dropped without the lock.
        drop(state);
        drop(counted);
    }

    /// Drops its log. A current reader first reads it to its end.
    pub fn forget(&self) {
        let mut state = self.state.lock();
        state.forgotten = true;
        if !state.read {
            state.clear();
        }
    }

    /// Ends the stream if nothing was written to it, so that its only message can be sent another way. False
    /// if something was written.
    pub fn end_unwritten(&self) -> bool {
        let mut state = self.state.lock();
        if state.next > 1 {
            return false;
        }
        state.ended.get_or_insert_with(Instant::now);
        drop(state);
        self.changed.notify_waiters();
        true
    }

    /// The bytes in its log.
    pub fn bytes(&self) -> usize {
        self.state.lock().log_bytes
    }

    /// When it ended.
    pub fn ended(&self) -> Option<Instant> {
        self.state.lock().ended
    }

    /// Releases the reader, or the next one if there is none, for this long; messages that are written
    /// meanwhile wait in the log.
    pub fn release(&self, retry: Duration) {
        let mut state = self.state.lock();
        if state.ended.is_none() {
            state.release = Some(retry);
        }
        drop(state);
        self.changed.notify_waiters();
    }

    /// The time since the last reader left; `None` while there is one.
    pub fn unread_for(&self) -> Option<Duration> {
        let state = self.state.lock();
        (!state.read).then(|| state.left.elapsed())
    }

    /// Whether it has a reader now.
    pub fn is_read(&self) -> bool {
        self.state.lock().read
    }

    /// Waits for a message, a release, or the end.
    pub async fn wait_for_change(&self) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            {
                let state = self.state.lock();
                if state.next > 1 || state.ended.is_some() || state.release.is_some() {
                    return;
                }
            }
            changed.await;
        }
    }

    /// Ends the stream, with this answer if there is one.
    pub fn end_with(&self, answer: Option<Answer>) {
        let Some(Answer { message, handover, held, .. }) = answer else { return self.end(None) };
        self.state.lock().held = held;
        self.end_handing_over(Some(message), handover);
    }

    /// The obligation to tell the client of a task, for the writer of the last message.
    pub fn take_handover(&self) -> Option<Handover> {
        self.state.lock().handover.take()
    }

    /// The only message of an ended stream; `Some(None)` if it ended without a message. `None` if it has not
    /// ended, or has several.
    pub fn sole_message(&self) -> Option<Option<Bytes>> {
        let state = self.state.lock();
        state.ended?;
        match state.next {
            1 => Some(None),
            2 => Some(state.log.front().map(|(_, message)| message.clone())),
            _ => None,
        }
    }

    /// Continues after the message with this number; 0 reads from the beginning. Cuts off the previous
    /// reader.
    pub fn read_after(self: &Arc<Self>, number: u64) -> StreamReader {
        let mut state = self.state.lock();
        state.readers += 1;
        state.read = true;
        let reader = state.readers;
        drop(state);
        self.changed.notify_waiters();
        StreamReader { stream: self.clone(), after: number, reader }
    }

    /// Whether all messages after the one with this number can still be read
    /// (H-29).
    pub fn continues_after(&self, number: u64) -> bool {
        let state = self.state.lock();
        let oldest = state.log.front().map_or(state.next, |(number, _)| *number);
        number < state.next && number + 1 >= oldest
    }
}

/// The reader of a stream.
pub(crate) struct StreamReader {
    stream: Arc<Stream>,
    after: u64,
    reader: u64,
}

impl StreamReader {
    /// The next message. Safe to drop while it waits.
    pub async fn next(&mut self) -> ReadStep {
        loop {
            let stream = self.stream.clone();
            let changed = stream.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if let Some(next) = self.look() {
                // The reader writes what it has read before it continues.
                if next == ReadStep::Ended {
                    if let Some(held) = stream.state.lock().held.take() {
                        held.release();
                    }
                    if let Some(handover) = stream.take_handover() {
                        handover.mark_delivered();
                    }
                }
                return next;
            }
            changed.await;
        }
    }

    fn look(&mut self) -> Option<ReadStep> {
        let mut state = self.stream.state.lock();
        if state.readers != self.reader {
            return Some(ReadStep::CutOff);
        }
        let wanted = self.after + 1;
        if wanted < state.next {
            let oldest = state.log.front().map_or(state.next, |(number, _)| *number);
            let Some(index) = wanted.checked_sub(oldest) else { return Some(ReadStep::CutOff) };
            let (number, message) = state.log.get(usize::try_from(index).ok()?)?.clone();
            self.after = number;
            return Some(ReadStep::Message(number, message));
        }
        if state.ended.is_some() {
            return Some(ReadStep::Ended);
        }
        state.release.take().map(|retry| ReadStep::Released(self.after, retry))
    }
}

impl Drop for StreamReader {
    fn drop(&mut self) {
        let mut state = self.stream.state.lock();
        if state.readers == self.reader {
            state.read = false;
            state.left = Instant::now();
            if state.forgotten {
                state.clear();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt as _;

    const BOUNDS: LogBounds = LogBounds { bytes: 10, events: 3 };

    fn text(text: &'static str) -> Bytes {
        Bytes::from_static(text.as_bytes())
    }

    fn now(reader: &mut StreamReader) -> Option<ReadStep> {
        reader.next().now_or_never()
    }

    #[test]
    fn h_28_a_reader_goes_on_where_it_was_and_ends_with_the_stream() {
        let stream = Stream::new(1, BOUNDS);
        stream.push(text("a"));
        stream.push(text("b"));
        let mut reader = stream.read_after(0);
        assert_eq!(now(&mut reader), Some(ReadStep::Message(1, text("a"))));
        let mut again = stream.read_after(1);
        assert_eq!(now(&mut reader), Some(ReadStep::CutOff), "H-20: never on two streams");
        drop(reader);
        assert!(stream.is_read());
        assert_eq!(now(&mut again), Some(ReadStep::Message(2, text("b"))));
        assert_eq!(now(&mut again), None);
        stream.end(Some(text("c")));
        assert_eq!(now(&mut again), Some(ReadStep::Message(3, text("c"))));
        assert_eq!(now(&mut again), Some(ReadStep::Ended));
        stream.push(text("late"));
        assert!(stream.continues_after(3) && !stream.continues_after(4));
        drop(again);
        assert!(!stream.is_read());
    }

    #[test]
    fn h_29_the_log_is_bounded_and_who_falls_behind_is_cut_off() {
        let stream = Stream::new(1, BOUNDS);
        let mut slow = stream.read_after(0);
        for _ in 0..4 {
            stream.push(text("x"));
        }
        assert_eq!(now(&mut slow), Some(ReadStep::CutOff), "too many events");
        let mut reader = stream.read_after(1);
        assert_eq!(now(&mut reader), Some(ReadStep::Message(2, text("x"))));
        stream.push(text("longer than the bound"));
        assert_eq!(now(&mut reader), Some(ReadStep::CutOff), "too many bytes");
        assert!(!stream.continues_after(3) && stream.continues_after(4), "what is lost is known to be");
        let mut reader = stream.read_after(4);
        assert!(matches!(now(&mut reader), Some(ReadStep::Message(5, _))), "the latest is always kept");
    }

    #[test]
    fn h_14_a_reader_is_released_after_what_was_written_and_comes_back_to_the_rest() {
        let stream = Stream::new(1, BOUNDS);
        assert!(stream.unread_for().is_some());
        stream.push(text("a"));
        let mut reader = stream.read_after(0);
        assert_eq!(stream.unread_for(), None);
        let retry = Duration::from_millis(20);
        stream.release(retry);
        assert_eq!(now(&mut reader), Some(ReadStep::Message(1, text("a"))));
        assert_eq!(now(&mut reader), Some(ReadStep::Released(1, retry)));
        drop(reader);
        stream.end(Some(text("b")));
        let mut again = stream.read_after(1);
        assert_eq!(now(&mut again), Some(ReadStep::Message(2, text("b"))));
        assert_eq!(now(&mut again), Some(ReadStep::Ended), "it is released once");
        let quiet = Stream::new(2, BOUNDS);
        quiet.release(retry);
        assert!(quiet.wait_for_change().now_or_never().is_some(), "who waits for a message learns of it");
        stream.release(retry);
        assert_eq!(now(&mut stream.read_after(2)), Some(ReadStep::Ended), "what has ended is not released");
    }

    #[test]
    fn a_lone_answer_is_told_from_a_stream() {
        let lone = Stream::new(1, BOUNDS);
        assert_eq!(lone.sole_message(), None);
        assert!(lone.wait_for_change().now_or_never().is_none());
        lone.end(Some(text("answer")));
        assert!(lone.wait_for_change().now_or_never().is_some());
        assert_eq!(lone.sole_message(), Some(Some(text("answer"))));
        let silent = Stream::new(2, BOUNDS);
        silent.end(None);
        assert_eq!(silent.sole_message(), Some(None));
        let more = Stream::new(3, BOUNDS);
        more.push(text("progress"));
        more.end(Some(text("answer")));
        assert_eq!(more.sole_message(), None);
    }
}
