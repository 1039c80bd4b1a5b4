//! Two hosts, one task, one store: the protocol of leases, small enough to check every order of events.
//!
//! The host's own code, `toolyard_task::apply` and `toolyard_task::recovery`, decides what happens to the
//! task. This model only decides who acts when. Time passes in ticks; a lease has [`LEASE`] of them. A write
//! has two steps, as in the dispatcher: the writer reads the task, and its write reaches the store later or
//! never, whatever happens to the writer meanwhile.
//!
//! Three things are left out, because every order of events contains them already. A paused host takes no
//! steps while time passes. A cancellation that compares acts at the moment when it reaches the store. A slow
//! renewal begins a lease that ends later than the host believes, so an immediate one is the worst case.

use stateright::{Model, Property};
use toolyard_task::recovery::{Departure, Recovery, recovery};
use toolyard_task::task::Era;
use toolyard_task::wire::{RawJson, RequestedTtl, Timestamp};
use toolyard_task::{Digest, Event, Fence, Incarnation, Outcome, Owner, Task, TaskId, apply};
use uuid::Uuid;

/// The length of a lease in ticks.
pub const LEASE: u8 = 2;
/// How many ticks before the end of its lease a host considers itself dead.
const MARGIN: u8 = 1;
/// The most attempts of a task.
const ATTEMPTS: u32 = 2;
/// The most incarnations of both hosts together.
const INCARNATIONS: usize = 3;

/// The rules of the protocol that are in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rules {
    /// All rules.
    All,
    /// A run may write even if another host holds its task.
    WithoutFences,
    /// A writer does not compare the stored task with the one that it read.
    WithoutComparison,
    /// Hosts may also claim tasks of live hosts.
    WithoutLeases,
    /// A host believes in its lease for the whole lease, from the arrival of the answer.
    WithoutMargin,
    /// The declarations of a tool are ignored.
    WithoutPolicy,
}

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
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub struct Record {
    incarnation: u64,
    attempt: u32,
    started: bool,
    effects: bool,
    rerun: bool,
    pub end: Option<End>,
}

/// A host process; its life may be `Down`.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
enum Life {
    Up,
    Down,
}

#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
struct Run {
    incarnation: u64,
    attempt: u32,
    /// Whether the guest has started.
    begun: bool,
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
}

/// A write on its way to the store.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
struct Write {
    what: What,
    /// The task as the writer read it.
    before: Record,
    /// The incarnation of the writer.
    by: u64,
}

#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
struct Host {
    life: Life,
    incarnation: Option<u64>,
    /// The ticks for which the host considers itself alive.
    believes: u8,
    draining: bool,
    run: Option<Run>,
    write: Option<Write>,
}

#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub enum Cancel {
    Not,
    Acknowledged,
    Refused,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq)]
pub struct State {
    hosts: [Host; 2],
    /// The remaining ticks of each incarnation's lease, by number. An incarnation with none left never lives
    /// again.
    leases: Vec<u8>,
    pub task: Record,
    pub cancel: Cancel,
    /// The number of guests that have started.
    pub begun: u8,
    /// The first end of the task.
    pub ended: Option<End>,
    /// Whether a run wrote to the task after another host had claimed it.
    pub zombie_wrote: bool,
    crashes: u8,
    drains: u8,
}

#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub enum Action {
    Tick,
    Register(usize),
    /// A renewal reaches the store, and its answer arrives or is lost.
    Renew(usize, bool),
    /// A host notices that its lease has run out.
    FenceSelf(usize),
    /// A host reads the task for this purpose.
    Read(usize, What),
    /// A host's write reaches the store.
    Land(usize),
    /// A host's write is lost.
    Lose(usize),
    /// A run learns that its task no longer belongs to it.
    Stop(usize),
    Crash(usize),
    Restart(usize),
    Drain(usize),
    Resign(usize),
    Cancel,
}

use What::{Claim, Effects, EndForShutdown, Finish, Orphan, Release, Start};

pub struct Leases(pub Rules);

impl Record {
    fn fence(&self) -> Fence {
        Fence { incarnation: Incarnation(self.incarnation), attempt: self.attempt }
    }

