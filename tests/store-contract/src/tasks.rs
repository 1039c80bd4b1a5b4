//! Operations on single tasks.

use crate::{AMPLE, BOUND, Fixture, START, TTL, applied, created, finish, owner, read, remove, result, task};
use std::sync::Arc;
use tokio::task::JoinSet;
use toolyard_store::Store;
use toolyard_task::store::{CommitStatus, CreateError, Quota, QuotaScope, Records, TaskQuestion};
use toolyard_task::task::EXPIRED_KEPT_MS;
use toolyard_task::wire::{RawJson, RpcError, Timestamp};
use toolyard_task::{Event, Outcome, Owner, SessionId, StoreError, Task};

/// The store returns a task unchanged, with its own times. No other task gets its id.
pub async fn a_created_task_is_kept_to_the_letter(fixture: Fixture) {
    let store = fixture.store();
    let long = format!("{{ \"long\" : \"{}\" }}", "\u{e4}\\u0000".repeat(100_000));
    for arguments in ["{}", r#"{ "a":1.0 , "a" : 1e2 }"#, &long] {
        for started_at in [None, Some(Timestamp(1))] {
            let arguments = RawJson::trusted(arguments.to_owned());
            let given = Task { arguments, started_at, ..task(&owner("a")) };
            let stored = created(&*store, given.clone()).await;
            let now = Timestamp(START);
            let expected =
                Task { created_at: now, updated_at: now, started_at: started_at.map(|_| now), ..given };
            assert_eq!(stored, expected);
            let read = store.read(expected.id, None).await.expect("reads").expect("is there");
            assert_eq!((&read.task, read.now), (&expected, now));
            let second = Task { id: expected.id, tool: "other".into(), ..task(&owner("b")) };
            let refused = store.create(second, AMPLE, Records::default()).await;
            assert!(matches!(refused, Err(CreateError::Store(StoreError::Corrupt(_)))), "{refused:?}");
            assert_eq!(crate::read(&*store, expected.id).await, expected, "its id is given once");
        }
    }
    assert_eq!(store.read(task(&owner("a")).id, None).await.expect("reads"), None);
}

/// A commit succeeds only if its version is the next one.
pub async fn a_commit_needs_the_version_before(fixture: Fixture) {
    let store = fixture.store();
    let first = created(&*store, task(&owner("a"))).await;
    let mut last = first.clone();
    for step in 1..=5_u64 {
        let message = Some(format!("step {step}"));
        // Arguments are written once, whatever a commit contains.
        let next = Task {
            version: last.version + 1,
            status_message: message,
            updated_at: last.updated_at.plus(1),
            arguments: RawJson::trusted("[]"),
            ..last.clone()
        };
        for version in [last.version, last.version + 2] {
            let wrong = Task { version, ..next.clone() };
            assert_eq!(store.commit(&wrong, Records::default()).await.expect("answers"), CommitStatus::Stale);
        }
        assert_eq!(store.commit(&next, Records::default()).await.expect("answers"), CommitStatus::Done);
        assert_eq!(store.commit(&next, Records::default()).await.expect("answers"), CommitStatus::Stale);
        last = Task { arguments: first.arguments.clone(), ..next };
        assert_eq!(read(&*store, first.id).await, last);
    }
    let unknown = Task { version: 2, ..task(&owner("a")) };
    assert_eq!(store.commit(&unknown, Records::default()).await.expect("answers"), CommitStatus::Stale);
    assert_eq!(store.read(unknown.id, None).await.expect("reads"), None);
}

/// T-40, T-23: a task of another owner looks like one that never existed.
pub async fn t_40_a_read_finds_the_owners_task_and_nobody_elses(fixture: Fixture) {
    let store = fixture.store();
    let (own, foreign) = (owner("a"), owner("b"));
    let made = created(&*store, task(&own)).await;
    let read = async |owner| store.read(made.id, owner).await.expect("reads").map(|read| read.task);
    assert_eq!(read(None).await, Some(made.clone()));
    assert_eq!(read(Some(&own)).await, Some(made.clone()));
    for other in [&foreign, &Owner::Local, &Owner::Session(SessionId("a".into()))] {
        assert_eq!(read(Some(other)).await, None, "{other:?}");
    }
    assert_eq!(store.read(task(&own).id, Some(&own)).await.expect("reads"), None);
}

