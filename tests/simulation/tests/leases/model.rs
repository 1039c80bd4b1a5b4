//! Two hosts, one task, one store: the protocol of leases, small enough to check every order of events.
//!
//! The host's own code, `toolyard_task::apply` and `toolyard_task::recovery`, decides what happens to the
//! task. This model only decides who acts when. Time passes in ticks; a lease has [`LEASE`] of them. A write
//! has two steps, as in the dispatcher: the writer reads the task, and its write reaches the store later or
//! never, whatever happens to the writer meanwhile.
//!
//! A task that resumes has one effect, which its journal records: the intent before it, the response after it.
//! An append has two steps as well. Another run repeats the journal from the store. If it finds an intent
//! without a response, it records the doubt and has the effect once more.
//!
//! Cancellations, drains and declared effects are the same for such a task, so only the others have them.
//!
//! Three things are left out, because every order of events contains them already. A paused host takes no
//! steps while time passes. A cancellation that compares acts at the moment when it reaches the store. A slow
//! renewal begins a lease that ends later than the host believes, so an immediate one is the worst case.

use crate::state::{
    Action, Cancel, Deed, End, Host, Journal, Life, Reached, Record, Run, State, What, Write,
};
use stateright::{Model, Property};
use toolyard_task::recovery::{Departure, Recovery, recovery};
use toolyard_task::wire::{RawJson, Timestamp};
use toolyard_task::{Digest, Event, Fence, Incarnation, Outcome};

/// The length of a lease in ticks.
pub const LEASE: u8 = 2;
/// How many ticks before the end of its lease a host considers itself dead.
const MARGIN: u8 = 1;
/// The most attempts of a task.
const ATTEMPTS: u32 = 2;
/// A task that resumes is claimed below this attempt only; outside of this model there is no limit.
const ATTEMPTS_OF_RESUMED: u32 = 4;
/// The most incarnations of both hosts together.
const INCARNATIONS: usize = 3;
/// More effects than this are not told apart.
const MAX_COUNTED: u8 = 2;
/// How often the task is parked at most.
const PARKS: u8 = 1;

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
    /// The fence of the journal does not move with the task, but when the next run begins.
    WithoutMovingFence,
    /// An append needs no fence.
    WithoutJournalFence,
    /// The host that a parked task belongs to counts as a dead one.
    WithoutNobody,
    /// A host may also wake a task that is not parked.
    WithoutParked,
    /// A run has its effect without waiting until the intent is durable.
    WithoutIntent,
    /// A run has effects even if its host may be dead to the others.
    WithoutLicence,
}

use What::{Claim, Effects, EndForShutdown, Finish, Intend, Orphan, Park, Release, Respond, Start, Wake};

/// The protocol by these rules, for a task of this kind.
pub struct Leases(pub Rules, pub Kind);

