//! The operations of the guest.

use super::{Exchange, Phase, Recorder, Source};
use crate::entry::{Entry, QuestionName};
use crate::error::RecordError;
use crate::lane::{OpenEntry, Shape};
use crate::words;
use bytes::Bytes;

impl Recorder {
    /// A reading of the clock in milliseconds since 1970. `now_ms` is the time of this host, for a reading that
    /// is live; the result is rounded down to a step, and never before the reading before. Both clocks of a guest
    /// follow from it: the monotonic one is its distance from `base_time` of [`crate::Begin`].
    ///
    /// # Errors
    /// If the run diverges, or the journal is full.
    pub fn clock(&mut self, now_ms: u64) -> Result<u64, RecordError> {
        match &mut self.phase {
            Phase::Replay(replay) => {
                let Shape::Clock { steps } = replay.head.shape else {
                    return Err(self.diverge("clock".to_owned()));
                };
                if replay.head.used == 0 {
                    self.clock.advance(steps);
                }
                self.repeat()?;
            }
            Phase::Live(open) => {
                let steps = self.clock.steps_to(now_ms);
                match open {
                    Some(OpenEntry::Clock { readings, .. }) if steps == 0 => *readings += 1,
                    _ => self.open(OpenEntry::Clock { steps, readings: 1 }, &[])?,
                }
                self.clock.advance(steps);
            }
            Phase::Abandoned => self.clock.advance(self.clock.steps_to(now_ms)),
            Phase::Ended | Phase::Failed(_) => return Err(self.diverge("clock".to_owned())),
        }
        Ok(self.clock.now_ms())
    }

    /// A call of `poll` on a list of `len` pollables: the indices of those that were ready.
    ///
    /// # Errors
    /// If the run diverges.
    pub fn poll(&mut self, len: u32) -> Result<Source<&[u32]>, RecordError> {
        match &mut self.phase {
            Phase::Replay(replay) if replay.head.shape == Shape::Poll { len } => {
                if replay.head.used == 0 {
                    self.ready = replay.head.ready()?;
                }
                self.repeat()?;
                Ok(Source::Past(&self.ready))
            }
            Phase::Live(_) | Phase::Abandoned => Ok(Source::Live),
            _ => Err(self.diverge(format!("poll of {len}"))),
        }
    }

    /// Records the result of a poll in the order in which the guest gets it.
    ///
    /// # Errors
    /// If the journal is full, or an index is not below `len`.
    pub fn record_poll(&mut self, len: u32, ready: &[u32]) -> Result<(), RecordError> {
        if !self.require_live()? {
            return Ok(());
        }
        if ready.iter().any(|index| *index >= len) {
            return Err(RecordError::Misuse("recorded an index beyond the list of a poll"));
        }
        match &mut self.phase {
            Phase::Live(Some(OpenEntry::Poll { len: before, times }))
                if *before == len && self.ready == ready =>
            {
                *times += 1;
                Ok(())
            }
            _ => self.open(OpenEntry::Poll { len, times: 1 }, ready),
        }
    }

    /// A call of `pollable.ready`.
    ///
    /// # Errors
    /// If the run diverges.
    pub fn ready(&mut self) -> Result<Source<bool>, RecordError> {
        match &self.phase {
            Phase::Replay(replay) => {
                let Shape::Ready { is_ready } = replay.head.shape else {
                    return Err(self.diverge("ready".to_owned()));
                };
                self.repeat()?;
                Ok(Source::Past(is_ready))
            }
            Phase::Live(_) | Phase::Abandoned => Ok(Source::Live),
            Phase::Ended | Phase::Failed(_) => Err(self.diverge("ready".to_owned())),
        }
    }

    /// Records the result of `pollable.ready`.
    ///
    /// # Errors
    /// If the journal is full.
    pub fn record_ready(&mut self, is_ready: bool) -> Result<(), RecordError> {
        if !self.require_live()? {
            return Ok(());
        }
        match &mut self.phase {
            Phase::Live(Some(OpenEntry::Ready { is_ready: before, times })) if *before == is_ready => {
                *times += 1;
                Ok(())
            }
            _ => self.open(OpenEntry::Ready { is_ready, times: 1 }, &[]),
        }
    }

    /// A call of a function of the host: its result as JSON. `arguments` is the crc32 of the arguments.
    ///
    /// # Errors
    /// If the run diverges.
    pub fn call(&mut self, function: &str, arguments: u32) -> Result<Source<Bytes>, RecordError> {
        let now = Entry::Call { function, arguments, result: Bytes::new() };
        self.replay_once(&now, |entry| match entry {
            Entry::Call { function: recorded, arguments: before, result } if *recorded == function => {
                if *before == arguments {
                    Match::Same(result.clone())
                } else {
                    Match::Other("arguments")
                }
            }
            _ => Match::Different,
        })
    }

    /// Records the result of a function of the host, a JSON text.
    ///
    /// # Errors
    /// If the journal is full.
    pub fn record_call(&mut self, function: &str, arguments: u32, result: Bytes) -> Result<(), RecordError> {
        self.record(&Entry::Call { function, arguments, result })
    }