/// Every kind of outcome is returned unchanged, however large.
pub async fn every_outcome_is_kept_to_the_letter(fixture: Fixture) {
    let store = fixture.store();
    let big = format!("{{ \"text\":\"{}\" ,\"n\":1.00}}", "0123456789abcde\u{1f600}".repeat(300_000));
    assert!(big.len() > 5 << 20);
    let outcomes = [
        result(),
        Outcome::Result { is_error: true, result: RawJson::trusted(r#"{"isError" : true}"#) },
        Outcome::Result { is_error: false, result: RawJson::trusted(big) },
        Outcome::Error(RpcError::internal("broke").with_data(&[1, 2, 3])),
        Outcome::Error(RpcError::new(-1, "plain")),
        Outcome::Cancelled,
        Outcome::Expired,
    ];
    for outcome in outcomes {
        let live = created(&*store, task(&owner("a"))).await;
        let ended = finish(&*store, &live, outcome).await;
        assert!(read(&*store, live.id).await == ended, "not what was committed");
    }
}

/// Of many concurrent creations, exactly as many succeed as the quota allows.
pub async fn a_quota_holds_under_concurrency(fixture: Fixture) {
    let hosts = [fixture.store(), fixture.store()];
    let scopes = [
        (Quota { per_owner: 10, in_all: 1_000, ..AMPLE }, QuotaScope::Owner, 10),
        (Quota { per_owner: 1_000, in_all: 20, ..AMPLE }, QuotaScope::Store, 20),
    ];
    for (quota, expected, limit_of) in scopes {
        let mut creations = JoinSet::new();
        for number in 0..64_usize {
            let store = hosts[number % 2].clone();
            creations.spawn(async move { store.create(task(&owner("a")), quota, Records::default()).await });
        }
        let ended = tokio::time::timeout(BOUND, creations.join_all()).await.expect("in time");
        for refused in ended.iter().filter_map(|ended| ended.as_ref().err()) {
            let CreateError::Full { scope, limit } = refused else { panic!("{refused:?}") };
            assert_eq!((*scope, *limit), (expected, limit_of));
        }
        // The second round finds ten, and adds ten.
        assert_eq!(ended.iter().filter(|ended| ended.is_ok()).count(), 10);
    }
}

/// Only live tasks count, those of every host included; the quota of one owner does not affect the
/// others.
pub async fn a_quota_counts_live_tasks_of_all_hosts(fixture: Fixture) {
    let (here, there) = (fixture.store(), fixture.store());
    let quota = Quota { per_owner: 2, in_all: 3, ..AMPLE };
    let full = async |store: &Arc<dyn Store>, name: &str| {
        let refused = store.create(task(&owner(name)), quota, Records::default()).await;
        let Err(CreateError::Full { scope, .. }) = refused else { panic!("{refused:?}") };
        scope
    };
    let first = here.create(task(&owner("a")), quota, Records::default()).await.expect("first");
    there.create(task(&owner("a")), quota, Records::default()).await.expect("second");
    assert_eq!((full(&here, "a").await, full(&there, "a").await), (QuotaScope::Owner, QuotaScope::Owner));
    here.create(task(&owner("b")), quota, Records::default()).await.expect("of another");
    assert_eq!(full(&there, "c").await, QuotaScope::Store);
    finish(&*there, &first, Outcome::Cancelled).await;
    here.create(task(&owner("a")), quota, Records::default()).await.expect("there is room again");
    // The narrower quota is checked first: the owner's.
    assert_eq!((full(&there, "a").await, full(&here, "a").await), (QuotaScope::Owner, QuotaScope::Owner));
    assert_eq!(full(&here, "b").await, QuotaScope::Store);
}

/// A task is due at its ttl or, if the ttl ended it, a while later.
pub async fn due_tasks_come_longest_due_first(fixture: Fixture) {
    let store = fixture.store();
    let first = created(&*store, task(&owner("a"))).await;
    fixture.clock.advance(1);
    let second = created(&*store, task(&owner("b"))).await;
    fixture.clock.advance(1);
    let quick = created(&*store, Task { ttl_ms: 10, ..task(&owner("a")) }).await;
    let due = async |limit| store.select(TaskQuestion::Due, limit).await.expect("answers");
    fixture.clock.set(START + 11);
    assert_eq!(due(9).await, []);
    fixture.clock.set(START + 12);
    assert_eq!(due(9).await, [quick.id]);
    fixture.clock.set(START + 1 + TTL.cast_signed());
    assert_eq!(due(9).await, [quick.id, first.id, second.id]);
    assert_eq!(due(2).await, [quick.id, first.id]);
    let expired = applied(&*store, quick.id, Event::Expired).await;
    assert_eq!(due(9).await, [first.id, second.id]);
    fixture.clock.set(expired.updated_at.plus(EXPIRED_KEPT_MS).0);
    assert_eq!(due(9).await, [first.id, second.id, quick.id]);
}

/// Live tasks and ended tasks that are still shown are not removed.
pub async fn only_what_is_gone_is_removed(fixture: Fixture) {
    let store = fixture.store();
    let long = format!("[{}1]", "1,".repeat(5_000));
    let ended = Task { arguments: RawJson::trusted(long), ..task(&owner("a")) };
    let ended = created(&*store, ended).await;
    let live = created(&*store, task(&owner("a"))).await;
    finish(&*store, &ended, result()).await;
    let all = [ended.id, live.id, task(&owner("a")).id];
    fixture.clock.set(START + TTL.cast_signed() - 1);
    assert_eq!(remove(&*store, &all).await, 0);
    fixture.clock.advance(1);
    assert_eq!(remove(&*store, &all).await, 1);
    assert_eq!(store.read(ended.id, None).await.expect("reads"), None);
    assert!(store.read(live.id, None).await.expect("reads").is_some());
    assert_eq!(remove(&*store, &all).await, 0);
    assert_eq!(remove(&*store, &[]).await, 0);
}
