//! Permanent verdicts of users.

use crate::audit::actions;
use crate::{Fixture, START, owner, random, session};
use toolyard_store::Store;
use toolyard_task::audit::{By, Entry};
use toolyard_task::grant::{AfterGrant, Grant, GrantId, Verdict};
use toolyard_task::permission::Access;
use toolyard_task::wire::Timestamp;
use toolyard_task::{AccessRequest, Digest, Owner};

const MANY: u32 = 1_000;

fn folder(guest: &str) -> AccessRequest {
    let (path, named) = ("/srv/data".into(), "./data".into());
    AccessRequest::Folder { guest: guest.into(), path, named, access: Access::Read }
}

/// A grant to this owner, not yet given.
pub fn grant(owner: &Owner, wanted: AccessRequest) -> Grant {
    Grant {
        id: GrantId(random()),
        owner: owner.clone(),
        by: "somebody".into(),
        plugin: "files.wasm".into(),
        digest: Digest("ab".repeat(32)),
        wanted,
        verdict: Verdict::Allow,
        given_at: Timestamp(0),
    }
}

fn entry(grant: &Grant) -> Vec<Entry> {
    let of = (grant.plugin.as_str(), &grant.digest);
    vec![Entry::verdict_given(grant.verdict, of, &grant.wanted, "always", &By::principal(&grant.by, None))]
}

async fn given(store: &dyn Store, grant: Grant) -> Grant {
    let entries = entry(&grant);
    store.give(grant, MANY, entries).await.expect("answers").expect("is kept")
}

async fn standing(store: &dyn Store, of: &Grant) -> Option<Grant> {
    store.standing(&of.owner, &of.plugin, &of.digest, &of.wanted).await.expect("reads")
}

/// The other hosts find a grant of one host, unchanged and with the store's time, until it is
/// revoked. A look-up finds it only if everything that it is bound to matches.
pub async fn a_grant_is_found_for_exactly_what_it_was_given(fixture: Fixture) {
    let (here, there) = (fixture.store(), fixture.store());
    let alice = owner("alice");
    for wanted in [folder("/data"), AccessRequest::host("https", "example.com", 443)] {
        let new = grant(&alice, wanted);
        assert_eq!(standing(&*here, &new).await, None);
        let kept = given(&*here, new.clone()).await;
        assert_eq!(kept, Grant { given_at: Timestamp(START), ..new.clone() });
        assert_eq!(standing(&*there, &new).await, Some(kept.clone()));
        for other in [
            Grant { owner: owner("bob"), ..new.clone() },
            Grant { owner: Owner::Local, ..new.clone() },
            Grant { plugin: "other.wasm".into(), ..new.clone() },
            Grant { digest: Digest("cd".repeat(32)), ..new.clone() },
            Grant { wanted: folder("/else"), ..new.clone() },
            Grant { wanted: AccessRequest::host("http", "example.com", 443), ..new.clone() },
        ] {
            assert_eq!(standing(&*there, &other).await, None, "{other:?}");
        }
        assert_eq!(there.revoke(kept.id, &By::host()).await.expect("answers"), Some(kept));
        assert_eq!(standing(&*here, &new).await, None);
        assert_eq!(here.grants(None, MANY).await.expect("reads"), []);
    }
}

/// The last verdict counts, and it is the only one.
pub async fn a_later_verdict_replaces_an_earlier_one(fixture: Fixture) {
    let (here, there) = (fixture.store(), fixture.store());
    let first = given(&*here, grant(&owner("a"), folder("/data"))).await;
    fixture.clock.advance(5);
    let mut wanted = folder("/data");
    let AccessRequest::Folder { named, .. } = &mut wanted else { panic!("a folder") };
    *named = "elsewhere/../data".to_owned();
    let second = given(&*there, Grant { verdict: Verdict::Deny, ..grant(&owner("a"), wanted) }).await;
    assert_eq!(standing(&*here, &first).await, Some(second.clone()));
    assert_eq!(here.grants(None, MANY).await.expect("reads"), [second]);
}