    /// Questions that the guest asks at once. `arguments` is the crc32 of all of them with their params. New
    /// questions may leave as soon as all that was recorded is durable.
    ///
    /// # Errors
    /// If the run diverges, or the journal is full.
    pub fn ask(&mut self, arguments: u32, questions: &[QuestionName<'_>]) -> Result<Source<()>, RecordError> {
        let now = Entry::Ask { arguments, questions: questions.to_vec() };
        let compare = |entry: &Entry<'_>| match entry {
            Entry::Ask { arguments: before, questions: recorded } if *recorded == questions => {
                if *before == arguments { Match::Same(()) } else { Match::Other("params") }
            }
            _ => Match::Different,
        };
        let source = self.replay_once(&now, compare)?;
        if source == Source::Live {
            self.record(&now)?;
        }
        Ok(source)
    }

    /// The answers to the questions before, as JSON.
    ///
    /// # Errors
    /// If the run diverges.
    pub fn answer(&mut self) -> Result<Source<Bytes>, RecordError> {
        self.replay_once(&Entry::Answer(Bytes::new()), |entry| match entry {
            Entry::Answer(answers) => Match::Same(answers.clone()),
            _ => Match::Different,
        })
    }

    /// Records answers, a JSON text. The history understands an object that has, for each key of a question, an
    /// object with `action` and `content`.
    ///
    /// # Errors
    /// If the journal is full.
    pub fn record_answer(&mut self, answers: Bytes) -> Result<(), RecordError> {
        self.record(&Entry::Answer(answers))
    }

    /// A wait of `duration_ms` milliseconds: the moment at which it ends, in milliseconds since 1970. `now_ms` is
    /// the time of this host, for a wait that is live. The caller waits until that moment if the recorder is live
    /// after this call. Otherwise the past shows that the guest went on, and the caller does not wait.
    ///
    /// # Errors
    /// If the run diverges, or the journal is full.
    pub fn sleep(&mut self, duration_ms: u64, now_ms: u64) -> Result<u64, RecordError> {
        let until_ms = now_ms.saturating_add(duration_ms);
        let now = Entry::Sleep { duration_ms, until_ms };
        let compare = |entry: &Entry<'_>| match entry {
            Entry::Sleep { duration_ms: before, until_ms } if *before == duration_ms => {
                Match::Same(*until_ms)
            }
            _ => Match::Different,
        };
        if let Source::Past(recorded) = self.replay_once(&now, compare)? {
            return Ok(recorded);
        }
        self.record(&now)?;
        Ok(until_ms)
    }

    /// An HTTP request. `head` is the crc32 of the method, the URI and the headers. The recorder numbers the
    /// requests of a run in their order.
    ///
    /// # Errors
    /// If the run diverges, or the journal is full.
    pub fn request(&mut self, head: u32, method: &str, uri: &str) -> Result<Exchange, RecordError> {
        let number = self
            .requests
            .checked_add(1)
            .ok_or(RecordError::Misuse("more requests than their numbers allow"))?;
        let now = Entry::Request { number, head, method, uri };
        let compare = |entry: &Entry<'_>| match entry {
            Entry::Request { head: before, method: m, uri: u, .. } if *m == method && *u == uri => {
                if *before == head { Match::Same(()) } else { Match::Other("headers") }
            }
            _ => Match::Different,
        };
        let exchange = match self.replay_once(&now, compare)? {
            Source::Past(()) => Exchange::Past(number),
            Source::Live => {
                self.record(&now)?;
                self.unanswered.insert(number);
                Exchange::Live(number)
            }
        };
        self.requests = number;
        Ok(exchange)
    }

    /// The end of the run, with the sha256 of its outcome. Afterwards every operation of the guest diverges.
    ///
    /// # Errors
    /// If the run diverges, or the journal is full.
    pub fn end(&mut self, outcome: &[u8; 32]) -> Result<Source<()>, RecordError> {
        let now = Entry::Ended(*outcome);
        let compare = |entry: &Entry<'_>| match entry {
            Entry::Ended(recorded) if recorded == outcome => Match::Same(()),
            _ => Match::Different,
        };
        let source = self.replay_once(&now, compare)?;
        if source == Source::Live {
            self.record(&now)?;
            if !self.is_abandoned() {
                self.phase = Phase::Ended;
            }
        }
        Ok(source)
    }

    /// Compares an operation with the entry at hand, unless it is live. `now` is the operation as an entry, for
    /// messages.
    fn replay_once<T>(
        &mut self,
        now: &Entry<'_>,
        compare: impl FnOnce(&Entry<'_>) -> Match<T>,
    ) -> Result<Source<T>, RecordError> {
        let compared = match &self.phase {
            Phase::Replay(replay) => compare(&replay.head.entry()?),
            Phase::Live(_) | Phase::Abandoned => return Ok(Source::Live),
            Phase::Ended | Phase::Failed(_) => Match::Different,
        };
        match compared {
            Match::Same(answer) => {
                self.repeat()?;
                Ok(Source::Past(answer))
            }
            Match::Other(part) => Err(self.diverge(format!("{} with other {part}", words::entry(now)))),
            Match::Different => Err(self.diverge(words::entry(now))),
        }
    }
}

/// How an operation compares with an entry.
enum Match<T> {
    /// The same, with this answer.
    Same(T),
    /// The same in words, but for a part that the words do not show.
    Other(&'static str),
    Different,
}
