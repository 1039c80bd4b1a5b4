//! A tool whose tasks resume, and the journal that it keeps: one line an entry.
//!
//! The dispatcher and the store see only chunks, so the lines replace the format of the engine. The rules are
//! those of the engine: an intent is durable before its effect, a question before it is asked, a deadline before
//! the run may be parked; the rest lags.

use crate::dice::Dice;
use crate::guests::{number, question};
use crate::trace::{Observed as _, demand};
use crate::world::{World, short};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use toolyard_dispatch::{Clock, RawJson, RpcError};
use toolyard_task::journal::Chunk;
use toolyard_task::tool::{CallInfo, Report};
use toolyard_task::wire::text_result;
use toolyard_task::{Digest, JournalLost, RunContext, RunEnd, RunJournal};

/// The most runs that hand their state over, for one task.
const HAND_OVERS: u64 = 2;
/// A longer sleep is left to the host, in milliseconds.
const LONG: i64 = 2_000;

enum Step {
    Wait(u64),
    Sleep(u64),
    Request(u64),
    Ask(u64),
    Note,
    Say,
    BeginTask,
    GiveUp,
    ContinueWith,
    Fail,
}

fn script(arguments: &RawJson, generation: u64) -> Vec<Step> {
    let mut dice = Dice::new(number(arguments, "script"), 11 + generation);
    let length = dice.within(2, 7);
    let steps = (0..length).map(|_| match dice.below(60) {
        0..9 => Step::Wait(dice.pick(&[1, 20, 300, 1_000, 4_000])),
        9..23 => Step::Sleep(dice.pick(&[50, 1_500, 6_000, 15_000, 40_000])),
        23..38 => Step::Request(dice.pick(&[0, 1, 30, 700, 3_000])),
        38..46 => Step::Ask(dice.below(3)),
        46..49 => Step::Note,
        49..52 => Step::Say,
        52..54 => Step::BeginTask,
        54 => Step::GiveUp,
        55..59 => Step::ContinueWith,
        _ => Step::Fail,
    });
    steps.collect()
}

/// An effect of a task, by the number of hand-overs before it and its number in its run.
pub type EffectId = (u64, u32);

/// A journal, as its lines say.
#[derive(Debug, Default, Clone)]
pub struct Lines {
    /// The number of hand-overs before it, and the value that was handed over.
    begin: Option<(u64, u64)>,
    /// The entries of the guest, in their order.
    guest: VecDeque<String>,
    responses: BTreeMap<u32, u64>,
}

impl Lines {
    /// Reads the lines of these chunks.
    #[must_use]
    pub fn of(chunks: &[Chunk]) -> Self {
        let mut lines = Self::default();
        for chunk in chunks {
            let text = std::str::from_utf8(&chunk.body).expect("our own lines");
            for line in text.lines() {
                let words: Vec<&str> = line.split(' ').collect();
                let word = |at: usize| words[at].parse().expect("a number");
                match words[0] {
                    "begin" => lines.begin = Some((word(1), word(2))),
                    "response" => drop(lines.responses.insert(word(1) as u32, word(2))),
                    "doubt" => {}
                    _ => lines.guest.push_back(line.to_owned()),
                }
            }
        }
        lines
    }

    /// Whether the intent of this effect is there, and whether its response is.
    pub fn effect(&self, (generation, number): EffectId) -> (bool, bool) {
        match self.begin {
            Some((mine, _)) if mine == generation => {
                let intended = self.guest.contains(&format!("request {number}"));
                (intended, self.responses.contains_key(&number))
            }
            // A hand-over waits for all responses.
            Some((mine, _)) if mine > generation => (true, true),
            _ => (false, false),
        }
    }

    /// The value that its run ends with.
    pub fn value(&self) -> Option<u64> {
        let (_, mut value) = self.begin?;
        for line in &self.guest {
            value = match line.split_once(' ').unwrap_or_default() {
                ("request", number) => mix(value, &self.responses.get(&number.parse().ok()?)?.to_string()),
                ("answer", answer) => mix(value, answer),
                ("ended", said) => return (said.parse() == Ok(value)).then_some(value),
                _ => value,
            };
        }
        None
    }
}