    fn task(&self) -> Task {
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
            bridged: None,
            approval: None,
            questions: Vec::new(),
            outcome: self.end.map(|_| Outcome::Cancelled),
        }
    }

    fn of(task: &Task) -> Self {
        let finished = End::Finished(task.fence.incarnation.0, task.fence.attempt);
        Self {
            incarnation: task.fence.incarnation.0,
            attempt: task.fence.attempt,
            started: task.started_at.is_some(),
            effects: task.effects,
            rerun: task.rerun,
            end: task.outcome.as_ref().map(|outcome| match outcome {
                Outcome::Result { .. } => finished,
                Outcome::Cancelled => End::Cancelled,
                Outcome::Error(_) | Outcome::Expired => End::Failed,
            }),
        }
    }

    /// The task after `apply`.
    fn after(&self, event: Event) -> Option<Self> {
        Some(Self::of(&apply(&self.task(), event, Timestamp(1)).ok()?.task))
    }
}

impl Host {
    const FRESH: Self =
        Self { life: Life::Up, incarnation: None, believes: 0, draining: false, run: None, write: None };

    fn fence(&self) -> Option<Fence> {
        let run = self.run?;
        Some(Fence { incarnation: Incarnation(run.incarnation), attempt: run.attempt })
    }
}

impl State {
    fn is_dead(&self, incarnation: u64) -> bool {
        self.leases[incarnation as usize - 1] == 0
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

    /// The number of runs of the task on hosts that consider themselves alive.
    pub fn unfenced(&self) -> usize {
        let runs = |host: &&Host| host.life != Life::Down && host.believes > 0 && host.run.is_some();
        self.hosts.iter().filter(runs).count()
    }
}

impl Leases {
    /// The event that a host would write after reading the task; `None` if it may not write.
    fn event(&self, host: &Host, what: What, task: &Record, dead: bool) -> Option<Event> {
        let mine = host.incarnation?;
        let holder = Incarnation(task.incarnation);
        let holds = holder.0 == mine;
        let decided = match (self.0, recovery(&task.task(), None, ATTEMPTS)) {
            (Rules::WithoutPolicy, _) if task.attempt < ATTEMPTS => Recovery::Run,
            (_, decided) => decided,
        };
        let fence = match (self.0, host.run) {
            (Rules::WithoutFences, Some(_)) => Some(task.fence()),
            _ => host.fence(),
        };
        let run = host.run;
        Some(match what {
            Start => Event::Started { fence: fence.filter(|_| run.is_some_and(|run| !run.begun))? },
            Effects => {
                Event::Effects { fence: fence.filter(|_| run.is_some_and(|run| run.begun) && !task.effects)? }
            }
            Finish => {
                let outcome = Outcome::Result { is_error: false, result: RawJson::empty_object() };
                Event::Finished {
                    fence: fence.filter(|_| run.is_some_and(|run| run.begun))?,
                    outcome,
                    message: None,
                }
            }
            Release if host.draining && holds && decided == Recovery::Run => {
                Event::Released { incarnation: holder }
            }
            EndForShutdown if host.draining && holds => match decided {
                Recovery::Run | Recovery::Resume => return None,
                Recovery::End(why) => {
                    Event::Orphaned { incarnation: holder, departure: Departure::ShutDown, why }
                }
            },
            Claim if dead && !holds && !host.draining && decided == Recovery::Run => {
                Event::Claimed {
                    from: holder,
                    by: Incarnation(mine),
                    digest: Digest(String::new()),
                    reached: 0,
                }
            }
            Orphan if dead && !holds => match decided {
                Recovery::Run | Recovery::Resume => return None,
                Recovery::End(why) => {
                    Event::Orphaned { incarnation: holder, departure: Departure::Died, why }
                }
            },
            Release | EndForShutdown | Claim | Orphan => return None,
        })
    }

    fn read(&self, state: &State, at: usize, what: What) -> Option<Write> {
        let host = &state.hosts[at];
        if host.life != Life::Up || host.write.is_some() {
            return None;
        }
        let dead = self.0 == Rules::WithoutLeases || state.is_dead(state.task.incarnation);
        let event = self.event(host, what, &state.task, dead)?;
        state.task.after(event)?;
        Some(Write { what, before: state.task, by: host.incarnation? })
    }

