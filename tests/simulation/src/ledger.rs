//! The tasks as they were written, and the promises about every write and every reply (A1 to A5).

use crate::journals::JournalLedger;
use crate::trace::{Observed as _, demand};
use crate::world::{Seen, short};
use std::collections::{BTreeMap, BTreeSet};
use toolyard_dispatch::Timestamp;
use toolyard_task::{Incarnation, Outcome, Task, TaskId};

/// The most attempts of a task that runs again from the start.
pub const ATTEMPTS: u32 = 3;

/// A task as it was written.
pub struct Entry {
    /// The last write.
    pub task: Task,
    /// For each version, the status and outcome that clients get.
    versions: Vec<(&'static str, Option<Outcome>)>,
    /// The attempt in which each question was answered, by key and params.
    answered: BTreeMap<(String, String), u32>,
    /// The highest version that a client has got.
    pub told: u64,
    /// The store has removed it, after it expired.
    pub removed: bool,
    /// Its journal, if its runs are recorded.
    pub journal: JournalLedger,
}

/// All tasks.
#[derive(Default)]
pub struct Ledger {
    /// By id.
    pub entries: BTreeMap<TaskId, Entry>,
    /// The end of each incarnation's lease, as the store reported it to that incarnation, and not to others.
    pub leases: BTreeMap<Incarnation, Timestamp>,
    /// Those whose lease ends earlier than they know, because the store's clock went forward since they renewed it: a
    /// lease cannot keep a run from an effect that another host's run has as well.
    pub shortened: BTreeSet<Incarnation>,
}

impl Ledger {
    /// Whether the lease of this incarnation has ended by the store's time.
    pub fn is_dead(&self, incarnation: Incarnation, now: Timestamp) -> bool {
        self.leases.get(&incarnation).is_none_or(|until| now >= *until)
    }
}

/// The writer of a change.
pub struct Writer<'a> {
    /// The host.
    pub host: usize,
    /// All incarnations of this process so far.
    pub incarnations: &'a BTreeSet<Incarnation>,
    /// Whether it ends its tasks instead of leaving them to other hosts.
    pub ends_all: bool,
    /// The store's time.
    pub time: Timestamp,
}

impl Seen {
    /// Records that a task was created.
    pub fn created(&mut self, writer: &Writer<'_>, task: &Task) {
        let holder = task.fence.incarnation;
        self.note(format_args!("host {} creates {} for {holder}", writer.host, short(task.id)));
        let holds = task.version == 1 && writer.incarnations.contains(&holder) && task.fence.attempt == 1;
        demand!(self, holds, "a task begins with version 1, attempt 1 and its own host: {task:?}");
        let versions = vec![(task.status().as_str(), None)];
        let (id, task, journal) = (task.id, task.clone(), JournalLedger::default());
        let entry = Entry { task, versions, answered: BTreeMap::new(), told: 0, removed: false, journal };
        let former = self.ledger.entries.insert(id, entry);
        demand!(self, former.is_none(), "two tasks of one id");
    }

    /// Records a new version of a task.
    pub fn committed(&mut self, writer: &Writer<'_>, next: &Task) {
        let id = short(next.id);
        let Some(entry) = self.ledger.entries.get_mut(&next.id) else {
            return self.broke(format_args!("{id} was written and never created"));
        };
        let before = std::mem::replace(&mut entry.task, next.clone());
        entry.versions.push((next.status().as_str(), next.outcome.clone()));
        for question in next.questions.iter().filter(|question| question.answer.is_some()) {
            let name = (question.key.clone(), question.params.as_str().to_owned());
            entry.answered.entry(name).or_insert(next.fence.attempt);
        }
        let Task { version, fence, status_message: said, .. } = next;
        let (host, status) = (writer.host, next.status().as_str());
        self.note(format_args!("host {host} writes {id}: version {version}, {fence:?}, {status}, {said:?}"));
        // An ended task still learns that its caller has the outcome.
        let delivered = Task { version: next.version, bridged: next.bridged, ..before.clone() };
        let is_delivery = before.is_undelivered() && !next.is_undelivered() && delivered == *next;
        demand!(self, before.is_live() || is_delivery, "{id}: a terminal task changed");
        demand!(self, next.version == before.version + 1, "{id}: versions grow by one");
        let fixed = |task: &Task| {
            (task.owner.clone(), task.created_at, task.ttl_ms, task.rerun, task.tool.clone(), task.era)
        };
        demand!(self, fixed(&before) == fixed(next), "{id}: what is fixed changed");
        let grows = next.updated_at >= before.updated_at && next.effects >= before.effects;
        demand!(self, grows, "{id}: what only grows shrank");
        self.look_at_questions(&before, next);
        self.look_at_parking(writer, &before, next);
        if next.fence != before.fence && before.parked().is_none() && next.parked().is_none() {
            self.look_at_claim(writer, &before, next);
        }
        if let Some(outcome) = next.outcome.as_ref().filter(|_| before.is_live()) {
            self.look_at_end(writer, &before, next, outcome);
        }
    }

    /// Checks that an answered question is not asked again.
    fn look_at_questions(&mut self, before: &Task, next: &Task) {
        let id = short(next.id);
        for was in before.questions.iter().filter(|question| question.answer.is_some()) {
            let Some(is) = next.questions.iter().find(|question| question.key == was.key) else {
                self.broke(format_args!("{id}: the question {} was forgotten", was.key));
                continue;
            };
            // The run has handed its state over, and the next run asks again.
            let same = is.params == was.params && (is == was || !was.is_superseded());
            let kept = is.answer == was.answer && is.sent == was.sent && is.asked_again == was.asked_again;
            demand!(self, kept || !same, "{id}: {} was answered and is asked again", was.key);
            let holds = same || is.wire_key() != was.wire_key();
            demand!(self, holds, "{id}: another question has the key of {}", was.key);
        }
    }

