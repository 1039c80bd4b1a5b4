//! Hosts on several machines that share a store: work for those that have room, and their broadcasts.

use crate::kit::prelude::*;
use futures_util::future::pending;
use std::num::NonZeroU32;
use tokio_util::sync::DropGuard;
use toolyard_dispatch::{OfferChange, Operation};
use toolyard_task::Broadcast as _;
use toolyard_task::rate::{Per, Rate};

/// A host with its services.
struct Host {
    dispatch: Arc<Dispatch>,
    _stop: DropGuard,
}

fn shared() -> Arc<MemoryStore> {
    Arc::new(MemoryStore::new(TickingClock::at(1_000_000)).leased(Duration::from_secs(3_600)))
}

fn host(store: &Arc<MemoryStore>, settings: Settings, tools: Vec<Arc<dyn Tool>>) -> Host {
    let store = Arc::new(store.node());
    let dispatch = dispatch_by(settings, &store, tools);
    Host { _stop: serve(&dispatch), dispatch }
}

fn tools() -> Vec<Arc<dyn Tool>> {
    vec![tool("never", |_| pending()), tool("once", |_| async { done("done") })]
}

async fn seen(host: &Host, id: &str) -> Task {
    task_of(&host.dispatch, &mute(), id).await
}

async fn until_completed(host: &Host, id: &str) {
    let is_completed = |task: &Task| task.status() == TaskStatus::Completed;
    until(&host.dispatch, &mute(), id, "the task to be completed", is_completed).await;
}

#[tokio::test]
async fn what_waits_on_a_host_is_run_by_one_that_has_room() {
    let store = shared();
    let here = host(&store, running(1), tools());
    let busy = create_alone(&here.dispatch, &mute(), "never").await;
    let waiting = create_alone(&here.dispatch, &mute(), "once").await;
    // One that does not want to, and one that has no room.
    let _other = host(&store, running(10), tools());
    let full = host(&store, Settings { shares: true, ..running(0) }, tools());
    tokio::time::sleep(Duration::from_millis(600)).await;
    assert_eq!(seen(&full, &waiting).await.status(), TaskStatus::Working);
    let there = host(&store, Settings { shares: true, ..running(10) }, tools());
    until_completed(&here, &waiting).await;
    eventually("its place to be given up", || here.dispatch.load().runs == 1).await;
    let (taken, begun) = (seen(&there, &waiting).await.fence, seen(&there, &busy).await.fence);
    assert_ne!(taken.incarnation, begun.incarnation);
    assert_eq!(taken.attempt, 1, "it had not begun");
    assert_eq!(seen(&there, &busy).await.status(), TaskStatus::Working, "what has begun stays");
}

/// T-42: the runs of a principal are counted over all hosts, as far as they have reported them.
#[tokio::test]
async fn t_42_runs_of_a_principal_are_counted_on_all_hosts() {
    let store = shared();
    let admission = Bounds { running_per_principal: 1, ..SETTINGS.admission };
    let settings = || Settings { admission, ..SETTINGS };
    let (here, there) = (host(&store, settings(), tools()), host(&store, settings(), tools()));
    let id = create_alone(&here.dispatch, &mute(), "never").await;
    let caller = mute();
    let busy = || {
        let called = there.dispatch.call(&caller, plain_call("once"));
        matches!(called.now_or_never(), Some(Err(Fault::Busy { .. })))
    };
    eventually("the other host to hear of it", busy).await;
    let waiting = create_alone(&there.dispatch, &caller, "once").await;
    tasks_of(&here.dispatch).await.cancel_task(&caller, &id).await.expect("cancelled");
    until_completed(&there, &waiting).await;
    eventually("nothing to run any more", || !busy()).await;
}

/// T-42: so are the rates.
#[tokio::test]
async fn t_42_rates_of_a_principal_are_counted_on_all_hosts() {
    let store = shared();
    let (here, there) = (host(&store, SETTINGS, tools()), host(&store, SETTINGS, tools()));
    let rate = |count| Some(Rate { count: NonZeroU32::new(count).expect("some"), per: Per::Hour });
    for host in [&here, &there] {
        let rates = Rates { calls: rate(10), creation: rate(10), ..Rates::default() };
        host.dispatch.enforce(Policy::new(AccessRules::default(), &rates));
    }
    let who = |subject: &str| RateKey::Subject(principal(subject));
    let (ann, bea) = (who("ann"), who("bea"));
    for _ in 0..9 {
        here.dispatch.access().count_operation(&ann, Operation::Call).expect("within the rate");
    }
    // The rest is used up on the other host: one call at once, and none once the use has been
    // broadcast.
    let mut allowed = 0;
    eventually("the rate to be used up", || {
        match there.dispatch.access().count_operation(&ann, Operation::Call) {
            Ok(()) => {
                allowed += 1;
                std::thread::sleep(Duration::from_millis(150));
                false
            }
            Err(_) => true,
        }
    })
    .await;
    assert!(allowed <= 10, "{allowed}");
    there.dispatch.access().count_operation(&ann, Operation::Creation).expect("of this there was none");
    there.dispatch.access().count_operation(&bea, Operation::Call).expect("another principal");
}

/// R-7, L-6: clients of every host learn of a change that a guest reports. A message from elsewhere may be malformed.
#[tokio::test]
async fn what_a_guest_announces_is_heard_on_all_hosts_and_words_that_mean_nothing_do_no_harm() {
    let store = shared();
    let (here, there) = (host(&store, SETTINGS, tools()), host(&store, SETTINGS, tools()));
    let mut updates = there.dispatch.catalog().updates();
    eventually("it to be heard", || {
        here.dispatch.catalog().announce(OfferChange::Resource("note://1".into()));
        updates.try_recv().is_ok_and(|uri| uri.as_deref() == Some("note://1"))
    })
    .await;
    let stranger = store.node();
    eventually("the last of them to be heard", || {
        for word in ["", "{}", "[]", "{\"used\":{\"by\":[[{\"local\":1},\"call\",-1]]}}", "\u{0}"] {
            stranger.send(word.to_owned());
        }
        stranger.send(r#"{"changed":{"what":{"resource":"x:y"}}}"#.to_owned());
        updates.try_recv().is_ok_and(|uri| uri.as_deref() == Some("x:y"))
    })
    .await;
}
