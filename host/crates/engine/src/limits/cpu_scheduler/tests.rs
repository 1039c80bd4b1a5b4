use super::*;
use std::collections::BTreeMap;

const TICK: Duration = Duration::from_millis(1);

/// A run that always wants to compute.
struct Busy {
    name: &'static str,
    runner: ScheduledRun,
    turn: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl Busy {
    /// Whether it has its turn.
    fn has_turn(&mut self) -> bool {
        self.turn.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }
}

fn share(name: &str, weight: u32) -> CpuShare {
    CpuShare { account: name.into(), weight }
}

fn busy(scheduler: &Arc<CpuScheduler>, name: &'static str, weight: u32) -> Busy {
    let runner = scheduler.runner(share(name, weight));
    let turn = Box::pin(runner.turn(TICK));
    Busy { name, runner, turn }
}

/// Polls all runs for this many rounds. A run that has a turn computes for a tick and requests the
/// next turn. Counts the turns of each account.
fn play(busy: &mut [Busy], rounds: usize) -> BTreeMap<&'static str, u32> {
    let mut turns = BTreeMap::new();
    for _ in 0..rounds {
        for one in &mut *busy {
            if one.has_turn() {
                *turns.entry(one.name).or_default() += 1;
                one.turn = Box::pin(one.runner.turn(TICK));
            }
        }
    }
    turns
}

#[test]
fn a_hundred_runs_of_one_account_get_no_more_than_one_of_another() {
    let scheduler = CpuScheduler::new(2);
    let mut all: Vec<Busy> = (0..100).map(|_| busy(&scheduler, "many", 1)).collect();
    all.push(busy(&scheduler, "one", 1));
    all.push(busy(&scheduler, "other", 1));
    let turns = play(&mut all, 3_000);
    let (many, one, other) = (turns["many"], turns["one"], turns["other"]);
    assert!(one.abs_diff(many) <= one / 10 && one.abs_diff(other) <= one / 10, "{turns:?}");
}

#[test]
fn time_is_shared_out_by_weight() {
    let scheduler = CpuScheduler::new(1);
    let mut all = vec![busy(&scheduler, "a", 1), busy(&scheduler, "b", 3), busy(&scheduler, "b", 3)];
    let turns = play(&mut all, 4_000);
    let ratio = f64::from(turns["b"]) / f64::from(turns["a"]);
    assert!((2.7..3.3).contains(&ratio), "{turns:?}");
}

#[test]
fn a_newcomer_neither_owes_nor_has_saved_up() {
    let scheduler = CpuScheduler::new(1);
    let mut all = vec![busy(&scheduler, "old", 1)];
    let alone = play(&mut all, 1_000);
    assert!(alone["old"] > 400, "{alone:?}");
    all.push(busy(&scheduler, "new", 1));
    let both = play(&mut all, 1_000);
    assert!(both["old"].abs_diff(both["new"]) <= both["new"] / 10 + 1, "{both:?}");
}

#[test]
fn turns_come_back_from_who_rests_and_from_who_is_dropped() {
    let scheduler = CpuScheduler::new(1);
    let mut first = busy(&scheduler, "a", 1);
    assert!(!first.has_turn(), "never at once");
    let mut second = busy(&scheduler, "b", 1);
    assert!(!second.has_turn());
    assert!(first.has_turn());
    assert!(!second.has_turn(), "one at a time");
    first.runner.rest();
    first.runner.rest();
    assert!(second.has_turn());
    let mut third = busy(&scheduler, "c", 1);
    assert!(!third.has_turn());
    assert!(!third.has_turn());
    drop(second);
    assert!(third.has_turn());
    drop((first, third));
    let state = scheduler.state.lock();
    assert_eq!((state.free, state.accounts.len()), (1, 0));
}

#[test]
fn who_leaves_while_called_passes_the_turn_on() {
    let scheduler = CpuScheduler::new(1);
    let mut called = busy(&scheduler, "a", 1);
    assert!(!called.has_turn());
    let mut waits = busy(&scheduler, "b", 1);
    assert!(!waits.has_turn());
    let mut gone = busy(&scheduler, "b", 1);
    assert!(!gone.has_turn());
    drop((called, gone));
    assert!(waits.has_turn());
}
