//! Hosts with leases, as on a store that several machines share. These tests are only for stores
//! with leases; in the other stores, the system reports the end of a local process.

use crate::{BOUND, Fixture, Host, applied, change, created, owner, task};
use std::time::Duration;
use toolyard_task::broadcast::MAX_MESSAGE_BYTES;
use toolyard_task::node::Tenure;
use toolyard_task::store::TaskQuestion;
use toolyard_task::{Digest, Event, Fence, Incarnation, Task, TaskId};

const LEASE_MS: u64 = 15_000;
/// The length of the leases in the fixture's stores.
pub const LEASE: Duration = Duration::from_millis(LEASE_MS);

/// A lease holds as long as it is renewed, by the store's clock; once it has expired, nothing
/// restores it.
pub async fn a_lease_holds_as_long_as_it_is_renewed(fixture: Fixture) {
    let (here, there) = (fixture.store(), fixture.store());
    let me = here.register().await.expect("registers");
    assert_eq!(me.tenure, Tenure::Lease(LEASE));
    let me = me.incarnation;
    let fence = Fence { incarnation: me, attempt: 1 };
    created(&*here, Task { fence, ..task(&owner("a")) }).await;
    for _ in 0..3 {
        fixture.clock.advance(LEASE_MS - 1);
        assert_eq!(there.dead().await.expect("answers"), []);
        assert!(!there.renew(me, None).await.expect("answers"), "a host renews only its own");
        assert!(here.renew(me, None).await.expect("renews"));
        assert_eq!(here.register().await.expect("registers").incarnation, me, "it holds");
    }
    // A killed host is found dead when its lease has expired, no earlier.
    let Host { store: other, kill } = (fixture.open)();
    let killed = other.register().await.expect("registers").incarnation;
    kill().await;
    assert_eq!(here.dead().await.expect("answers"), []);
    fixture.clock.advance(LEASE_MS);
    assert_eq!(there.dead().await.expect("answers"), [me, killed]);
    assert!(!here.renew(me, None).await.expect("answers"), "it came too late");
    fixture.clock.set(crate::START);
    assert!(!here.renew(me, None).await.expect("answers"), "whatever becomes of the clock");
    let again = here.register().await.expect("registers").incarnation;
    assert!(again > killed, "another one");
    assert_eq!(there.dead().await.expect("answers"), [me, killed]);
    there.forget(killed).await.expect("forgets");
    there.forget(me).await.expect("answers");
    assert_eq!(there.dead().await.expect("answers"), [me], "its task was not seen to");
    here.forget(again).await.expect("resigns");
    assert!(!here.renew(again, None).await.expect("answers"), "it has no tasks, so it is forgotten");
    assert_eq!(there.dead().await.expect("answers"), [me]);
}

