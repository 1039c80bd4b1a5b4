//! Races between cancellations, results and ttls, from several hosts.

use super::{Fixture, TTL, change, created, owner, task};
use crate::Store;
use std::sync::Arc;
use tokio::task::JoinSet;
use toolyard_task::apply::Refusal;
use toolyard_task::wire::RawJson;
use toolyard_task::{Event, Outcome, Task};

/// The number of concurrent races.
const LANES: u32 = 64;

/// In every race, exactly one event ends the task, only that one is acknowledged, and nothing
/// changes the task later.
pub async fn one_end_and_it_is_the_acknowledged_one(fixture: Fixture) {
    let hosts = [fixture.store(), fixture.store()];
    let mut lanes = JoinSet::new();
    for lane in 0..LANES {
        let hosts = hosts.clone();
        let rounds = fixture.races.div_ceil(LANES);
        lanes.spawn(async move {
            let mut wins = [0_u32; 2];
            for round in 0..rounds {
                wins[race(&hosts, lane + round).await] += 1;
            }
            wins
        });
    }
    let wins =
        lanes.join_all().await.into_iter().fold([0, 0], |sum, lane| [sum[0] + lane[0], sum[1] + lane[1]]);
    assert!(wins[0] > 0 && wins[1] > 0, "it was no race: {wins:?}");
}

/// Returns which of the two won.
async fn race(hosts: &[Arc<dyn Store>; 2], salt: u32) -> usize {
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
        let read = host.read(made.id, None).await.expect("reads").expect("is there");
        assert_eq!(read.task, acknowledged, "an acknowledged end was changed");
    }
    usize::from(matches!(acknowledged.outcome, Some(Outcome::Result { .. })))
}
