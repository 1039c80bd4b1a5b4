//! Erasure of a principal's data.

use crate::audit::waiting;
use crate::grants::grant;
use crate::timeline::timeline;
use crate::{Fixture, Host, TTL, created, finish, remove, result, session, task};
use toolyard_store::Store;
use toolyard_task::audit::By;
use toolyard_task::erasure::{DataOwner, Holdings};
use toolyard_task::session::Session;
use toolyard_task::store::{TaskQuestion, Total};
use toolyard_task::wire::RawJson;
use toolyard_task::{AccessRequest, Owner, Task};

fn token(name: &str) -> Owner {
    Owner::Subject { issuer: "token".into(), subject: name.into() }
}

fn principal(of: &Owner) -> DataOwner {
    match of {
        Owner::Local => DataOwner::Local,
        Owner::Session(_) | Owner::Anyone => DataOwner::Anonymous,
        Owner::Subject { issuer, subject } => {
            DataOwner::Subject { issuer: issuer.clone(), subject: subject.clone() }
        }
    }
}

/// One of each kind: an ended task, a task that is gone and left its record, a session, a permission.
async fn fill(fixture: &Fixture, store: &dyn Store, owner: &Owner) {
    let mut opened = Session { owner: owner.clone(), ..session() };
    if let Owner::Session(id) = owner {
        opened.id = id.clone();
    }
    let id = store.open(opened, 1_000).await.expect("opens").id;
    let gone = created(store, Task { ttl_ms: 1, ..task(owner) }).await;
    finish(store, &gone, result()).await;
    fixture.clock.advance(TTL / 100);
    assert_eq!(remove(store, &[gone.id]).await, 1);
    let ended = Task { session: Some(id), arguments: RawJson::of("secret"), ..task(owner) };
    finish(store, &created(store, ended).await, result()).await;
    let grant = grant(owner, AccessRequest::host("https", "a.example", 443));
    store.give(grant, 1_000, Vec::new()).await.expect("answers").expect("is given");
}

async fn erase_all(store: &dyn Store, of: &DataOwner) -> Holdings {
    let (mut erased, by) = (Holdings::default(), By::principal("operator", None));
    loop {
        let batch = store.erase(of, &by).await.expect("erases");
        if batch.total() == 0 {
            return erased;
        }
        erased.add(batch);
    }
}

const ONE_OF_EACH: Holdings = Holdings { live_tasks: 0, tasks: 1, runs: 2, sessions: 1, permissions: 1 };

/// All rows of one principal go, on every host; those of others stay, however alike their names are.
pub async fn the_data_of_a_principal_is_erased_and_nothing_else(fixture: Fixture) {
    let (here, there) = (fixture.store(), fixture.store());
    let long = "x".repeat(400);
    let mut left =
        ["ann", "anna", "an", "%", "a%", "_nn", "Ann", &long, &format!("{long}y")].map(token).to_vec();
    left.extend([crate::owner("ann"), Owner::Local, Owner::Session(session().id)]);
    for owner in &left {
        fill(&fixture, &*here, owner).await;
    }
    // More than one transaction takes.
    for _ in 0..100 {
        finish(&*here, &created(&*here, task(&left[0])).await, result()).await;
    }
    let mut expected = Holdings { tasks: 101, runs: 102, ..ONE_OF_EACH };
    while !left.is_empty() {
        let of = principal(&left.remove(0));
        assert_eq!(there.holdings(&of).await.expect("counts"), expected, "{of}");
        assert_eq!(erase_all(&*there, &of).await, expected, "{of}");
        assert_eq!(erase_all(&*there, &of).await, Holdings::default(), "{of} again");
        for other in &left {
            let of = principal(other);
            assert_eq!(here.holdings(&of).await.expect("counts"), ONE_OF_EACH, "{of}");
        }
        expected = ONE_OF_EACH;
    }
    assert_eq!(here.grants(None, 1_000).await.expect("lists"), []);
    assert_eq!(here.sessions(1_000).await.expect("lists"), []);
    assert_eq!(here.total(Total::Bytes(None)).await.expect("counts"), 0);
}

/// Tasks of anonymous clients without a session are anonymous too. Records whose shortened names are
/// equal cannot be told apart once their tasks are gone; the tasks themselves can.
pub async fn shared_names_are_erased_together_and_tasks_apart(fixture: Fixture) {
    let store = fixture.store();
    let anyones = created(&*store, task(&Owner::Anyone)).await;
    finish(&*store, &anyones, result()).await;
    let erased = erase_all(&*store, &DataOwner::Anonymous).await;
    assert_eq!(erased, Holdings { tasks: 1, runs: 1, ..Holdings::default() });
    let long = "x".repeat(600);
    let [one, other] = [&long, &format!("{long}y")].map(|name| token(name));
    fill(&fixture, &*store, &one).await;
    fill(&fixture, &*store, &other).await;
    assert_eq!(erase_all(&*store, &principal(&one)).await, Holdings { runs: 3, ..ONE_OF_EACH });
    let held = store.holdings(&principal(&other)).await.expect("counts");
    assert_eq!(held, Holdings { runs: 1, ..ONE_OF_EACH });
}

/// A live task stays, with its record and its events, until it has ended.
pub async fn live_tasks_are_not_erased(fixture: Fixture) {
    let store = fixture.store();
    let of = DataOwner::parse("token:ann").expect("a principal");
    let live = created(&*store, task(&token("ann"))).await;
    created(&*store, task(&token("anna"))).await;
    assert_eq!(store.select(TaskQuestion::LiveOf(of.clone()), 10).await.expect("lists"), [live.id]);
    assert_eq!(erase_all(&*store, &of).await, Holdings::default());
    let held = Holdings { live_tasks: 1, runs: 1, ..Holdings::default() };
    assert_eq!(store.holdings(&of).await.expect("counts"), held);
    assert!(!timeline(&*store, live.id).await.events.is_empty());
    finish(&*store, &live, result()).await;
    assert_eq!(store.select(TaskQuestion::LiveOf(of.clone()), 10).await.expect("lists"), []);
    assert_eq!(erase_all(&*store, &of).await, Holdings { tasks: 1, runs: 1, ..Holdings::default() });
    assert!(timeline(&*store, live.id).await.events.is_empty());
}

/// Each commit of an erasure has an entry with its counts, and one that erases nothing has none.
pub async fn an_erasure_is_in_the_log_with_its_counts(fixture: Fixture) {
    let Host { store, .. } = (fixture.open)();
    fill(&fixture, &*store, &token("ann")).await;
    let of = DataOwner::parse("token:ann").expect("a principal");
    erase_all(&*store, &of).await;
    store.exported(0).await.expect("flushes");
    let mut erased: Vec<_> = waiting(&*store).await.into_iter().map(|(_, line)| line).collect();
    erased.retain(|line| line["action"] == "principal.erased");
    let sum: u64 = erased.iter().filter_map(|line| line["count"].as_u64()).sum();
    assert_eq!(sum, ONE_OF_EACH.total(), "{erased:?}");
    for (name, said) in [("principal", "operator"), ("owner", "token:ann"), ("reason", "1 ended task")] {
        assert_eq!(erased[0][name], said, "{erased:?}");
    }
    assert_eq!(erased[0]["count"], 1);
}