/// As long as a task waits, it is offered to another host that has its component, to one host at a
/// time; the owners of waiting tasks take turns.
pub async fn a_task_that_waits_is_told_to_one_other_host(fixture: Fixture) {
    let hosts = [fixture.store(), fixture.store(), fixture.store()];
    let mut numbers = Vec::new();
    for host in &hosts {
        numbers.push(host.register().await.expect("registers").incarnation);
    }
    let ([here, there, _], [me, other, third]) = (&hosts, &numbers[..]) else { panic!("three") };
    let (me, other, third) = (*me, *other, *third);
    let fence = Fence { incarnation: me, attempt: 1 };
    let mut made = Vec::new();
    for name in ["a", "a", "a", "b"] {
        made.push(created(&**here, Task { fence, ..task(&owner(name)) }).await.id);
        fixture.clock.advance(1);
    }
    let begun = created(&**here, Task { fence, ..task(&owner("c")) }).await;
    applied(&**here, begun.id, Event::Started { fence }).await;
    let elsewhere = Digest("cd".repeat(32));
    created(&**here, Task { fence, digest: elsewhere.clone(), ..task(&owner("c")) }).await;

    let component = task(&owner("a")).digest;
    let told = async |than: Incarnation, limit| -> Vec<TaskId> {
        let waiting = TaskQuestion::WaitingElsewhere { than, components: vec![component.clone()] };
        there.select(waiting, limit).await.expect("answers")
    };
    assert_eq!(told(me, 10).await, [], "they wait here");
    assert_eq!(told(other, 0).await, []);
    assert_eq!(told(other, 2).await, [made[0], made[3]], "one of each owner");
    assert_eq!(told(third, 10).await, [made[1], made[2]], "and not what another host looks at");
    assert_eq!(told(other, 10).await, []);
    fixture.clock.advance(60_000);
    assert_eq!(told(other, 10).await, [made[0], made[3], made[1], made[2]], "no host has taken them");

    // A task that was taken belongs to another host, and one that began no longer waits.
    let taken = Event::Taken { from: me, by: other };
    applied(&**there, made[0], taken.clone()).await;
    applied(&**here, made[1], Event::Started { fence }).await;
    for late in &made[..2] {
        change(&**there, *late, &taken).await.expect("is there").expect_err("it was taken, or it has begun");
    }
    fixture.clock.advance(60_000);
    assert_eq!(told(other, 10).await, [made[2], made[3]]);
    fixture.clock.advance(60_000);
    assert_eq!(told(third, 10).await, [made[0], made[3], made[2]]);
    assert_eq!(there.select(TaskQuestion::HeldBy(other), 1_000).await.expect("answers"), [made[0]]);
}

/// Live hosts are listed with the state that they report.
pub async fn hosts_tell_each_other_of_their_components(fixture: Fixture) {
    let (here, there) = (fixture.store(), fixture.store());
    assert_eq!(here.living().await.expect("answers"), []);
    let me = here.register().await.expect("registers").incarnation;
    let [one, other] = [Digest("ab".repeat(32)), Digest("cd".repeat(32))];
    assert!(here.renew(me, Some(&[one.clone(), other.clone()])).await.expect("renews"));
    let found = there.living().await.expect("answers");
    let [host] = &found[..] else { panic!("one host: {found:?}") };
    assert_eq!((host.incarnation, &host.components[..]), (me, &[one.clone(), other][..]));
    assert_eq!(host.since.0, crate::START);
    assert!(here.renew(me, Some(std::slice::from_ref(&one))).await.expect("renews"));
    assert!(!there.renew(me, Some(&[])).await.expect("answers"));
    assert_eq!(there.living().await.expect("answers")[0].components, std::slice::from_ref(&one));
    assert!(here.renew(me, None).await.expect("renews"));
    assert_eq!(there.living().await.expect("answers")[0].components, [one]);
    fixture.clock.advance(LEASE_MS);
    assert_eq!(there.living().await.expect("answers"), [], "it is dead");
}

/// All hosts except the sender receive a broadcast; a message that is too long is lost.
pub async fn hosts_hear_what_others_tell(fixture: Fixture) {
    let hosts = [fixture.store(), fixture.store(), fixture.store()];
    let mut heard: Vec<_> = hosts.iter().map(|host| host.subscribe()).collect();
    // A host that has just subscribed may miss a message that is sent at that moment.
    let told = async {
        loop {
            hosts[0].send("x".repeat(MAX_MESSAGE_BYTES + 1));
            hosts[0].send(format!("{{\"word\": \"it's a \\\\ {}\"}}", "é".repeat(2_000)));
            hosts[1].send("{}".to_owned());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let hears = async {
        let [here, there, third] = &mut heard[..] else { panic!("three") };
        assert_eq!(here.next().await.as_deref(), Some("{}"));
        let word = there.next().await.expect("a word");
        assert!(word.starts_with("{\"word\": \"it's a \\\\ é") && word.len() > 4_000, "{word}");
        let mut both = std::collections::BTreeSet::new();
        while both.len() < 2 {
            both.insert(third.next().await.expect("a word"));
        }
        assert!(both.contains("{}") && both.contains(&word));
    };
    tokio::select! {
        () = told => {}
        heard = tokio::time::timeout(BOUND, hears) => heard.expect("it is heard"),
    }
}
