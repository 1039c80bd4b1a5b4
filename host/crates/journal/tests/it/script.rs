//! Guests that follow a script, and worlds that answer them.

use bytes::Bytes;
use proptest::prelude::*;
use std::num::NonZeroU32;
use toolyard_journal::{
    Begin, Chunk, ChunkWriter, Exchange, FORMAT, Frame, QuestionName, RecordError, Recorder, Response,
    ResponseOutcome, Seed, Source,
};

/// More than any test records.
pub const LIMIT: u64 = 1 << 24;
/// A past that no host records.
pub const DAMAGED: RecordError = RecordError::Misuse("a poll without its response");
pub const BASE: u64 = 1_764_000_000_000;

pub fn begin() -> Begin {
    Begin {
        format: FORMAT,
        version: "0.2.0".to_owned(),
        tool: "order".to_owned(),
        digest: format!("sha256:{}", "3fa1c2".repeat(11)).chars().take(71).collect(),
        seed: Seed([7; 32]),
        base_time: BASE,
        environment: vec![("LANG".to_owned(), "C".to_owned()), ("A".to_owned(), "1".to_owned())],
        limits: [("limits.memory".to_owned(), 1 << 26)].into(),
        clock_step: NonZeroU32::MIN,
        state: None,
        requests_before: 0,
        arguments: 0x1234_5678,
    }
}

pub fn recorder() -> Recorder {
    Recorder::new(begin(), LIMIT).expect("a recorder")
}

pub fn load(chunks: &[Chunk]) -> Recorder {
    Recorder::load(chunks.to_vec(), LIMIT).expect("a journal")
}

/// The same run on another host, after all that was recorded is stored in one chunk.
pub fn again(run: &mut Recorder) -> Recorder {
    load(&[run.take_chunk(0, 0).expect("a chunk")])
}

pub fn text_body(text: &str) -> Response {
    let headers = vec![(Bytes::from_static(b"content-type"), Bytes::from_static(b"text/plain"))];
    let body = Bytes::copy_from_slice(text.as_bytes());
    Response { request_body: 9, outcome: ResponseOutcome::Complete { status: 201, headers, body } }
}

/// One step of a guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// The number of readings.
    Clock(u8),
    /// The length of the list, and how often.
    Poll(u32, u8),
    Ready,
    Call(String, u32),
    Ask(u32, Vec<String>),
    Sleep(u64),
    /// The crc32 of the head, and the URI.
    Request(u32, String),
    /// Waits for the oldest request that has no response yet.
    Await,
    /// Not a step of the guest: the host stores what was recorded.
    Flush,
}

pub fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (1..6_u8).prop_map(Step::Clock),
        2 => (1..5_u32, 1..4_u8).prop_map(|(len, times)| Step::Poll(len, times)),
        1 => Just(Step::Ready),
        2 => ("[a-z-]{1,8}", 0..3_u32).prop_map(|(function, arguments)| Step::Call(function, arguments)),
        1 => (0..3_u32, prop::collection::vec("\\PC{0,6}", 1..3)).prop_map(|(sum, keys)| Step::Ask(sum, keys)),
        1 => (0..100_u64).prop_map(Step::Sleep),
        3 => (any::<u32>(), "https://[a-z]{1,9}/\\PC{0,9}").prop_map(|(head, uri)| Step::Request(head, uri)),
        2 => Just(Step::Await),
        2 => Just(Step::Flush),
    ]
}

pub fn steps() -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(step(), 0..40)
}

/// Chance: the answers differ from world to world.
#[derive(Debug, Clone)]
pub struct World {
    number: u64,
    now_ms: u64,
    turns: u64,
}

impl World {
    /// The clock of a later world is behind that of an earlier one.
    pub fn new(number: u64) -> Self {
        Self { number, now_ms: BASE + 1_000 - number * 500, turns: 0 }
    }

    fn turn(&mut self) -> u64 {
        self.turns += 1;
        let mixed = (self.turns ^ self.number << 32).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        self.now_ms += mixed % 3;
        mixed
    }
}

/// The result of an operation, and whether it came from the past.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observation {
    pub text: String,
    pub is_past: bool,
}

/// A guest and its host.
pub struct Run {
    pub recorder: Recorder,
    pub world: World,
    pub chunks: Vec<Chunk>,
    waiting: Vec<u32>,
    /// The question was recorded, and its answer was not.
    is_answered_live: bool,
}

impl Run {
    pub fn new(recorder: Recorder, world: World, chunks: &[Chunk]) -> Self {
        Self { recorder, world, chunks: chunks.to_vec(), waiting: Vec::new(), is_answered_live: false }
    }

    pub fn flush(&mut self) {
        self.chunks.extend(self.recorder.take_chunk(self.world.now_ms, self.world.turns));
    }

    /// Follows the script to its end.
    pub fn follow(&mut self, steps: &[Step]) -> Result<Vec<Observation>, RecordError> {
        let mut seen = Vec::new();
        for step in steps {
            self.act(step, &mut seen)?;
        }
        let outcome = [seen.iter().map(|observed| observed.text.len()).sum::<usize>() as u8; 32];
        self.recorder.end(&outcome)?;
        self.flush();
        Ok(seen)
    }

