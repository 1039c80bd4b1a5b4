//! Checks every order of events of two hosts, one task and one store: with all rules, and with each rule left
//! out, to show that it is necessary and that the check finds its absence.

mod model;
mod state;

use model::{Kind, Leases, Rules};
use state::State;
use stateright::{Checker as _, Model as _};
use std::collections::{HashMap, VecDeque};

#[test]
fn in_every_order_of_events_the_promises_hold() {
    let checker = Leases(Rules::All, Kind::Plain).checker().threads(2).spawn_bfs().join();
    println!("the protocol of leases: {} states, all looked at", checker.unique_state_count());
    checker.assert_properties();
}

#[test]
#[ignore = "nightly: durability"]
fn in_every_order_of_events_of_a_task_that_resumes_the_promises_hold() {
    let checker = Leases(Rules::All, Kind::Resumes).checker().threads(2).spawn_bfs().join();
    println!("a task that resumes: {} states, all looked at", checker.unique_state_count());
    checker.assert_properties();
}

/// From every state, some path leads to the end of the task: no state is a dead end.
#[test]
#[ignore = "nightly: durability"]
fn from_every_state_the_task_can_still_end() {
    let model = Leases(Rules::All, Kind::Plain);
    let mut numbers: HashMap<State, usize> = HashMap::new();
    let mut backwards: Vec<Vec<usize>> = Vec::new();
    let mut queue = VecDeque::new();
    let mut ends = Vec::new();
    let mut number = |state: State, backwards: &mut Vec<Vec<usize>>, queue: &mut VecDeque<(usize, State)>| {
        *numbers.entry(state).or_insert_with_key(|state| {
            backwards.push(Vec::new());
            queue.push_back((backwards.len() - 1, state.clone()));
            backwards.len() - 1
        })
    };
    for state in model.init_states() {
        number(state, &mut backwards, &mut queue);
    }
    let mut stuck: Vec<Option<State>> = Vec::new();
    while let Some((from, state)) = queue.pop_front() {
        stuck.resize(backwards.len().max(stuck.len()), None);
        if state.task.end.is_some() {
            // All later states are ended too, as the other test shows.
            ends.push(from);
            continue;
        }
        for (_, next) in model.next_steps(&state) {
            let to = number(next, &mut backwards, &mut queue);
            backwards[to].push(from);
        }
        stuck[from] = Some(state);
    }
    let states = backwards.len();
    while let Some(to) = ends.pop() {
        for from in std::mem::take(&mut backwards[to]) {
            if stuck[from].take().is_some() {
                ends.push(from);
            }
        }
    }
    println!("{states} states, {} of which lead nowhere", stuck.iter().flatten().count());
    assert_eq!(stuck.into_iter().flatten().next(), None, "the task can never end from here");
}

/// Requires that this promise is broken without this rule.
fn breaks(rules: Rules, kind: Kind, promise: &'static str) {
    let found = stateright::HasDiscoveries::AnyOf([promise].into());
    let checker = Leases(rules, kind).checker().threads(2).finish_when(found).spawn_bfs().join();
    let path = checker.discovery(promise);
    let found = checker.discoveries().into_keys().collect::<Vec<_>>();
    let path = path.unwrap_or_else(|| panic!("{rules:?}: `{promise}` was not found broken, but {found:?}"));
    println!("{rules:?} breaks `{promise}` after {} steps", path.into_actions().len());
}

/// Each rule that is left out is a test of its name.
macro_rules! broken {
    ($($name:ident: $rules:ident, $kind:ident => $promise:literal),* $(,)?) => {
        $(#[test] #[ignore = "nightly: durability"] fn $name() { breaks(Rules::$rules, Kind::$kind, $promise); })*
    };
}

broken! {
    without_fences_a_superseded_run_writes:
        WithoutFences, Plain => "a superseded run writes nothing",
    without_comparison_what_is_over_changes:
        WithoutComparison, Plain => "a terminal task never changes",
    without_leases_two_hosts_run_it:
        WithoutLeases, Plain => "at most one host that takes itself for alive runs it",
    without_a_margin_a_host_takes_itself_for_alive_that_is_not:
        WithoutMargin, Plain => "who takes itself for alive is alive",
    without_the_policy_what_is_not_declared_begins_twice:
        WithoutPolicy, Plain => "what is not declared does not begin twice",
    without_moving_fences_a_superseded_run_appends:
        WithoutMovingFence, Resumes => "a run that does not have the task appends nothing",
    without_a_fence_a_superseded_run_appends:
        WithoutJournalFence, Resumes => "a run that does not have the task appends nothing",
    without_nobody_a_parked_task_is_claimed:
        WithoutNobody, Resumes => "a parked task belongs to no host",
    without_the_state_of_a_parked_task_a_running_one_is_woken:
        WithoutParked, Resumes => "a run that does not have the task has no effect",
    without_a_durable_intent_nothing_shows_an_effect:
        WithoutIntent, Resumes => "nothing happens again without a trace of the first time",
    without_a_licence_a_superseded_run_has_effects:
        WithoutLicence, Resumes => "a run that does not have the task has no effect",
}
