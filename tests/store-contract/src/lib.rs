//! The guarantees of the ports, as tests for any store: [`contract_tests!`] makes one test of each.
//!
//! A suite needs a [`Fixture`]: a new, empty store, a clock that the suite sets, and a way to have
//! several hosts on that store and to kill one.

pub mod audit;
pub mod clocks;
pub mod erasure;
pub mod grants;
pub mod hosts;
pub mod journal;
pub mod kept;
pub mod leases;
pub mod races;
pub mod searching;
pub mod sessions;
pub mod tasks;
pub mod timeline;

/// Unit tests of `toolyard-store` take the trait from here: they are compiled with a copy of that crate, and the
/// suite with another.
pub use toolyard_store::Store;

use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use toolyard_task::apply::Refusal;
use toolyard_task::audit::By;
use toolyard_task::session::Session;
use toolyard_task::store::{CommitStatus, Quota, Records, Removable, TaskStore};
use toolyard_task::task::{Era, Question};
use toolyard_task::wire::{QuestionKind, RawJson, RequestedTtl, Timestamp};
use toolyard_task::{
    Clock, Digest, Event, Fence, Incarnation, Outcome, Owner, SessionId, Task, TaskId, apply,
};
use uuid::Uuid;

/// No expected event takes longer, even on a slow machine.
pub const BOUND: Duration = Duration::from_secs(20);

/// The time at which a suite begins.
pub const START: i64 = 1_764_066_600_000;

/// A quota that no test reaches.
pub const AMPLE: Quota = Quota { per_owner: 1_000_000, parked_per_owner: 1_000_000, in_all: 1_000_000 };

/// The ttl of the tasks that a suite makes, in milliseconds.
pub const TTL: u64 = 60_000;

/// A new, empty store.
pub struct Fixture {
    /// The store's clock, which begins at [`START`].
    pub clock: Arc<ManualClock>,
    /// Opens the store for another host.
    pub open: Box<dyn Fn() -> Host + Send + Sync>,
    /// How many times a cancellation and a result race each other; more if the store is fast.
    pub races: u32,
}

/// Kills a host.
pub type KillHost = Box<dyn FnOnce() -> Pin<Box<dyn Future<Output = ()> + Send>> + Send>;

/// A host on the store.
pub struct Host {
    /// The store, as this host sees it.
    pub store: Arc<dyn Store>,
    /// Ends the host; its live tasks are left behind.
    pub kill: KillHost,
}

impl Fixture {
    /// The store, for a test that needs no more than one host.
    pub fn store(&self) -> Arc<dyn Store> {
        (self.open)().store
    }
}

/// A clock that tests set.
pub struct ManualClock {
    now: AtomicI64,
    tell: Box<dyn Fn(i64) + Send + Sync>,
}

impl ManualClock {
    /// A clock that shows `ms`.
    pub fn at(ms: i64) -> Arc<Self> {
        Self::telling(ms, Box::new(|_| {}))
    }

    /// As [`ManualClock::at`]; whenever it is set, `tell` first sets another clock to the same
    /// time.
    pub fn telling(ms: i64, tell: Box<dyn Fn(i64) + Send + Sync>) -> Arc<Self> {
        Arc::new(Self { now: AtomicI64::new(ms), tell })
    }

    /// Sets it.
    pub fn set(&self, ms: i64) {
        self.now.store(ms, Ordering::Relaxed);
        (self.tell)(ms);
    }

    /// Advances it.
    pub fn advance(&self, ms: u64) {
        let before = self.now.fetch_add(ms.cast_signed(), Ordering::Relaxed);
        (self.tell)(before.wrapping_add_unsigned(ms));
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.now.load(Ordering::Relaxed))
    }
}

/// The owner of this name.
pub fn owner(name: &str) -> Owner {
    Owner::Subject { issuer: "https://issuer.example".into(), subject: name.into() }
}

fn random() -> Uuid {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).expect("the operating system gives some");
    uuid::Builder::from_random_bytes(bytes).into_uuid()
}

