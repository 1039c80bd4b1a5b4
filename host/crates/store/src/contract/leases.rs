//! Hosts that live by leases, as on a store that several machines share. Only for
//! stores that have them: the system tells the others of the end of a local process.

use super::{Fixture, Host, created, owner, task};
use std::time::Duration;
use toolyard_task::node::Tenure;
use toolyard_task::{Fence, Task};

/// A lease holds as long as it is renewed, by the store's clock; once it has run out,
/// nothing brings it back. The fixture's stores have leases of this length.
pub async fn a_lease_holds_as_long_as_it_is_renewed(fixture: Fixture, lease: Duration) {
    let (here, there) = (fixture.store(), fixture.store());
    let milliseconds = u64::try_from(lease.as_millis()).expect("a short lease");
    let me = here.register().await.expect("registers");
    assert_eq!(me.tenure, Tenure::Lease(lease));
    let me = me.incarnation;
    let fence = Fence { incarnation: me, attempt: 1 };
    created(&*here, Task { fence, ..task(&owner("a")) }).await;
    for _ in 0..3 {
        fixture.clock.advance(milliseconds - 1);
        assert_eq!(there.dead().await.expect("answers"), []);
        assert!(!there.renew(me).await.expect("answers"), "nobody renews for another");
        assert!(here.renew(me).await.expect("renews"));
        assert_eq!(here.register().await.expect("registers").incarnation, me, "it holds");
    }
    // A killed host is found when its time is over, no earlier.
    let Host { store: other, kill } = (fixture.open)();
    let killed = other.register().await.expect("registers").incarnation;
    kill().await;
    assert_eq!(here.dead().await.expect("answers"), []);
    fixture.clock.advance(milliseconds);
    assert_eq!(there.dead().await.expect("answers"), [me, killed]);
    assert!(!here.renew(me).await.expect("answers"), "it came too late");
    fixture.clock.set(super::START);
    assert!(!here.renew(me).await.expect("answers"), "whatever becomes of the clock");
    let again = here.register().await.expect("registers").incarnation;
    assert!(again > killed, "another one");
    assert_eq!(there.dead().await.expect("answers"), [me, killed]);
    there.forget(killed).await.expect("forgets");
    there.forget(me).await.expect("answers");
    assert_eq!(there.dead().await.expect("answers"), [me], "its task was not seen to");
    here.resign(again).await.expect("resigns");
    assert_eq!(there.dead().await.expect("answers"), [me, again]);
}