    /// Checks that a host claims only tasks of dead hosts, and only as their operator allowed.
    fn look_at_claim(&mut self, writer: &Writer<'_>, before: &Task, next: &Task) {
        let id = short(next.id);
        let (was, is) = (before.fence, next.fence);
        // Its own task, which it does not run: the store reported a failure, but had written the task.
        let stray = was.incarnation == is.incarnation;
        let holds = stray || self.ledger.is_dead(was.incarnation, writer.time);
        demand!(self, holds, "{id}: claimed from {}, which is not dead", was.incarnation);
        let holds = writer.incarnations.contains(&is.incarnation);
        demand!(self, holds, "{id}: claimed for {}, which is another host", is.incarnation);
        let raised = was.attempt + u32::from(before.started_at.is_some());
        demand!(self, is.attempt == raised, "{id}: {was:?} became {is:?}");
        if before.resume.is_some() {
            demand!(self, next.digest == before.digest, "{id}: another component");
            if !stray {
                self.lost_run(before);
            }
        } else if before.has_begun() {
            demand!(self, before.rerun, "{id}: what is not declared is run again");
            demand!(self, !before.effects, "{id}: what has had effects is run again");
            demand!(self, is.attempt <= ATTEMPTS, "{id}: an attempt too many");
        }
    }

    /// Checks that a task ends by its own run, by its client, by its time, or with its host.
    fn look_at_end(&mut self, writer: &Writer<'_>, before: &Task, next: &Task, outcome: &Outcome) {
        let id = short(next.id);
        let text = match outcome {
            Outcome::Cancelled => return,
            Outcome::Expired => {
                self.count("expiries");
                let due = next.updated_at >= next.expires_at();
                return demand!(self, due, "{id}: expired before its time");
            }
            Outcome::Result { result, .. } => result.as_str(),
            Outcome::Error(error) => error.message.as_str(),
        };
        if let Some(number) = run_number(text) {
            self.count("results");
            let run = self.runs.run(number).clone();
            let call = crate::guests::number(&next.arguments, "call");
            // Or the call became a task just before its guest ended, so the guest never knew.
            let first = before.fence.attempt == 1 && run.call == call;
            let of_task = run.task.map_or(first, |task| task == (next.id, before.fence));
            let its_own = run.host == writer.host && of_task;
            let holds = writer.incarnations.contains(&before.fence.incarnation);
            self.look_at_value(next, text);
            return demand!(self, its_own && holds, "{id}: {run:?} ended the task of {:?}", before.fence);
        }
        self.count("orphans ended");
        let holder = before.fence.incarnation;
        let mine = writer.incarnations.contains(&holder);
        let gone = mine || self.ledger.is_dead(holder, writer.time);
        demand!(self, gone, "{id}: ended though {holder} is alive: {text}");
        let honest = text.contains("effects") || text.contains("nothing was done");
        demand!(self, honest, "{id}: does not say what may have happened: {text}");
        let runs = before.fence.attempt - u32::from(before.started_at.is_none());
        let may_go_on = match before.resume {
            Some(_) => self.may_resume(before),
            None => !before.has_begun() || (before.rerun && !before.effects && runs < ATTEMPTS),
        };
        demand!(self, writer.ends_all || !may_go_on, "{id}: ended though it could have been run: {before:?}");
    }

    /// Records that the store has removed these tasks.
    pub fn removed(&mut self, ids: &[TaskId], now: Timestamp) {
        for id in ids {
            let Some(entry) = self.ledger.entries.get_mut(id) else { continue };
            entry.removed = true;
            let gone = entry.task.is_gone(now);
            self.note(format_args!("{} is removed", short(*id)));
            demand!(self, gone, "{}: removed before its time", short(*id));
        }
    }

    /// The attempt in which this question was answered; `None` if it was not.
    pub fn answered_in(&self, id: TaskId, key: &str, params: &str) -> Option<u32> {
        let entry = self.ledger.entries.get(&id)?;
        entry.answered.get(&(key.to_owned(), params.to_owned())).copied()
    }

    /// The lowest version that a request must get if it begins now.
    pub fn floor(&self, id: TaskId) -> u64 {
        self.ledger.entries.get(&id).map_or(0, |entry| entry.told)
    }

    /// Records that a client got this version of the task.
    pub fn told(&mut self, task: &Task, floor: u64) {
        let id = short(task.id);
        let Some(entry) = self.ledger.entries.get_mut(&task.id) else {
            return self.broke(format_args!("{id}: a client got it, and it is not stored"));
        };
        entry.told = entry.told.max(task.version);
        let version = (task.status().as_str(), task.outcome.clone());
        let true_then = entry.versions.get(task.version as usize - 1) == Some(&version);
        demand!(self, true_then, "{id}: a client got a version {} that never was", task.version);
        let holds = task.version >= floor;
        demand!(self, holds, "{id}: a client got version {} before, now {}", floor, task.version);
    }

    /// Records that a client was refused the task as unknown.
    pub fn told_unknown(&mut self, id: TaskId, now: Timestamp) {
        let Some(entry) = self.ledger.entries.get(&id) else { return };
        let gone = entry.removed || entry.task.is_gone(now);
        demand!(self, gone, "{}: its client was refused it as unknown", short(id));
    }
}

/// The number of the run that produced this text.
fn run_number(text: &str) -> Option<usize> {
    let (_, rest) = text.split_once("run #")?;
    let digits = rest.split(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse().ok()
}