    /// The stored task after a write arrives; `None` if it came too late.
    fn written(&self, state: &State, before: &Record, after: Record) -> Option<Record> {
        let compares = self.0 != Rules::WithoutComparison;
        (!compares || state.task == *before).then_some(after)
    }

    fn land(&self, state: &mut State, at: usize) -> Option<()> {
        let host = state.hosts[at];
        let write = host.write?;
        state.hosts[at].write = None;
        // The write acts with the state that the writer had when it read.
        let mut writer = Host { incarnation: Some(write.by), ..host };
        if matches!(write.what, Start | Effects | Finish) && host.run.is_none() {
            let Record { incarnation, attempt, .. } = write.before;
            writer.run = Some(Run { incarnation, attempt, begun: write.what != Start });
        }
        writer.draining |= matches!(write.what, Release | EndForShutdown);
        let after = self
            .event(&writer, write.what, &write.before, true)
            .and_then(|event| write.before.after(event))?;
        let Some(task) = self.written(state, &write.before, after) else { return Some(()) };
        let was = state.task;
        if matches!(write.what, Start | Effects | Finish) && was.fence() != writer.fence()? {
            state.zombie_wrote = true;
        }
        state.task = task;
        let run = &mut state.hosts[at].run;
        match write.what {
            Start if host.life == Life::Down => {}
            Start => {
                if let Some(run) = run {
                    run.begun = true;
                    state.begun += 1;
                }
            }
            Effects => {}
            Claim if host.incarnation == Some(write.by) && host.life != Life::Down => {
                *run = Some(Run { incarnation: task.incarnation, attempt: task.attempt, begun: false });
            }
            Claim | Orphan => {}
            Finish | Release | EndForShutdown => *run = None,
        }
        Some(())
    }

    fn tick(state: &mut State) {
        state.leases.iter_mut().for_each(|left| *left = left.saturating_sub(1));
        for host in &mut state.hosts {
            host.believes = host.believes.saturating_sub(1);
        }
    }

    fn renewed(&self, state: &mut State, at: usize, heard: bool) -> Option<()> {
        let host = &mut state.hosts[at];
        let mine = host.incarnation?;
        let lease = &mut state.leases[mine as usize - 1];
        let lives = *lease > 0;
        if lives {
            *lease = LEASE;
        }
        if heard && lives {
            host.believes = self.lasts();
        } else if heard {
            (host.incarnation, host.believes, host.run) = (None, 0, None);
        }
        Some(())
    }

