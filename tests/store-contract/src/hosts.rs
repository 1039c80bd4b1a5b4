//! Several hosts on one store: which of them live, shared keys, hints.

use crate::{BOUND, Fixture, Host, applied, created, eventually, finish, owner, result, task};
use tokio::task::JoinSet;
use toolyard_task::keys::KeyUse;
use toolyard_task::recovery::{Departure, NotRerun};
use toolyard_task::store::{Hint, Records, TaskQuestion};
use toolyard_task::wire::Timestamp;
use toolyard_task::{Digest, Event, Fence, Incarnation, Task};
use uuid::Uuid;

/// A host registers once, and no two hosts ever have the same number.
pub async fn hosts_have_incarnations_of_their_own(fixture: Fixture) {
    let hosts = [(fixture.open)(), (fixture.open)(), (fixture.open)()];
    let mut known = Vec::new();
    for host in &hosts {
        let registration = host.store.register().await.expect("registers");
        assert_eq!(host.store.register().await.expect("registers"), registration);
        let incarnation = registration.incarnation;
        assert!(host.store.renew(incarnation, None).await.expect("renews"));
        assert!(!known.contains(&incarnation));
        known.push(incarnation);
    }
    for Host { kill, .. } in hosts {
        kill().await;
    }
    let next = fixture.store().register().await.expect("registers").incarnation;
    assert!(!known.contains(&next), "the number of a dead host was given again");
}

/// Dead hosts are listed until they are forgotten, which happens only when they have no tasks left;
/// live hosts are neither listed nor forgotten.
pub async fn the_dead_are_found_and_forgotten(fixture: Fixture) {
    let (here, there) = ((fixture.open)(), (fixture.open)());
    assert_eq!(here.store.dead().await.expect("answers"), [], "no host is registered");
    here.store.register().await.expect("registers");
    let other = there.store.register().await.expect("registers").incarnation;
    let fence = Fence { incarnation: other, attempt: 1 };
    let left = created(&*there.store, Task { fence, ..task(&owner("a")) }).await;
    assert_eq!(here.store.dead().await.expect("answers"), []);
    assert_eq!(there.store.dead().await.expect("answers"), []);
    here.store.forget(other).await.expect("does no harm to the living");
    assert_eq!(here.store.dead().await.expect("answers"), []);

    (there.kill)().await;
    assert_eq!(here.store.dead().await.expect("answers"), [other]);
    // An unregistered host sees it as well.
    assert_eq!(fixture.store().dead().await.expect("answers"), [other]);
    here.store.forget(other).await.expect("answers");
    assert_eq!(here.store.dead().await.expect("answers"), [other], "its task was not seen to");
    let orphaned =
        Event::Orphaned { incarnation: other, departure: Departure::Died, why: NotRerun::NotDeclared };
    applied(&*here.store, left.id, orphaned.clone()).await;
    here.store.forget(other).await.expect("forgets");
    assert_eq!(here.store.dead().await.expect("answers"), []);
    here.store.forget(other).await.expect("does no harm twice");
    here.store.forget(Incarnation(999)).await.expect("does no harm to strangers");

    // It was forgotten before it noticed that it was dead, and took a task.
    let late = created(&*here.store, Task { fence, ..task(&owner("a")) }).await;
    assert_eq!(here.store.dead().await.expect("answers"), [other]);
    applied(&*here.store, late.id, orphaned).await;
    assert_eq!(here.store.dead().await.expect("answers"), []);
}

/// A host that forgets itself is dead at once, and registers again if necessary. Each of its tasks is its own until
/// another host takes it, or it ends.
pub async fn a_resigned_host_counts_as_dead(fixture: Fixture) {
    let (here, there) = ((fixture.open)(), (fixture.open)());
    let me = here.store.register().await.expect("registers").incarnation;
    let fence = Fence { incarnation: me, attempt: 1 };
    let left = created(&*here.store, Task { fence, ..task(&owner("a")) }).await;
    assert!(!there.store.renew(me, None).await.expect("answers"), "a host renews only its own");
    here.store.forget(me).await.expect("resigns");
    here.store.forget(me).await.expect("does no harm twice");
    assert_eq!(there.store.dead().await.expect("answers"), [me]);
    assert!(!here.store.renew(me, None).await.expect("answers"), "it stays dead");
    let other = there.store.register().await.expect("registers").incarnation;
    let claimed = Event::Claimed { from: me, by: other, digest: Digest(String::new()), reached: 0 };
    let claimed = applied(&*there.store, left.id, claimed).await;
    assert_eq!(claimed.fence.incarnation, other);
    let held = async |by| there.store.select(TaskQuestion::HeldBy(by), 1_000).await.expect("answers");
    assert_eq!((held(me).await, held(other).await), (vec![], vec![left.id]));
    finish(&*there.store, &claimed, result()).await;
    assert_eq!(held(other).await, [], "only live tasks are held");
    there.store.forget(me).await.expect("forgets");
    assert_eq!(there.store.dead().await.expect("answers"), []);
    let again = here.store.register().await.expect("registers").incarnation;
    assert!(again != me && again != other);
    assert!(here.store.renew(again, None).await.expect("renews"));
}

