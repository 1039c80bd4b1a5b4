//! The state of the model: two hosts, one task, its journal, and the leases.

use toolyard_task::task::{Era, Parked, Resume};
use toolyard_task::wire::{RawJson, RequestedTtl, Timestamp};
use toolyard_task::{Digest, Event, Fence, Incarnation, Outcome, Owner, Task, TaskId, apply};
use uuid::Uuid;

/// The ways in which a task ends.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub enum End {
    /// By the run of this fence.
    Finished(u64, u32),
    /// By a cancellation.
    Cancelled,
    /// Because its host died, and it was not run again.
    Failed,
}

/// The part of the stored task that matters here. The version does not: a changed task is no longer equal.
#[derive(Clone, Copy, Debug, Default, Hash, PartialEq, Eq)]
pub struct Record {
    pub incarnation: u64,
    pub attempt: u32,
    pub started: bool,
    pub effects: bool,
    pub rerun: bool,
    /// Whether its runs are recorded.
    pub resume: bool,
    pub parked: bool,
    pub end: Option<End>,
}

/// How far a journal has got.
#[derive(Clone, Copy, Debug, Default, Hash, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reached {
    #[default]
    Beginning,
    /// The effect is about to happen.
    Intent,
    /// The effect has happened.
    Response,
}

/// The journal of a task that resumes.
#[derive(Clone, Copy, Debug, Default, Hash, PartialEq, Eq)]
pub struct Journal {
    /// The run that may append.
    pub fence: Option<(u64, u32)>,
    pub reached: Reached,
}

/// A host process; its life may be `Down`.
#[derive(Clone, Copy, Debug, Default, Hash, PartialEq, Eq)]
pub enum Life {
    #[default]
    Up,
    Down,
}

#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub struct Run {
    pub incarnation: u64,
    pub attempt: u32,
    /// Whether the guest has started.
    pub begun: bool,
    /// The journal as this run knows it.
    pub knows: Reached,
    /// Whether this run has recorded its intent, or its doubt.
    pub intended: bool,
    /// Whether this run has had its effect.
    pub acted: bool,
}

impl Run {
    pub const fn of(fence: (u64, u32), begun: bool) -> Self {
        let (incarnation, attempt) = fence;
        Self { incarnation, attempt, begun, knows: Reached::Beginning, intended: false, acted: false }
    }

    pub const fn fence(&self) -> (u64, u32) {
        (self.incarnation, self.attempt)
    }

    /// Whether it waits for what its effect leads to.
    pub fn has_request(&self) -> bool {
        self.intended && self.knows != Reached::Response
    }
}

#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub enum What {
    Start,
    Effects,
    Finish,
    Release,
    EndForShutdown,
    Claim,
    Orphan,
    Park,
    Wake,
    /// Append the intent, or the doubt.
    Intend,
    /// Append the response.
    Respond,
}

/// A write on its way to the store.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub struct Write {
    pub what: What,
    /// The task as the writer read it.
    pub before: Record,
    /// The incarnation of the writer.
    pub by: u64,
    /// The run that appends to the journal.
    pub appends: Option<(u64, u32)>,
}

#[derive(Clone, Copy, Debug, Default, Hash, PartialEq, Eq)]
pub struct Host {
    pub life: Life,
    pub incarnation: Option<u64>,
    /// The ticks for which the host considers itself alive.
    pub believes: u8,
    pub draining: bool,
    pub run: Option<Run>,
    pub write: Option<Write>,
}

#[derive(Clone, Copy, Debug, Default, Hash, PartialEq, Eq)]
pub enum Cancel {
    #[default]
    Not,
    Acknowledged,
    Refused,
}

#[derive(Clone, Debug, Default, Hash, PartialEq, Eq)]
pub struct State {
    pub hosts: [Host; 2],
    /// The remaining ticks of each incarnation's lease, by number. An incarnation with none left never lives
    /// again.
    pub leases: Vec<u8>,
    pub task: Record,
    pub cancel: Cancel,
    /// The number of guests that have started.
    pub begun: u8,
    /// The first end of the task.
    pub ended: Option<End>,
    /// Whether a run wrote to the task after another host had claimed it.
    pub zombie_wrote: bool,
    pub journal: Journal,
    /// The number of effects.
    pub effects: u8,
    /// Whether a run appended that did not have the task.
    pub zombie_appended: bool,
    /// Whether a run had its effect that did not have the task.
    pub zombie_acted: bool,
    /// Whether the effect happened although its response was durable.
    pub acted_again: bool,
    /// Whether the effect happened again although nothing showed the first time.
    pub acted_unknown: bool,
    pub parks: u8,
    pub crashes: u8,
    pub drains: u8,
}