/// A task of this owner, not yet stored, with a random id.
pub fn task(owner: &Owner) -> Task {
    Task {
        id: TaskId(random()),
        owner: owner.clone(),
        session: None,
        era: Era::Sessions,
        client_capabilities: RawJson::trusted(r#"{"elicitation":{}}"#),
        tool: "example.sleep".into(),
        digest: Digest("ab".repeat(32)),
        arguments: RawJson::trusted(r#"{ "seconds" : 1.50, "seconds2":1e0 }"#),
        progress_token: Some(RawJson::trusted("\"t\"")),
        requested_ttl: RequestedTtl::Milliseconds(TTL),
        ttl_ms: TTL,
        poll_interval_ms: 1_000,
        created_at: Timestamp(0),
        updated_at: Timestamp(0),
        status_message: Some("waits for its turn".into()),
        version: 1,
        fence: Fence { incarnation: Incarnation(1), attempt: 1 },
        started_at: None,
        effects: false,
        rerun: false,
        resume: None,
        bridged: None,
        unresumable: None,
        approval: None,
        questions: Vec::new(),
        outcome: None,
    }
}

/// A question that has no answer yet.
pub fn question(key: &str, deadline: Timestamp) -> Question {
    Question {
        key: key.into(),
        kind: QuestionKind::Form,
        params: RawJson::empty_object(),
        attempt: 1,
        deadline,
        sent: Vec::new(),
        client_task: None,
        answer: None,
        asked_again: 0,
    }
}

/// A session that is its own owner, with a random id.
pub fn session() -> Session {
    let id = SessionId::of(random());
    Session {
        owner: Owner::Session(id.clone()),
        id,
        revision: "2025-11-25".into(),
        client_capabilities: RawJson::trusted(r#"{"sampling": {}}"#),
        client: "suite 1.0".into(),
        log_level: None,
        task_aware: false,
        subscriptions: BTreeSet::new(),
        created_at: Timestamp(0),
        seen_at: Timestamp(0),
    }
}

/// Stores a task under an ample quota.
pub async fn created(store: &dyn Store, task: Task) -> Task {
    let records = Records::created(&task, &By::client());
    store.create(task, AMPLE, records).await.expect("there is room")
}

/// The stored task with this id.
pub async fn read(store: &(impl TaskStore + ?Sized), id: TaskId) -> Task {
    store.read(id, None).await.expect("reads").expect("is there").task
}

/// Applies an event as the dispatcher does: if the version has changed, it reads the task and tries
/// again. `None` if the task is gone.
pub async fn change(store: &dyn Store, id: TaskId, event: &Event) -> Option<Result<Task, Refusal>> {
    loop {
        let read = store.read(id, None).await.expect("reads")?;
        let next = match apply(&read.task, event.clone(), read.now) {
            Ok(transition) => transition.task,
            Err(refusal) => return Some(Err(refusal)),
        };
        match store.commit(&next, Records::changed(event, &next, &By::host())).await.expect("commits") {
            CommitStatus::Done => return Some(Ok(next)),
            CommitStatus::Stale => {}
        }
    }
}

/// Another host takes a task over, with another component.
pub fn claimed(from: Incarnation, by: Incarnation, reached: u64) -> Event {
    Event::Claimed { from, by, digest: Digest("cd".repeat(32)), reached }
}

/// As [`change`], of a task that is there and allows it.
pub async fn applied(store: &dyn Store, id: TaskId, event: Event) -> Task {
    change(store, id, &event).await.expect("is there").expect("applies")
}

/// Finishes a task, as its own run does.
pub async fn finish(store: &dyn Store, task: &Task, outcome: Outcome) -> Task {
    applied(store, task.id, Event::Finished { fence: task.fence, outcome, message: None }).await
}

/// Removes the tasks among these that are gone. Returns how many.
pub async fn remove(store: &(impl TaskStore + ?Sized), ids: &[TaskId]) -> u32 {
    let tasks = ids.iter().map(|id| (*id, Vec::new())).collect();
    store.remove(tasks, Removable::Gone).await.expect("removes")
}

/// A result that a tool may give.
pub fn result() -> Outcome {
    Outcome::Result { is_error: false, result: RawJson::trusted(r#"{ "content" : [] }"#) }
}

/// Waits until `condition` holds.
///
/// # Panics
/// If it does not hold within [`BOUND`].
pub async fn eventually<F: Future<Output = bool>>(what: &str, condition: impl Fn() -> F) {
    let until = Instant::now() + BOUND;
    while !condition().await {
        assert!(Instant::now() < until, "did not happen: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Has two hosts race each other so many times, with 64 races under way. Counts the races by the host that won.
async fn in_lanes<F>(
    fixture: &Fixture,
    races: u32,
    race: impl Fn([Arc<dyn Store>; 2], u32) -> F + Copy + Send + 'static,
) -> [u32; 2]
where
    F: Future<Output = usize> + Send + 'static,
{
    const LANES: u32 = 64;
    let hosts = [fixture.store(), fixture.store()];
    let mut lanes = JoinSet::new();
    for lane in 0..LANES {
        let hosts = hosts.clone();
        lanes.spawn(async move {
            let mut wins = [0_u32; 2];
            for round in 0..races.div_ceil(LANES) {
                wins[race(hosts.clone(), lane + round).await] += 1;
            }
            wins
        });
    }
    let lanes = lanes.join_all().await;
    lanes.into_iter().fold([0, 0], |sum, lane| [sum[0] + lane[0], sum[1] + lane[1]])
}

/// Makes one test of each promise. Takes an expression that gives a new [`Fixture`].
#[macro_export]
macro_rules! contract_tests {
    ($fixture:expr) => {
        $crate::contract_tests! { $fixture;
            tasks {
                a_created_task_is_kept_to_the_letter, a_commit_needs_the_version_before,
                every_outcome_is_kept_to_the_letter, a_quota_holds_under_concurrency,
                a_quota_counts_live_tasks_of_all_hosts, due_tasks_come_longest_due_first,
                only_what_is_gone_is_removed, t_40_a_read_finds_the_owners_task_and_nobody_elses
            }
            searching {
                f_5_f_6_f_7_each_filter_finds_what_it_takes_of_its_owner_in_every_order, gone_tasks_are_not_found,
                the_operator_finds_the_tasks_of_all_owners_by_creation, f_6_pages_are_stable_while_tasks_change,
                f_6_a_walk_from_the_oldest_change_ends_though_tasks_go_on_changing
            }
            sessions {
                a_session_is_kept_and_closed, the_settings_of_a_client_are_stored_and_nothing_else,
                the_session_longest_unseen_gives_way, sessions_are_listed_by_their_last_use,
                idle_sessions_are_swept_unless_they_work
            }
            hosts {
                hosts_have_incarnations_of_their_own, the_dead_are_found_and_forgotten,
                a_resigned_host_counts_as_dead, keys_are_made_once, a_state_is_accepted_once,
                a_change_is_hinted_at_to_other_hosts, feeds_end_with_their_host
            }
            grants {
                a_grant_is_found_for_exactly_what_it_was_given, a_later_verdict_replaces_an_earlier_one,
                t_43_what_is_given_and_revoked_is_in_the_log_and_nothing_else, grants_are_listed_by_time_and_id,
                the_oldest_grants_of_an_owner_give_way, a_session_takes_its_grants_along
            }
            audit {
                t_43_an_entry_is_there_if_and_only_if_its_change_is, the_oldest_entries_give_way_and_are_counted,
                t_43_what_is_noted_is_written_in_order_and_forgotten_when_exported,
                t_43_of_changes_that_race_each_is_written_once
            }
            erasure {
                the_data_of_a_principal_is_erased_and_nothing_else, live_tasks_are_not_erased,
                shared_names_are_erased_together_and_tasks_apart, an_erasure_is_in_the_log_with_its_counts
            }
            clocks {
                times_and_places_hold_whatever_the_clock_does, a_clock_that_was_far_ahead_is_not_followed_for_ever
            }
            kept {
                kept_bytes_are_counted_by_owner_and_in_all, the_tasks_that_ended_first_are_found,
                only_what_has_ended_is_discarded_and_the_log_says_so
            }
            journal {
                chunks_have_dense_numbers, only_the_run_of_a_task_appends, the_last_chunks_come_with_the_end,
                a_journal_restarts_and_its_numbers_go_on, a_journal_goes_with_its_task, nobody_is_no_host,
                a_journal_is_dropped_when_nothing_needs_it, one_host_wakes_a_parked_task_and_appends,
                a_long_journal_is_read_in_pieces, due_parked_tasks_are_named_in_turns,
                parked_tasks_have_a_quota_of_their_own, components_stay_while_they_are_needed
            }
            timeline {
                lifecycle_events_come_with_their_changes, events_of_a_run_come_soon_and_in_their_order,
                a_second_attempt_has_its_own_record, a_parked_attempt_is_not_lost,
                a_long_timeline_keeps_its_beginning_and_its_end, events_go_with_their_task_and_records_stay
            }
            races { one_end_and_it_is_the_acknowledged_one, one_decision_about_an_approval }
        }
    };
    ($fixture:expr; $($topic:ident { $($promise:ident),* })*) => {
        $($(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $promise() {
                $crate::$topic::$promise($fixture).await;
            }
        )*)*
    };
}

/// As `contract_tests`, for stores whose hosts have leases of [`leases::LEASE`].
#[macro_export]
macro_rules! lease_tests {
    ($fixture:expr) => {
        $crate::contract_tests! { $fixture;
            leases {
                a_lease_holds_as_long_as_it_is_renewed, a_task_that_waits_is_told_to_one_other_host,
                hosts_tell_each_other_of_their_components, hosts_hear_what_others_tell
            }
        }
    };
}