/// The first of many concurrent requests makes the key of a use, for all hosts.
pub async fn keys_are_made_once(fixture: Fixture) {
    let (here, there) = (fixture.store(), fixture.store());
    let mut asked = JoinSet::new();
    for number in 0..32_usize {
        let store = if number % 2 == 0 { here.clone() } else { there.clone() };
        asked.spawn(async move { store.keys(KeyUse::Cursor).await.expect("answers") });
    }
    let first = here.keys(KeyUse::Cursor).await.expect("answers");
    assert_eq!(first.len(), 1);
    assert!(asked.join_all().await.iter().all(|other| *other == first));
    let state = there.keys(KeyUse::RequestState).await.expect("makes one");
    assert_ne!(state[0].secret, first[0].secret);
    assert_ne!(first[0].secret, [0; 32]);
    assert_eq!(here.keys(KeyUse::RequestState).await.expect("reads"), state);
}

/// A state that was signed for one use is accepted once, whichever host receives it, and forgotten
/// when it is no longer valid.
pub async fn a_state_is_accepted_once(fixture: Fixture) {
    let (here, there) = (fixture.store(), fixture.store());
    let now = created(&*here, task(&owner("a"))).await.created_at;
    let (one, other) = (Uuid::from_u128(1), Uuid::from_u128(2));
    let until = now.plus(3_600_000);
    let mut asked = JoinSet::new();
    for number in 0..16_usize {
        let store = if number % 2 == 0 { here.clone() } else { there.clone() };
        asked.spawn(async move { store.use_up(one, until).await.expect("answers") });
    }
    let first = asked.join_all().await.into_iter().filter(|first| *first).count();
    assert_eq!(first, 1, "one of all was the first");
    assert!(there.use_up(other, Timestamp(1)).await.expect("answers"), "another one");
    assert!(here.use_up(other, until).await.expect("answers"), "its time was over");
    assert!(!there.use_up(other, until).await.expect("answers"));
    assert!(!there.use_up(one, until).await.expect("answers"));
}

/// Hints about creations and changes reach the other hosts, with the task's id or as "anything".
pub async fn a_change_is_hinted_at_to_other_hosts(fixture: Fixture) {
    let (here, there) = (fixture.store(), fixture.store());
    let mut hints = there.hints();
    let mut hinted = async |made: &Task| loop {
        let hint = tokio::time::timeout(BOUND, hints.next()).await.expect("in time").expect("lives");
        if matches!(hint, Hint::Anything) || hint == Hint::Task(made.id) {
            // The receiver of a hint can read the change that caused it.
            let read = there.read(made.id, None).await.expect("reads").expect("is there");
            if read.task == *made {
                return;
            }
        }
    };
    let made = created(&*here, task(&owner("a"))).await;
    hinted(&made).await;
    let ended = finish(&*here, &made, result()).await;
    hinted(&ended).await;
}

/// A feed ends when its host does, and calls through that host fail.
pub async fn feeds_end_with_their_host(fixture: Fixture) {
    let host = (fixture.open)();
    let (mut before, store) = (host.store.hints(), host.store.clone());
    let waiting = tokio::spawn(async move { while before.next().await.is_some() {} });
    let made = created(&*store, task(&owner("a"))).await;
    (host.kill)().await;
    tokio::time::timeout(BOUND, waiting).await.expect("in time").expect("ends");
    assert_eq!(store.hints().next().await, None);
    assert!(store.read(made.id, None).await.is_err());
    assert!(store.create(task(&owner("a")), crate::AMPLE, Records::default()).await.is_err());
    let other = fixture.store();
    let found = async || other.read(made.id, None).await.expect("reads").is_some();
    eventually("what was acknowledged is found by others", found).await;
}