/// An entry exists if and only if its change does.
pub async fn t_43_what_is_given_and_revoked_is_in_the_log_and_nothing_else(fixture: Fixture) {
    let (here, there) = (fixture.store(), fixture.store());
    let kept = given(&*here, grant(&owner("a"), folder("/data"))).await;
    let by = By::host();
    assert_eq!(here.revoke(GrantId(random()), &by).await.expect("answers"), None, "there is none");
    assert_eq!(actions(&*there).await, ["permission.given"]);
    assert_eq!(there.revoke(kept.id, &by).await.expect("answers"), Some(kept.clone()));
    assert_eq!(here.revoke(kept.id, &by).await.expect("answers"), None, "only once");
    let nobodys = grant(&Owner::Session(session().id), folder("/data"));
    let entries = entry(&nobodys);
    assert_eq!(here.give(nobodys, MANY, entries).await.expect("answers"), None);
    assert_eq!(actions(&*here).await, ["permission.given", "permission.revoked"]);
}

/// Grants are listed in the order in which they were given, page by page, each once.
pub async fn grants_are_listed_by_time_and_id(fixture: Fixture) {
    let store = fixture.store();
    let mut expected = Vec::new();
    for number in 0..10 {
        let of = owner(&format!("owner {}", number % 3));
        expected.push(given(&*store, grant(&of, folder(&format!("/{number}")))).await);
        if number % 4 == 3 {
            fixture.clock.advance(7);
        }
    }
    expected.sort_by_key(|grant| (grant.given_at, grant.id));
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let page = store.grants(after, 3).await.expect("reads");
        let Some(last) = page.last() else { break };
        after = Some(AfterGrant { given_at: last.given_at, id: last.id });
        found.extend(page);
    }
    assert_eq!(found, expected);
}

/// If an owner exceeds the limit, its oldest grants are removed, and no others.
pub async fn the_oldest_grants_of_an_owner_give_way(fixture: Fixture) {
    let store = fixture.store();
    let others = given(&*store, grant(&owner("b"), folder("/data"))).await;
    let mut mine = Vec::new();
    for number in 0..5 {
        fixture.clock.advance(1);
        let next = grant(&owner("a"), folder(&format!("/{number}")));
        mine.push(store.give(next, 3, vec![]).await.expect("answers").expect("is kept"));
    }
    mine.drain(..2);
    mine.insert(0, others);
    assert_eq!(store.grants(None, MANY).await.expect("reads"), mine, "in the order in which they were given");
}

/// The grants of an anonymous client end with its session, however the session ends; the grants of
/// others stay.
pub async fn a_session_takes_its_grants_along(fixture: Fixture) {
    let (here, there) = (fixture.store(), fixture.store());
    let open = async || here.open(session(), MANY).await.expect("opens");
    let (closed, idle) = (open().await, open().await);
    let of_closed = given(&*here, grant(&closed.owner, folder("/data"))).await;
    let of_idle = given(&*here, grant(&idle.owner, folder("/data"))).await;
    let others = given(&*here, grant(&owner("a"), folder("/data"))).await;
    assert_ne!(standing(&*there, &of_closed).await, None);
    assert!(there.close(&closed.id).await.expect("answers"));
    assert_eq!(standing(&*here, &of_closed).await, None);
    assert_ne!(standing(&*there, &of_idle).await, None);
    fixture.clock.advance(1_000);
    assert_eq!(there.sweep(1_000).await.expect("sweeps"), 1);
    assert_eq!(standing(&*here, &of_idle).await, None);
    let evicted = open().await;
    let of_evicted = given(&*here, grant(&evicted.owner, folder("/data"))).await;
    fixture.clock.advance(1);
    here.open(session(), 1).await.expect("opens");
    assert_eq!(here.session(&evicted.id).await.expect("reads"), None, "gave way");
    assert_eq!(here.grants(None, MANY).await.expect("reads"), [others], "not {of_evicted:?}");
}
