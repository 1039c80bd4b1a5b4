//! Two hosts, one task, one store: the protocol of leases, small enough that every order
//! of events can be looked at.
//!
//! What happens to the task is decided by the host's own code, `toolyard_task::apply` and
//! `toolyard_task::recovery`; here is only who does what when. Time passes in ticks, of
//! which a lease has [`LEASE`]. A write is two steps, as in the dispatcher: what was read
//! is in the hands of its writer, and lands later, or never, whatever became of the writer
//! meanwhile.
//!
//! Three things are left out because every order of events has them already. A host that
//! is stopped is one that takes no step while time passes. A cancel that compares is done
//! in the moment in which it lands. A renewal that takes its time begins a lease that ends
//! later than the host thinks, so the one that takes none is the worst.

use stateright::{Model, Property};
use toolyard_task::recovery::{Departure, Recovery, recovery};
use toolyard_task::task::Era;
use toolyard_task::wire::{RawJson, RequestedTtl, Timestamp};
use toolyard_task::{Digest, Event, Fence, Incarnation, Outcome, Owner, Task, TaskId, apply};
use uuid::Uuid;

/// How many ticks a lease has.
pub const LEASE: u8 = 2;
/// How many ticks before the others a host takes itself for dead.
const MARGIN: u8 = 1;
/// How often a task is run at most.
const ATTEMPTS: u32 = 2;
/// Incarnations that the two hosts have together, at most.
const INCARNATIONS: usize = 3;

/// What of the protocol is in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rules {
    /// All of it.
    All,
    /// A run may write whatever became of its task.
    WithoutFences,
    /// Whoever writes does not compare what it has read with what is there.
    WithoutComparison,
    /// The tasks of the living are claimed too.
    WithoutLeases,
    /// A host believes in its lease to the end, from when the answer came.
    WithoutMargin,
    /// What a tool is declared as does not matter.
    WithoutPolicy,
}

/// How a task ended.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub enum End {
    /// By the run of this fence.
    Finished(u64, u32),
    /// It was cancelled.
    Cancelled,
    /// Its host went, and it was not run again.
    Failed,
}

/// What of the stored task matters here. Its version does not: what has changed is no
/// longer equal.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub struct Record {
    incarnation: u64,
    attempt: u32,
    started: bool,
    effects: bool,
    rerun: bool,
    pub end: Option<End>,
}

/// A host process, or its absence.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
enum Life {
    Up,
    Down,
}

#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
struct Run {
    incarnation: u64,
    attempt: u32,
    /// Whether the guest has begun.
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
    /// What was read.
    before: Record,
    /// The incarnation that writes.
    by: u64,
}

#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
struct Host {
    life: Life,
    incarnation: Option<u64>,
    /// Ticks for which it takes itself for alive.
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
    /// Ticks left of each incarnation's lease, by number; none left is dead for good.
    leases: Vec<u8>,
    pub task: Record,
    pub cancel: Cancel,
    /// How many guests have begun.
    pub begun: u8,
    /// The first end that the task had.
    pub ended: Option<End>,
    /// A run wrote to the task after another host had claimed it.
    pub zombie_wrote: bool,
    crashes: u8,
    drains: u8,
}

#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub enum Action {
    Tick,
    Register(usize),
    /// A renewal reaches the store and is answered, or the answer is lost.
    Renew(usize, bool),
    /// A host finds that its time is up.
    FenceSelf(usize),
    /// A host reads the task in order to do this.
    Read(usize, What),
    /// What a host has sent reaches the store.
    Land(usize),
    /// What a host has sent is lost.
    Lose(usize),
    /// A run is told that its task is no longer its own.
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

    /// What `apply` makes of it.
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

    /// Whether some host takes itself for alive that is dead to the others.
    pub fn somebody_is_wrong(&self) -> bool {
        let wrong = |host: &Host| {
            host.life != Life::Down
                && host.believes > 0
                && host.incarnation.is_some_and(|mine| self.is_dead(mine))
        };
        self.hosts.iter().any(wrong)
    }

    /// How many runs of the task there are on hosts that take themselves for alive.
    pub fn unfenced(&self) -> usize {
        let runs = |host: &&Host| host.life != Life::Down && host.believes > 0 && host.run.is_some();
        self.hosts.iter().filter(runs).count()
    }
}

impl Leases {
    /// What a host that has read the task would write, if it may.
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
                Recovery::Run => return None,
                Recovery::End(why) => {
                    Event::Orphaned { incarnation: holder, departure: Departure::ShutDown, why }
                }
            },
            Claim if dead && !holds && !host.draining && decided == Recovery::Run => {
                Event::Claimed { from: holder, by: Incarnation(mine), digest: Digest(String::new()) }
            }
            Orphan if dead && !holds => match decided {
                Recovery::Run => return None,
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

    /// What is there after a write has landed; none if it was too late.
    fn written(&self, state: &State, before: &Record, after: Record) -> Option<Record> {
        let compares = self.0 != Rules::WithoutComparison;
        (!compares || state.task == *before).then_some(after)
    }

    fn land(&self, state: &mut State, at: usize) -> Option<()> {
        let host = state.hosts[at];
        let write = host.write?;
        state.hosts[at].write = None;
        // What the writer was when it read is what it writes as.
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

    /// For how many ticks a host takes itself for alive after a renewal.
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
            // Nobody reads in order to write any more: only what is on its way can still land.
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
            // So that a model in which nothing happens is not a proof.
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