#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub enum Action {
    Tick,
    Cancel,
    /// This host does something, or something happens to it.
    Of(usize, Deed),
}

#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub enum Deed {
    Register,
    /// A renewal reaches the store, and its answer arrives or is lost.
    Renew(bool),
    /// A host notices that its lease has run out.
    FenceSelf,
    /// A host reads the task for this purpose.
    Read(What),
    /// A host's write reaches the store.
    Land,
    /// A host's write is lost.
    Lose,
    /// A run is parked, and its host gets an error of the store.
    LandUnheard,
    /// A run has its effect.
    Act,
    /// A run learns that its task no longer belongs to it.
    Stop,
    Crash,
    Restart,
    Drain,
    Resign,
}

impl Record {
    pub fn fence(&self) -> Fence {
        Fence { incarnation: Incarnation(self.incarnation), attempt: self.attempt }
    }

    pub fn task(&self) -> Task {
        Task {
            id: TaskId(Uuid::nil()),
            owner: Owner::Local,
            session: None,
            era: Era::Sessions,
            client_capabilities: RawJson::empty_object(),
            tool: "t".to_owned(),
            digest: Digest(String::new()),
            arguments: RawJson::empty_object(),
            progress_token: None,
            requested_ttl: RequestedTtl::Absent,
            ttl_ms: 1_000_000,
            poll_interval_ms: 1,
            created_at: Timestamp(0),
            updated_at: Timestamp(0),
            status_message: None,
            version: 1,
            fence: self.fence(),
            started_at: self.started.then_some(Timestamp(0)),
            effects: self.effects,
            rerun: self.rerun,
            resume: self.resume.then(|| Resume {
                parked: self.parked.then_some(Parked { wake: Some(Timestamp(0)) }),
                ..Resume::default()
            }),
            bridged: None,
            unresumable: None,
            approval: None,
            questions: Vec::new(),
            outcome: self.end.map(|_| Outcome::Cancelled),
        }
    }

    pub fn of(task: &Task) -> Self {
        let finished = End::Finished(task.fence.incarnation.0, task.fence.attempt);
        Self {
            incarnation: task.fence.incarnation.0,
            attempt: task.fence.attempt,
            started: task.started_at.is_some(),
            effects: task.effects,
            rerun: task.rerun,
            resume: task.resume.is_some(),
            parked: task.parked().is_some(),
            end: task.outcome.as_ref().map(|outcome| match outcome {
                Outcome::Result { .. } => finished,
                Outcome::Cancelled => End::Cancelled,
                Outcome::Error(_) | Outcome::Expired => End::Failed,
            }),
        }
    }

    /// The task after `apply`.
    pub fn after(&self, event: Event) -> Option<Self> {
        Some(Self::of(&apply(&self.task(), event, Timestamp(1)).ok()?.task))
    }
}

impl Host {
    pub fn fence(&self) -> Option<Fence> {
        let run = self.run?;
        Some(Fence { incarnation: Incarnation(run.incarnation), attempt: run.attempt })
    }
}

impl State {
    /// No host holds a parked task, so its holder is never dead; without that rule it is.
    pub fn is_dead(&self, incarnation: u64) -> bool {
        incarnation.checked_sub(1).is_none_or(|index| self.leases[index as usize] == 0)
    }

    /// Whether a host considers itself alive although the others consider it dead.
    pub fn somebody_is_wrong(&self) -> bool {
        let wrong = |host: &Host| {
            host.life != Life::Down
                && host.believes > 0
                && host.incarnation.is_some_and(|mine| self.is_dead(mine))
        };
        self.hosts.iter().any(wrong)
    }

    /// The number of runs of the task on hosts that consider themselves alive. A run of a task that resumes may
    /// not know that it was parked; what it may still do is another promise.
    pub fn unfenced(&self) -> usize {
        if self.task.resume {
            return 0;
        }
        let runs = |host: &&Host| host.life != Life::Down && host.believes > 0 && host.run.is_some();
        self.hosts.iter().filter(runs).count()
    }
}
