//! Sessions.

use crate::{Fixture, START, created, finish, owner, result, session, task};
use toolyard_task::session::Session;
use toolyard_task::wire::Timestamp;
use toolyard_task::{SessionId, StoreError, Task};

const MANY: u32 = 1_000;

/// The store returns a session unchanged, with its own times, until the session is closed.
pub async fn a_session_is_kept_and_closed(fixture: Fixture) {
    let (here, there) = (fixture.store(), fixture.store());
    let given = session();
    let opened = here.open(given.clone(), MANY).await.expect("opens");
    let now = Timestamp(START);
    assert_eq!(opened, Session { created_at: now, seen_at: now, ..given });
    assert_eq!(there.session(&opened.id).await.expect("reads"), Some(opened.clone()));
    let again = here.open(opened.clone(), MANY).await;
    assert!(matches!(again, Err(StoreError::Corrupt(_))), "{again:?}");
    let unknown = session().id;
    assert_eq!(here.session(&unknown).await.expect("reads"), None);
    here.touch(&unknown).await.expect("does no harm");
    assert_eq!(here.session(&unknown).await.expect("reads"), None);
    assert!(!here.close(&unknown).await.expect("answers"));
    assert!(there.close(&opened.id).await.expect("answers"));
    assert!(!here.close(&opened.id).await.expect("answers"));
    assert_eq!(here.session(&opened.id).await.expect("reads"), None);
}

/// The log level and the subscriptions of an open session outlive their process; no other field of
/// the caller's value is written.
pub async fn the_settings_of_a_client_are_stored_and_nothing_else(fixture: Fixture) {
    let (here, there) = (fixture.store(), fixture.store());
    let opened = here.open(session(), MANY).await.expect("opens");
    fixture.clock.advance(10);
    here.touch(&opened.id).await.expect("touches");
    let set = Session {
        client: "another".into(),
        seen_at: Timestamp(0),
        log_level: Some("warning".into()),
        subscriptions: ["file:///a".into(), "file:///b".into()].into(),
        task_aware: true,
        ..opened.clone()
    };
    assert!(here.remember(&set).await.expect("answers"));
    let expected = Session {
        seen_at: Timestamp(START + 10),
        log_level: set.log_level.clone(),
        subscriptions: set.subscriptions.clone(),
        task_aware: true,
        ..opened.clone()
    };
    assert_eq!(there.session(&opened.id).await.expect("reads"), Some(expected.clone()));
    // A setting can be unset.
    assert!(there.remember(&opened).await.expect("answers"));
    let unset = Session { log_level: None, subscriptions: Default::default(), task_aware: false, ..expected };
    assert_eq!(here.session(&opened.id).await.expect("reads"), Some(unset));
    assert!(!here.remember(&session()).await.expect("answers"), "was never opened");
    assert!(here.close(&opened.id).await.expect("answers"));
    assert!(!here.remember(&set).await.expect("answers"), "is closed");
    assert_eq!(here.session(&opened.id).await.expect("reads"), None, "and stays so");
}

/// Beyond the limit, the session that was unseen for longest is removed, unless it has live tasks;
/// the new one always stays.
pub async fn the_session_longest_unseen_gives_way(fixture: Fixture) {
    let store = fixture.store();
    let mut opened = Vec::new();
    for _ in 0..4 {
        opened.push(store.open(session(), 4).await.expect("opens").id);
        fixture.clock.advance(10);
    }
    let there = async |number: usize| store.session(&opened[number]).await.expect("reads").is_some();
    store.touch(&opened[0]).await.expect("touches");
    let live = created(&*store, works_for(&opened[1])).await;
    fixture.clock.advance(10);
    store.open(session(), 4).await.expect("opens");
    // The first was seen lately, the second has a live task, and the third was longest unseen.
    assert_eq!([there(0).await, there(1).await, there(2).await, there(3).await], [true, true, false, true]);
    finish(&*store, &live, result()).await;
    let last = store.open(session(), 2).await.expect("opens").id;
    assert!(!there(1).await, "has no live task any more");
    assert!(!there(3).await);
    assert!(store.session(&last).await.expect("reads").is_some());
    created(&*store, works_for(&last)).await;
    let more = store.open(session(), 1).await.expect("opens").id;
    for id in [&last, &more] {
        assert!(store.session(id).await.expect("reads").is_some(), "at work, or just opened");
    }
}

/// The open sessions are listed, the latest used first.
pub async fn sessions_are_listed_by_their_last_use(fixture: Fixture) {
    let (here, there) = (fixture.store(), fixture.store());
    let mut opened = Vec::new();
    for _ in 0..3 {
        opened.push(here.open(session(), MANY).await.expect("opens"));
        fixture.clock.advance(10);
    }
    let listed = async |limit: u32| there.sessions(limit).await.expect("lists");
    let [first, second, third] = &opened[..] else { panic!("three sessions") };
    assert_eq!(listed(10).await, [third.clone(), second.clone(), first.clone()]);
    assert_eq!(listed(1).await, std::slice::from_ref(third));
    assert!(here.close(&second.id).await.expect("answers"));
    assert_eq!(listed(10).await, [third.clone(), first.clone()]);
}

/// Sessions that have not been seen for long are removed, unless they have live tasks.
pub async fn idle_sessions_are_swept_unless_they_work(fixture: Fixture) {
    let store = fixture.store();
    let mut opened = Vec::new();
    for _ in 0..3 {
        opened.push(store.open(session(), MANY).await.expect("opens").id);
    }
    let live = created(&*store, works_for(&opened[1])).await;
    fixture.clock.advance(600);
    store.touch(&opened[2]).await.expect("touches");
    fixture.clock.advance(400);
    let there = async |number: usize| store.session(&opened[number]).await.expect("reads").is_some();
    assert_eq!(store.sweep(1_001).await.expect("sweeps"), 0);
    assert_eq!(store.sweep(1_000).await.expect("sweeps"), 1);
    assert_eq!([there(0).await, there(1).await, there(2).await], [false, true, true]);
    finish(&*store, &live, result()).await;
    assert_eq!(store.sweep(1_000).await.expect("sweeps"), 1);
    assert_eq!([there(1).await, there(2).await], [false, true]);
}

fn works_for(session: &SessionId) -> Task {
    // Sessions keep their tasks alive, not their owners.
    Task { session: Some(session.clone()), ..task(&owner("a")) }
}