    pub fn act(&mut self, step: &Step, seen: &mut Vec<Observation>) -> Result<(), RecordError> {
        let times = match step {
            Step::Clock(times) | Step::Poll(_, times) => *times,
            Step::Flush => {
                self.flush();
                return Ok(());
            }
            _ => 1,
        };
        for _ in 0..times {
            let is_past = !self.recorder.is_live();
            let text = self.act_once(step)?;
            let is_past = is_past && !std::mem::take(&mut self.is_answered_live);
            seen.push(Observation { text, is_past });
        }
        Ok(())
    }

    fn act_once(&mut self, step: &Step) -> Result<String, RecordError> {
        let chance = self.world.turn();
        Ok(match step {
            Step::Clock(_) => self.recorder.clock(self.world.now_ms)?.to_string(),
            Step::Poll(len, _) => self.poll(*len, chance)?,
            Step::Ready => match self.recorder.ready()? {
                Source::Past(is_ready) => is_ready.to_string(),
                Source::Live => {
                    self.recorder.record_ready(chance.is_multiple_of(2))?;
                    (chance.is_multiple_of(2)).to_string()
                }
            },
            Step::Call(function, arguments) => match self.recorder.call(function, *arguments)? {
                Source::Past(result) => String::from_utf8_lossy(&result).into_owned(),
                Source::Live => {
                    self.recorder.record_call(function, *arguments, chance.to_string().into())?;
                    chance.to_string()
                }
            },
            Step::Ask(arguments, keys) => self.ask(*arguments, keys, chance)?,
            Step::Sleep(ms) => self.recorder.sleep(*ms, self.world.now_ms)?.to_string(),
            Step::Request(head, uri) => {
                let exchange = self.recorder.request(*head, "POST", uri)?;
                self.waiting.push(exchange.number());
                if let Exchange::Live(_) = exchange {
                    self.flush();
                }
                exchange.number().to_string()
            }
            Step::Await => self.await_response(chance)?,
            Step::Flush => String::new(),
        })
    }

    fn poll(&mut self, len: u32, chance: u64) -> Result<String, RecordError> {
        if let Source::Past(ready) = self.recorder.poll(len)? {
            return Ok(format!("{ready:?}"));
        }
        let ready: Vec<u32> = (0..len).rev().filter(|index| chance >> index & 1 == 1).collect();
        self.recorder.record_poll(len, &ready)?;
        Ok(format!("{ready:?}"))
    }

    fn ask(&mut self, arguments: u32, keys: &[String], chance: u64) -> Result<String, RecordError> {
        let questions: Vec<_> = keys.iter().map(|key| QuestionName { key, method: "roots/list" }).collect();
        self.recorder.ask(arguments, &questions)?;
        Ok(match self.recorder.answer()? {
            Source::Past(answers) => String::from_utf8_lossy(&answers).into_owned(),
            Source::Live => {
                self.is_answered_live = true;
                self.recorder.record_answer(chance.to_string().into())?;
                chance.to_string()
            }
        })
    }

    /// The host answers, then `poll` says so, then the guest reads.
    fn await_response(&mut self, chance: u64) -> Result<String, RecordError> {
        if self.waiting.is_empty() {
            return Ok(String::new());
        }
        let number = self.waiting.remove(0);
        let past = self.recorder.response(number)?;
        if let Source::Past(ready) = self.recorder.poll(1)? {
            let ready = ready.to_vec();
            return match past {
                Some(response) if ready == [0] => Ok(format!("{response:?}")),
                // A poll is recorded after the response that ended it.
                _ => Err(DAMAGED),
            };
        }
        let is_new = past.is_none();
        let response = past.unwrap_or_else(|| text_body(&chance.to_string()));
        if is_new {
            self.recorder.record_response(number, &response)?;
        }
        self.recorder.record_poll(1, &[0])?;
        Ok(format!("{response:?}"))
    }
}

/// A whole run of a script in the first world: its journal, and what the guest observed.
pub fn recorded(steps: &[Step]) -> (Vec<Chunk>, Vec<Observation>) {
    let mut run = Run::new(recorder(), World::new(0), &[]);
    let seen = run.follow(steps).expect("nothing fails");
    (run.chunks, seen)
}

/// All frames of a journal.
pub fn frames(chunks: &[Chunk]) -> Vec<Frame> {
    let frames = (0..).zip(chunks).flat_map(|(number, chunk)| chunk.frames(number).expect("a chunk").1);
    frames.map(|frame| frame.expect("a frame")).collect()
}

/// A journal of these frames in one chunk.
pub fn journal(frames: &[Frame]) -> Vec<Chunk> {
    let mut writer = ChunkWriter::new();
    frames.iter().for_each(|frame| writer.push(&frame.entry().expect("an entry")));
    vec![writer.finish(BASE, 0)]
}