    /// The ticks for which a host considers itself alive after a renewal.
    fn lasts(&self) -> u8 {
        match self.0 {
            Rules::WithoutMargin => LEASE + 1,
            _ => LEASE - MARGIN,
        }
    }
}

impl Model for Leases {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let state = |rerun, started| State {
            hosts: [
                Host {
                    incarnation: Some(1),
                    believes: self.lasts(),
                    run: Some(Run { incarnation: 1, attempt: 1, begun: started }),
                    ..Host::FRESH
                },
                Host::FRESH,
            ],
            leases: vec![LEASE],
            task: Record { incarnation: 1, attempt: 1, started, effects: false, rerun, end: None },
            cancel: Cancel::Not,
            begun: u8::from(started),
            ended: None,
            zombie_wrote: false,
            crashes: 0,
            drains: 0,
        };
        let both = [false, true];
        both.into_iter().flat_map(|rerun| both.map(|started| state(rerun, started))).collect()
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        use Action::{
            Cancel, Crash, Drain, FenceSelf, Land, Lose, Read, Register, Renew, Resign, Restart, Stop, Tick,
        };
        actions.push(Cancel);
        if state.task.end.is_some() {
            // No host reads in order to write any more: only writes in progress can still arrive.
            return actions.extend([0, 1].map(Land));
        }
        actions.push(Tick);
        for at in 0..2 {
            actions.extend([Register, FenceSelf, Land, Lose, Stop].map(|action| action(at)));
            actions.extend([Crash, Restart, Drain, Resign].map(|action| action(at)));
            actions.extend([true, false].map(|heard| Renew(at, heard)));
            let all = [Start, Effects, Finish, Release, EndForShutdown, Claim, Orphan];
            actions.extend(all.map(|what| Read(at, what)));
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        let at = match action {
            Action::Tick | Action::Cancel => 0,
            Action::Register(at)
            | Action::Renew(at, _)
            | Action::FenceSelf(at)
            | Action::Read(at, _)
            | Action::Land(at)
            | Action::Lose(at)
            | Action::Stop(at)
            | Action::Crash(at)
            | Action::Restart(at)
            | Action::Drain(at)
            | Action::Resign(at) => at,
        };
        let known = last.hosts[at];
        let host = &mut state.hosts[at];
        let up = known.life == Life::Up;
        match action {
            Action::Tick => Self::tick(&mut state),
            Action::Register(_) if up && known.incarnation.is_none() && !known.draining => {
                if state.leases.len() == INCARNATIONS {
                    return None;
                }
                host.believes = self.lasts();
                state.leases.push(LEASE);
                host.incarnation = Some(state.leases.len() as u64);
            }
            Action::Renew(_, heard) if up => self.renewed(&mut state, at, heard)?,
            Action::FenceSelf(_) if up && known.believes == 0 && known.incarnation.is_some() => {
                (host.incarnation, host.run) = (None, None);
            }
            Action::Read(_, what) => host.write = Some(self.read(last, at, what)?),
            Action::Land(_) => self.land(&mut state, at)?,
            Action::Lose(_) => drop(host.write.take()?),
            Action::Stop(_) if up && (known.fence()? != last.task.fence() || last.task.end.is_some()) => {
                host.run.take()?;
            }
            Action::Crash(_) if known.life != Life::Down && last.crashes < 1 => {
                state.hosts[at] = Host { life: Life::Down, write: known.write, ..Host::FRESH };
                state.crashes += 1;
            }
            Action::Restart(_) if known.life == Life::Down => host.life = Life::Up,
            Action::Drain(_) if up && !known.draining && known.incarnation.is_some() && last.drains < 1 => {
                host.draining = true;
                state.drains += 1;
            }
            Action::Resign(_) if up && known.draining && known.run.is_none() => {
                if let Some(mine) = known.incarnation {
                    state.leases[mine as usize - 1] = 0;
                }
                state.hosts[at] = Host { life: Life::Down, write: known.write, ..Host::FRESH };
            }
            Action::Cancel if last.cancel == Cancel::Not => {
                match last.task.after(Event::Cancelled { message: String::new() }) {
                    Some(task) => (state.task, state.cancel) = (task, Cancel::Acknowledged),
                    None => state.cancel = Cancel::Refused,
                }
            }
            _ => return None,
        }
        state.ended = state.ended.or(state.task.end);
        (state != *last).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("a terminal task never changes", |_, state: &State| {
                state.ended == state.task.end
            }),
            Property::always("an acknowledged cancel stays", |_, state: &State| {
                state.cancel != Cancel::Acknowledged || state.task.end == Some(End::Cancelled)
            }),
            Property::always("a superseded run writes nothing", |_, state: &State| !state.zombie_wrote),
            Property::always("at most one host that takes itself for alive runs it", |_, state: &State| {
                state.unfenced() <= 1
            }),
            Property::always("who takes itself for alive is alive", |_, state: &State| {
                !state.somebody_is_wrong()
            }),
            Property::always("what is not declared does not begin twice", |_, state: &State| {
                u32::from(state.begun) <= if state.task.rerun { ATTEMPTS } else { 1 }
            }),
            // A model in which nothing happens would prove nothing.
            Property::sometimes("a second attempt finishes", |_, state: &State| {
                matches!(state.task.end, Some(End::Finished(_, 2)))
            }),
            Property::sometimes("a host that is gone is found out", |_, state: &State| {
                state.task.end == Some(End::Failed)
            }),
            Property::sometimes("a cancel is acknowledged", |_, state: &State| {
                state.cancel == Cancel::Acknowledged
            }),
            Property::sometimes("a cancel comes too late", |_, state: &State| {
                state.cancel == Cancel::Refused
            }),
        ]
    }
}