fn mix(value: u64, with: &str) -> u64 {
    with.bytes().fold(value, |value, byte| (value ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// The value in the text of a result.
pub fn value_in(text: &str) -> Option<u64> {
    let (_, rest) = text.split_once("gives ")?;
    rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// The end of a run that cannot go on, or that was stopped.
struct Over(RunEnd);

impl From<JournalLost> for Over {
    fn from(_: JournalLost) -> Self {
        Self(RunEnd::Stopped)
    }
}

/// Runs the tool.
pub async fn run(
    world: World,
    host: usize,
    clock: Arc<dyn Clock>,
    digest: Digest,
    arguments: RawJson,
    context: Arc<dyn RunContext>,
) -> RunEnd {
    let number = world.see().runs.begin(host, number(&arguments, "call"));
    let port = context.journal();
    let mut saga = Saga {
        world: &world,
        number,
        digest,
        clock: &*clock,
        context: &*context,
        port: port.as_deref(),
        task: context.info(),
        past: Lines::default(),
        unpushed: (String::new(), 0),
        abandoned: false,
        generation: 0,
        requests: 0,
        sleeps: 0,
        value: 0,
    };
    match saga.play(&arguments).await {
        Ok(end) | Err(Over(end)) => {
            saga.note("ends");
            end
        }
    }
}

struct Saga<'a> {
    world: &'a World,
    number: usize,
    digest: Digest,
    clock: &'a dyn Clock,
    context: &'a dyn RunContext,
    port: Option<&'a dyn RunJournal>,
    task: CallInfo,
    past: Lines,
    unpushed: (String, u32),
    /// The run goes on without its journal.
    abandoned: bool,
    generation: u64,
    requests: u32,
    sleeps: u32,
    value: u64,
}

impl Drop for Saga<'_> {
    fn drop(&mut self) {
        self.world.see().runs.run_mut(self.number).is_going_on = false;
    }
}

impl Saga<'_> {
    fn note(&self, what: &str) {
        self.world.see().note(format_args!("run #{} {what}", self.number));
    }

    async fn play(&mut self, arguments: &RawJson) -> Result<RunEnd, Over> {
        self.look_up();
        self.open().await?;
        for step in script(arguments, self.generation) {
            self.look_up();
            match step {
                Step::Wait(time) if self.is_live() => tokio::time::sleep(Duration::from_millis(time)).await,
                Step::Wait(_) => {}
                Step::Sleep(time) => self.sleep(time).await?,
                Step::Request(time) => self.request(time).await?,
                Step::Ask(key) => self.ask(key).await?,
                Step::Note => drop(self.entry("note")),
                Step::Say if self.is_live() => {
                    self.context.report(Report::Status(format!("said by run #{}", self.number)));
                }
                Step::Say => {}
                Step::BeginTask => self.begin_task().await,
                Step::GiveUp => self.give_up(),
                Step::ContinueWith => self.continue_with().await?,
                Step::Fail => {
                    self.end();
                    let text = format!("run #{} failed and gives {}", self.number, self.value);
                    return Ok(RunEnd::Error(RpcError::internal(text)));
                }
            }
        }
        self.end();
        let text = format!("run #{} gives {}", self.number, self.value);
        Ok(RunEnd::Result { is_error: false, result: text_result(&text, false), message: None })
    }

    /// Reads the past, or begins.
    async fn open(&mut self) -> Result<(), Over> {
        let Some(port) = self.port else { return Ok(()) };
        let past = port.past().await?;
        if past.is_empty() {
            self.unpushed = (format!("begin 0 {}\n", self.value), 1);
            self.push();
            return Ok(());
        }
        self.past = Lines::of(&past);
        let (generation, value) = self.past.begin.expect("each journal has a beginning");
        (self.generation, self.value) = (generation, value);
        let mut seen = self.world.see();
        seen.count("resumed runs");
        seen.note(format_args!("run #{} repeats {:?}", self.number, self.past));
        Ok(())
    }

    fn is_live(&self) -> bool {
        self.past.guest.is_empty()
    }

    /// The next entry of the past, which must be this one; else records it. Returns whether it is new.
    fn entry(&mut self, entry: &str) -> bool {
        if let Some(past) = self.past.guest.pop_front() {
            if past != entry {
                self.world.see().broke(format_args!("run #{}: {past} is now {entry}", self.number));
            }
            return false;
        }
        self.record(entry);
        true
    }

    fn record(&mut self, entry: &str) {
        self.unpushed.0 += entry;
        self.unpushed.0.push('\n');
        self.unpushed.1 += 1;
    }

    /// Records an entry that no run counts as progress.
    fn record_aside(&mut self, entry: &str) {
        self.record(entry);
        self.unpushed.1 -= 1;
    }

    fn take_chunk(&mut self) -> Option<Chunk> {
        let (lines, entries) = std::mem::take(&mut self.unpushed);
        (!self.abandoned && !lines.is_empty()).then(|| Chunk { entries, body: lines.into() })
    }

    fn push(&mut self) {
        if let (Some(chunk), Some(port)) = (self.take_chunk(), self.port) {
            port.push(chunk);
        }
    }

    /// Makes everything durable.
    async fn commit(&mut self) -> Result<(), Over> {
        self.push();
        if let Some(port) = self.port {
            port.flush().await?;
        }
        self.look_up();
        Ok(())
    }

    async fn sleep(&mut self, time: u64) -> Result<(), Over> {
        self.sleeps += 1;
        let name = format!("sleep {} ", self.sleeps);
        let until = match self.past.guest.pop_front() {
            Some(past) => {
                let Some(until) = past.strip_prefix(&name) else {
                    self.world.see().broke(format_args!("run #{}: {past} is now {name}", self.number));
                    return Err(Over(RunEnd::Stopped));
                };
                until.parse().expect("a time")
            }
            None => {
                let until = self.clock.now().plus(time).0;
                self.record(&format!("{name}{until}"));
                until
            }
        };
        if !self.is_live() {
            return Ok(());
        }
        let left = |saga: &Self| until - saga.clock.now().0;
        if left(self) >= LONG
            && let Some(port) = self.port
        {
            self.commit().await?;
            port.sleep_until(until as u64).await;
        }
        loop {
            match u64::try_from(left(self)) {
                Ok(left @ 1..) => tokio::time::sleep(Duration::from_millis(left.min(1_000))).await,
                _ => return Ok(()),
            }
        }
    }

    async fn request(&mut self, time: u64) -> Result<(), Over> {
        self.requests += 1;
        let request = self.requests;
        let port = self.port;
        let _under_way = port.map(UnderWay::new);
        let is_new = self.entry(&format!("request {request}"));
        if let Some(response) = self.past.responses.get(&request) {
            self.value = mix(self.value, &response.to_string());
            return Ok(());
        }
        let effect = (self.generation, request);
        if !is_new {
            if !self.is_live() {
                self.world.see().broke(format_args!("run #{}: {effect:?} has no response", self.number));
            }
            self.record_aside(&format!("doubt {request}"));
            self.in_doubt(effect);
        }
        let intend = |of: &Self| of.world.see().runs.run_mut(of.number).intended.push(effect);
        // Until a decision about a doubt is stored, the doubt is that of an earlier run.
        if is_new {
            intend(self);
        }
        let was_task = self.task.task.is_some();
        self.commit().await?;
        if !is_new {
            intend(self);
        }
        // As the engine asks before it opens a connection.
        if !self.context.may_act() {
            self.note("may not act");
            return Err(Over(RunEnd::Stopped));
        }
        self.has_effect(effect, was_task);
        tokio::time::sleep(Duration::from_millis(time)).await;
        let response = self.world.see().runs.next_response();
        self.record_aside(&format!("response {request} {response}"));
        self.push();
        self.value = mix(self.value, &response.to_string());
        Ok(())
    }

    /// Nothing shows whether this effect has happened.
    fn in_doubt(&self, effect: EffectId) {
        let mut seen = self.world.see();
        seen.count("effects in doubt");
        let Some((id, fence)) = seen.runs.run(self.number).task else { return };
        seen.note(format_args!("run #{}: {effect:?} is in doubt", self.number));
        let former = seen.runs.of(id).filter(|run| {
            run.task.is_some_and(|(_, of)| of.attempt < fence.attempt) && run.intended.contains(&effect)
        });
        let parked = former.last().is_some_and(|run| run.is_parked);
        demand!(seen, !parked, "{}: {effect:?} is in doubt, and no host stopped", short(id));
    }

    fn has_effect(&self, effect: EffectId, was_task: bool) {
        let mut seen = self.world.see();
        seen.note(format_args!("run #{} has the effect {effect:?}", self.number));
        let known = seen.runs.run(self.number).task;
        if let Some((id, fence)) = known {
            let (intended, answered) = seen.ledger.lines(id).effect(effect);
            let id8 = short(id);
            let gave_up = self.abandoned;
            let holds = intended || gave_up || !was_task;
            demand!(seen, holds, "{id8}: {effect:?} happens before it is recorded");
            let is_shortened = seen.ledger.shortened.contains(&fence.incarnation);
            let holds = !answered || is_shortened;
            demand!(seen, holds, "{id8}: {effect:?} happens though its response is known");
            let unflushed = seen.ledger.entries.get(&id).is_some_and(|entry| entry.journal.has_unflushed);
            let holds = !unflushed || gave_up || !was_task;
            demand!(seen, holds, "{id8}: {effect:?} happens before its record is on the disk");
            let before = seen.runs.of(id).filter(|run| run.effects_had.contains(&effect)).count();
            let holds = before == 0 || (intended && !gave_up);
            demand!(seen, holds, "{id8}: {effect:?} happens again, and no entry shows the first time");
            if before > 0 {
                seen.count("effects repeated in doubt");
            }
            let holds = seen.ledger.entries.get(&id).is_none_or(|entry| {
                !entry.task.is_live() || (entry.task.fence == fence && entry.task.parked().is_none())
            });
            demand!(seen, holds || is_shortened, "{id8}: {effect:?} of a run that no longer has the task");
        }
        seen.runs.run_mut(self.number).effects_had.push(effect);
    }

    async fn ask(&mut self, key: u64) -> Result<(), Over> {
        self.entry(&format!("ask {key}"));
        let answer = match self.past.guest.pop_front() {
            Some(past) => past.strip_prefix("answer ").expect("an answer follows its question").to_owned(),
            None => {
                self.commit().await?;
                let answers = self.context.ask(vec![question(key)]).await;
                self.look_up();
                let answer = format!("{answers:?}").replace('\n', " ");
                self.note(&format!("got {answer}"));
                self.record(&format!("answer {answer}"));
                answer
            }
        };
        self.value = mix(self.value, &answer);
        Ok(())
    }

    async fn begin_task(&mut self) {
        if self.entry("begin-task") {
            drop(self.context.begin_task().await);
        }
    }

    /// The journal is full.
    fn give_up(&mut self) {
        if let Some(port) = self.port
            && self.is_live()
            && self.task.task.is_some()
            && !self.abandoned
        {
            self.push();
            self.note("gives its journal up");
            self.world.see().count("journals given up");
            port.give_up("it is full".to_owned());
            self.abandoned = true;
        }
    }

    async fn continue_with(&mut self) -> Result<(), Over> {
        if self.generation >= HAND_OVERS {
            return Ok(());
        }
        // The past has no entry of one that succeeded, because it begins another journal.
        if !self.is_live() {
            self.entry("no continue-with");
            return Ok(());
        }
        self.look_up();
        let Some(port) = self.port.filter(|_| self.task.task.is_some() && !self.abandoned) else {
            self.entry("no continue-with");
            return Ok(());
        };
        self.commit().await?;
        let (next, value) = (self.generation + 1, self.value);
        self.note("hands its state over");
        self.world.see().count("hand-overs of state");
        let first = Chunk { entries: 1, body: format!("begin {next} {value}\n").into() };
        Err(port.continue_with(first).await.into())
    }

    fn end(&mut self) {
        let ended = format!("ended {}", self.value);
        self.entry(&ended);
        if let (Some(last), Some(port)) = (self.take_chunk(), self.port) {
            port.end(last);
        }
    }

    /// Looks up its task. A plain call has none yet, or never gets one.
    fn look_up(&mut self) {
        self.task = self.context.info();
        let mut seen = self.world.see();
        let Some((task, fence)) = seen.learns(self.number, &self.task) else { return };
        let holds = task.fence != fence || task.digest == self.digest;
        demand!(seen, holds, "{}: begun on {}, and run by {}", short(task.id), task.digest, self.digest);
        seen.runs.works_on(self.number, task.id, fence);
    }
}

/// Counts a request as under way.
struct UnderWay<'a>(&'a dyn RunJournal);

impl<'a> UnderWay<'a> {
    fn new(port: &'a dyn RunJournal) -> Self {
        port.set_requests(1);
        Self(port)
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.set_requests(0);
    }
}
