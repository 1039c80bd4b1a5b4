//! Races between cancellations, results and ttls, from several hosts.

use crate::{Fixture, TTL, change, created, in_lanes, owner, read, task};
use std::sync::Arc;
use toolyard_store::Store;
use toolyard_task::apply::Refusal;
use toolyard_task::approval::{Approval, ApprovalObject, ConfirmTerms, Decision};
use toolyard_task::wire::RawJson;
use toolyard_task::{Event, Outcome, Task};

/// In every race, exactly one event ends the task, only that one is acknowledged, and nothing
/// changes the task later.
pub async fn one_end_and_it_is_the_acknowledged_one(fixture: Fixture) {
    let wins = in_lanes(&fixture, fixture.races, race).await;
    assert!(wins[0] > 0 && wins[1] > 0, "it was no race: {wins:?}");
}

/// Returns which of the two won.
async fn race(hosts: [Arc<dyn Store>; 2], salt: u32) -> usize {
    // A task whose ttl passes at once, so that its expiry joins the race.
    let ttl_ms = if salt.is_multiple_of(4) { 0 } else { TTL };
    let made = created(&*hosts[0], Task { ttl_ms, ..task(&owner("a")) }).await;
    let result = Outcome::Result { is_error: false, result: RawJson::trusted(format!("{{\"n\":{salt}}}")) };
    let finished = Event::Finished { fence: made.fence, outcome: result, message: None };
    let said = Event::Said { fence: made.fence, message: "half way".into() };
    let other = if ttl_ms == 0 { Event::Expired } else { Event::Cancelled { message: "stop".into() } };
    let (first, second) = if salt.is_multiple_of(2) { (&finished, &other) } else { (&other, &finished) };
    let (one, two, _) = tokio::join!(
        change(&*hosts[0], made.id, first),
        change(&*hosts[(salt % 3 % 2) as usize], made.id, second),
        change(&*hosts[0], made.id, &said),
    );
    let acknowledged = match (one.expect("is there"), two.expect("is there")) {
        (Ok(won), Err(Refusal::Terminal)) | (Err(Refusal::Terminal), Ok(won)) => won,
        other => panic!("not exactly one won: {other:?}"),
    };
    for late in [&finished, &other, &said] {
        assert_eq!(change(&*hosts[1], made.id, late).await, Some(Err(Refusal::Terminal)));
    }
    for host in hosts {
        assert_eq!(read(&*host, made.id).await, acknowledged, "an acknowledged end was changed");
    }
    usize::from(matches!(acknowledged.outcome, Some(Outcome::Result { .. })))
}

/// Of two approvers, an end of time and a cancel, one decides whether a call runs; and no call ends without a
/// decision.
pub async fn one_decision_about_an_approval(fixture: Fixture) {
    // As many as the issue of approvals names.
    in_lanes(&fixture, fixture.races.min(10_000), decide).await;
}

/// Returns whether the call was approved.
async fn decide(hosts: [Arc<dyn Store>; 2], salt: u32) -> usize {
    let new = task(&owner("a"));
    // An approval whose time is up at once, so that this joins the race.
    let wait_ms = if salt.is_multiple_of(4) { 0 } else { TTL };
    let approval = Approval::asked(&ConfirmTerms::default(), ApprovalObject::of(&new), wait_ms);
    let fingerprint = approval.fingerprint.clone();
    let made = created(&*hosts[0], Task { approval: Some(Box::new(approval)), ..new }).await;
    let decided = |decision| Event::Decided { fingerprint: fingerprint.clone(), decision };
    let events = [
        decided(Decision::Approve),
        decided(Decision::Deny { note: None }),
        Event::ApprovalExpired,
        Event::Cancelled { message: "stop".into() },
    ];
    let at = |number: usize| &*hosts[(salt as usize + number) % 2];
    let (yes, no, late, cancel) = tokio::join!(
        change(at(0), made.id, &events[0]),
        change(at(1), made.id, &events[1]),
        change(at(2), made.id, &events[2]),
        change(at(3), made.id, &events[3]),
    );
    let [yes, no, late, cancel] = [yes, no, late, cancel].map(|end| end.expect("is there").is_ok());
    let read = read(&*hosts[1], made.id).await;
    let given = read.approval.as_ref().is_some_and(|approval| approval.given.is_some());
    assert_eq!(given, yes, "an approval was invented or lost");
    match &read.outcome {
        None => assert!(yes && !no && !late && !cancel, "approved"),
        Some(Outcome::Result { is_error: true, .. }) => assert!(!yes && (no ^ late) && !cancel, "denied"),
        // An approved call can be cancelled.
        Some(Outcome::Cancelled) => assert!(cancel && !no && !late),
        other => panic!("{other:?}"),
    }
    assert!(wait_ms > 0 || (!yes && !no), "decided after its time");
    usize::from(yes)
}