/// The declaration of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It runs again from the start, or not at all.
    Plain,
    /// It resumes.
    Resumes,
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
        let begun = fence.filter(|_| run.is_some_and(|run| run.begun));
        let why = match decided {
            Recovery::End(why) => Some(why),
            Recovery::Run | Recovery::Resume => None,
        };
        let orphaned =
            |departure| Some(Event::Orphaned { incarnation: holder, departure, why: why.clone()? });
        if task.resume && what == Finish && run.is_none_or(|run| run.knows != Reached::Response) {
            return None;
        }
        Some(match what {
            Park if task.resume && run.is_none_or(|run| !run.has_request()) => {
                Event::Parked { fence: begun?, wake: Some(Timestamp(0)), reached: 0 }
            }
            Wake if task.resume && !host.draining => Event::Woken { by: Incarnation(mine) },
            Start => Event::Started { fence: fence.filter(|_| run.is_some_and(|run| !run.begun))? },
            Effects if !task.resume && !task.effects => Event::Effects { fence: begun? },
            Finish => {
                let outcome = Outcome::Result { is_error: false, result: RawJson::empty_object() };
                Event::Finished { fence: begun?, outcome, message: None }
            }
            Release if host.draining && holds && why.is_none() => Event::Released { incarnation: holder },
            EndForShutdown if host.draining && holds => orphaned(Departure::ShutDown)?,
            Claim if task.resume && task.attempt >= ATTEMPTS_OF_RESUMED => return None,
            Claim if dead && !holds && !host.draining && why.is_none() => {
                let (by, digest) = (Incarnation(mine), Digest(String::new()));
                Event::Claimed { from: holder, by, digest, reached: 0 }
            }
            Orphan if dead && !holds => orphaned(Departure::Died)?,
            Release | EndForShutdown | Claim | Orphan | Effects | Park | Wake | Intend | Respond => {
                return None;
            }
        })
    }

    fn read(&self, state: &State, at: usize, what: What) -> Option<Write> {
        let host = &state.hosts[at];
        if host.life != Life::Up || host.write.is_some() {
            return None;
        }
        if matches!(what, Intend | Respond) {
            let run = host.run.filter(|run| run.begun && state.task.resume)?;
            let may = match what {
                Intend => !run.intended && run.knows != Reached::Response,
                _ => run.acted && run.knows != Reached::Response,
            };
            let appends = may.then(|| run.fence())?;
            // An append does not compare the task.
            let before = Record { incarnation: 0, attempt: 0, started: true, ..state.task };
            return Some(Write { what, before, by: run.incarnation, appends: Some(appends) });
        }
        if what == Park && state.parks == PARKS {
            return None;
        }
        let dead = self.0 == Rules::WithoutLeases || state.is_dead(state.task.incarnation);
        let event = self.event(host, what, &state.task, dead)?;
        self.after(&state.task, event)?;
        Some(Write { what, before: state.task, by: host.incarnation?, appends: None })
    }

    /// The task after `apply`, by the rules in force.
    fn after(&self, task: &Record, event: Event) -> Option<Record> {
        let parked = matches!(event, Event::Claimed { .. } | Event::Orphaned { .. }) && task.parked;
        match (self.0, &event) {
            // As if the event knew nothing of parked tasks.
            (Rules::WithoutNobody, _) if parked => {
                let record = Record { parked: false, ..*task }.after(event)?;
                Some(Record { parked: record.end.is_none(), ..record })
            }
            (Rules::WithoutParked, Event::Woken { .. }) => Record { parked: true, ..*task }.after(event),
            _ => task.after(event),
        }
    }

    /// The chunk reaches the journal, or is refused, and the run learns which.
    fn append(&self, state: &mut State, at: usize, what: What, fence: (u64, u32)) {
        let known = state.hosts[at];
        let run = state.hosts[at].run.as_mut().filter(|run| known.life == Life::Up && run.fence() == fence);
        if self.0 != Rules::WithoutJournalFence && state.journal.fence != Some(fence) {
            if run.is_some() {
                state.hosts[at].run = None;
            }
            return;
        }
        let mine = (state.task.incarnation, state.task.attempt) == fence && !state.task.parked;
        state.zombie_appended |= !mine && state.task.end.is_none();
        let reached = if what == Intend { Reached::Intent } else { Reached::Response };
        state.journal.reached = state.journal.reached.max(reached);
        if let Some(run) = run {
            run.knows = reached;
            run.intended = true;
        }
    }

    /// The run has its effect: what it intended is durable, and its host is alive to the others.
    fn act(&self, state: &mut State, at: usize) -> Option<()> {
        let host = state.hosts[at];
        let run = host.run.filter(|run| run.begun && !run.acted && state.task.resume)?;
        let may_act = host.believes > 0 || self.0 == Rules::WithoutLicence;
        let may_not_know = self.0 == Rules::WithoutIntent && run.knows != Reached::Response;
        if host.life != Life::Up || !may_act || !(run.has_request() || may_not_know) {
            return None;
        }
        let has_task = state.task.fence()
            == Fence { incarnation: Incarnation(run.incarnation), attempt: run.attempt }
            && !state.task.parked;
        state.zombie_acted |= !has_task && state.task.end.is_none();
        state.acted_again |= state.journal.reached == Reached::Response;
        state.acted_unknown |= state.effects > 0 && state.journal.reached == Reached::Beginning;
        state.effects = (state.effects + 1).min(MAX_COUNTED);
        if let Some(run) = &mut state.hosts[at].run {
            run.acted = true;
        }
        Some(())
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
        if let Some(fence) = write.appends {
            self.append(state, at, write.what, fence);
            return Some(());
        }
        // The write acts with the state that the writer had when it read.
        let mut writer = Host { incarnation: Some(write.by), ..host };
        if matches!(write.what, Start | Effects | Finish | Park) && host.run.is_none() {
            let Record { incarnation, attempt, .. } = write.before;
            let run = Run::of((incarnation, attempt), write.what != Start);
            // Only a run that knows of its response ends.
            let knows = if write.what == Finish { Reached::Response } else { run.knows };
            writer.run = Some(Run { knows, ..run });
        }
        writer.draining |= matches!(write.what, Release | EndForShutdown);
        let after = self
            .event(&writer, write.what, &write.before, true)
            .and_then(|event| self.after(&write.before, event))?;
        let Some(task) = self.written(state, &write.before, after) else { return Some(()) };
        let was = state.task;
        if matches!(write.what, Start | Effects | Finish | Park) && was.fence() != writer.fence()? {
            state.zombie_wrote = true;
        }
        state.task = task;
        if self.0 != Rules::WithoutMovingFence || matches!(write.what, Start | Wake) {
            state.journal.fence = task.task().journal_fence().map(|now| (now.incarnation.0, now.attempt));
        }
        let reached = state.journal.reached;
        let run = &mut state.hosts[at].run;
        match write.what {
            Start if host.life == Life::Down => {}
            Start => {
                if let Some(run) = run {
                    run.begun = true;
                    run.knows = reached;
                    state.begun += u8::from(!task.resume);
                }
            }
            Effects => {}
            Claim | Wake if host.incarnation == Some(write.by) && host.life != Life::Down => {
                let begins = write.what == Wake;
                let new = Run::of((task.incarnation, task.attempt), begins);
                *run = Some(if begins { Run { knows: reached, ..new } } else { new });
            }
            Claim | Wake | Orphan => {}
            Park => {
                state.parks += 1;
                *run = None;
            }
            Intend | Respond => {}
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

/// A promise or an event, and whether it shows in a state.
type Row = (&'static str, fn(&Leases, &State) -> bool);

impl Model for Leases {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let first = Host { incarnation: Some(1), believes: self.lasts(), ..Host::default() };
        let state = |(rerun, resume), started| State {
            hosts: [Host { run: Some(Run::of((1, 1), started)), ..first }, Host::default()],
            leases: vec![LEASE],
            task: Record { incarnation: 1, attempt: 1, started, rerun, resume, ..Record::default() },
            begun: u8::from(started && !resume),
            journal: Journal { fence: resume.then_some((1, 1)), ..Journal::default() },
            ..State::default()
        };
        match self.1 {
            Kind::Plain => {
                let starts = [(false, false), (false, true), (true, false), (true, true)];
                starts.map(|(rerun, started)| state((rerun, false), started)).into()
            }
            // It begins again after each wake.
            Kind::Resumes => vec![state((false, true), true)],
        }
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        use Deed::*;
        if !state.task.resume {
            actions.push(Action::Cancel);
        }
        if state.task.end.is_some() {
            // No host reads in order to write any more: only writes in progress can still arrive.
            return actions.extend([0, 1].map(|at| Action::Of(at, Land)));
        }
        actions.push(Action::Tick);
        for at in 0..2 {
            let mut deeds = vec![Register, FenceSelf, Land, Lose, Stop, Crash, Restart];
            deeds.extend([true, false].map(Renew));
            deeds.extend([Start, Finish, Claim, Orphan].map(Read));
            if state.task.resume {
                deeds.extend([Park, Wake, Intend, Respond].map(Read));
                deeds.extend([Act, LandUnheard]);
            } else {
                deeds.extend([Effects, Release, EndForShutdown].map(Read));
                deeds.extend([Drain, Resign]);
            }
            actions.extend(deeds.into_iter().map(|deed| Action::Of(at, deed)));
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        let at = if let Action::Of(at, _) = action { at } else { 0 };
        let known = last.hosts[at];
        let host = &mut state.hosts[at];
        let up = known.life == Life::Up;
        match action {
            Action::Tick => Self::tick(&mut state),
            Action::Of(_, Deed::Register) if up && known.incarnation.is_none() && !known.draining => {
                if state.leases.len() == INCARNATIONS {
                    return None;
                }
                host.believes = self.lasts();
                state.leases.push(LEASE);
                host.incarnation = Some(state.leases.len() as u64);
            }
            Action::Of(_, Deed::Renew(heard)) if up => self.renewed(&mut state, at, heard)?,
            Action::Of(_, Deed::FenceSelf) if up && known.believes == 0 && known.incarnation.is_some() => {
                (host.incarnation, host.run) = (None, None);
            }
            Action::Of(_, Deed::Read(what)) => host.write = Some(self.read(last, at, what)?),
            Action::Of(_, Deed::Land) => self.land(&mut state, at)?,
            Action::Of(_, Deed::Lose) => drop(host.write.take()?),
            Action::Of(_, Deed::LandUnheard) if up && known.run.is_some() => {
                known.write.filter(|write| write.what == Park)?;
                self.land(&mut state, at)?;
                state.hosts[at].run = known.run;
            }
            Action::Of(_, Deed::Act) => self.act(&mut state, at)?,
            Action::Of(_, Deed::Stop)
                if up && (known.fence()? != last.task.fence() || last.task.end.is_some()) =>
            {
                host.run.take()?;
            }
            Action::Of(_, Deed::Crash) if known.life != Life::Down && last.crashes < 1 => {
                state.hosts[at] = Host { life: Life::Down, write: known.write, ..Host::default() };
                state.crashes += 1;
            }
            Action::Of(_, Deed::Restart) if known.life == Life::Down => host.life = Life::Up,
            Action::Of(_, Deed::Drain)
                if up && !known.draining && known.incarnation.is_some() && last.drains < 1 =>
            {
                host.draining = true;
                state.drains += 1;
            }
            Action::Of(_, Deed::Resign) if up && known.draining && known.run.is_none() => {
                if let Some(mine) = known.incarnation {
                    state.leases[mine as usize - 1] = 0;
                }
                state.hosts[at] = Host { life: Life::Down, write: known.write, ..Host::default() };
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
        let always: [Row; 11] = [
            ("a terminal task never changes", |_, state| state.ended == state.task.end),
            ("an acknowledged cancel stays", |_, state| {
                state.cancel != Cancel::Acknowledged || state.task.end == Some(End::Cancelled)
            }),
            ("a superseded run writes nothing", |_, state| !state.zombie_wrote),
            ("at most one host that takes itself for alive runs it", |_, state| state.unfenced() <= 1),
            ("who takes itself for alive is alive", |_, state| !state.somebody_is_wrong()),
            ("a run that does not have the task appends nothing", |_, state| !state.zombie_appended),
            ("a run that does not have the task has no effect", |_, state| !state.zombie_acted),
            ("what has a durable response does not happen again", |_, state| !state.acted_again),
            ("nothing happens again without a trace of the first time", |_, state| !state.acted_unknown),
            ("a parked task belongs to no host", |_, state| {
                !state.task.parked || state.task.incarnation == Incarnation::NOBODY.0
            }),
            ("what is not declared does not begin twice", |_, state| {
                state.task.resume || u32::from(state.begun) <= if state.task.rerun { ATTEMPTS } else { 1 }
            }),
        ];
        // A model in which nothing happens would prove nothing.
        let sometimes: &[Row] = match self.1 {
            Kind::Plain => &[
                ("a second attempt finishes", |_, state| matches!(state.task.end, Some(End::Finished(_, 2)))),
                ("a host that is gone is found out", |_, state| state.task.end == Some(End::Failed)),
                ("a cancel is acknowledged", |_, state| state.cancel == Cancel::Acknowledged),
                ("a cancel comes too late", |_, state| state.cancel == Cancel::Refused),
            ],
            Kind::Resumes => &[
                ("a task that was parked finishes", |_, state| {
                    state.parks > 0 && matches!(state.task.end, Some(End::Finished(..)))
                }),
                ("an effect in doubt happens again", |_, state| state.effects > 1),
            ],
        };
        let always = always.into_iter().map(|(promise, holds)| Property::always(promise, holds));
        let sometimes = sometimes.iter().map(|&(event, happens)| Property::sometimes(event, happens));
        always.chain(sometimes).collect()
    }
}
