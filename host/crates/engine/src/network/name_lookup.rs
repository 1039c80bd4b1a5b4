//! Resolves names to addresses with this machine's resolver, for outgoing requests and raw sockets.
//!
//! The resolver blocks its thread until the name server answers, or for ten seconds and more if it
//! does not, and cannot be stopped. Therefore look-ups have their own threads, whose number is
//! bounded in total and for each account. A look-up counts until it ends, even if its run has
//! ended; otherwise a client could start any number of them by cancelling. Concurrent requests for
//! the same name share one look-up.

use crate::limits::account_slots::{AccountSlot, AccountSlots};
use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, Shared};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, ToSocketAddrs as _};
use std::sync::Arc;
use tokio::sync::oneshot;

/// The maximum number of concurrent look-ups. Each has a thread.
const MAX_LOOKUPS: usize = 64;
/// The maximum number of concurrent look-ups of one account.
const MAX_LOOKUPS_OF_ACCOUNT: usize = 8;

/// Finds the addresses of a name and blocks until then. Tests use one whose answers change.
pub(crate) trait Resolver: Send + Sync {
    /// # Errors
    /// If the name has no addresses, or no name server answers.
    fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>>;
}

/// The resolver of this machine.
pub(crate) struct SystemResolver;

impl Resolver for SystemResolver {
    fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        let found = (name, 0).to_socket_addrs()?;
        Ok(found.map(|address| address.ip().to_canonical()).collect())
    }
}

/// The addresses of a name; `None` if it could not be resolved.
type Addresses = Option<Arc<[IpAddr]>>;
type UnderWay = Shared<BoxFuture<'static, Addresses>>;

/// The look-ups of all runs.
pub(crate) struct NameLookups {
    resolver: Arc<dyn Resolver>,
    slots: AccountSlots,
    under_way: Arc<Mutex<HashMap<Arc<str>, UnderWay>>>,
}

/// The resources of a running look-up. Dropping it, even during a panic, lets another look-up of
/// the name start.
struct LookupGuard {
    name: Arc<str>,
    under_way: Arc<Mutex<HashMap<Arc<str>, UnderWay>>>,
    _slot: AccountSlot,
}

impl Drop for LookupGuard {
    fn drop(&mut self) {
        self.under_way.lock().remove(&self.name);
    }
}

impl NameLookups {
    pub fn new(resolver: Arc<dyn Resolver>) -> Self {
        Self {
            resolver,
            slots: AccountSlots::new(MAX_LOOKUPS, MAX_LOOKUPS_OF_ACCOUNT),
            under_way: Arc::default(),
        }
    }

    /// The addresses of a name; `None` if it could not be resolved. Waits for a free slot. The
    /// caller must bound the time.
    pub async fn find(&self, name: &str, account: &Arc<str>) -> Addresses {
        if let Some(found) = self.joined(name) {
            return found.await;
        }
        let slot = self.slots.take(account).await?;
        self.begin(name.into(), slot).await
    }

    /// The running look-up of this name, if any.
    fn joined(&self, name: &str) -> Option<UnderWay> {
        self.under_way.lock().get(name).cloned()
    }

    fn begin(&self, name: Arc<str>, slot: AccountSlot) -> UnderWay {
        let mut under_way = self.under_way.lock();
        // Another task may have started the look-up while this one waited for a slot.
        if let Some(found) = under_way.get(&name) {
            return found.clone();
        }
        let place = LookupGuard { name: name.clone(), under_way: self.under_way.clone(), _slot: slot };
        let (done, found) = oneshot::channel();
        let found = async move { found.await.ok().flatten() }.boxed().shared();
        under_way.insert(name.clone(), found.clone());
        drop(under_way);
        let resolver = self.resolver.clone();
        let look_up = move || {
            let found = resolver.resolve(&place.name).ok().map(Arc::from);
            drop(place);
            // The receiver may have been dropped.
            let _ = done.send(found);
        };
        // The thread is not joined: the resolver cannot be stopped, and the host does not wait for
        // it on shutdown.
        if let Err(error) = std::thread::Builder::new().name("name look-up".to_owned()).spawn(look_up) {
            tracing::warn!(
                event = "network.lookup_failed", %error,
                "cannot start a thread for a name lookup"
            );
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parking_lot::Condvar;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;
    use tokio::time::timeout;

    /// Answers names that begin with `slow` only after its release.
    #[derive(Default)]
    struct Slow {
        asked: AtomicUsize,
        released: Mutex<bool>,
        change: Condvar,
    }

    impl Slow {
        fn release(&self) {
            *self.released.lock() = true;
            self.change.notify_all();
        }
    }

    impl Resolver for Slow {
        fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
            self.asked.fetch_add(1, Ordering::SeqCst);
            if name.starts_with("slow") {
                self.change.wait_while(&mut self.released.lock(), |released| !*released);
            }
            if name == "panics" {
                panic!("a fault of the resolver");
            }
            Ok(vec![IpAddr::from([192, 0, 2, 1])])
        }
    }

    async fn soon(lookups: &NameLookups, name: &str, account: &Arc<str>) -> Option<Addresses> {
        timeout(Duration::from_millis(500), lookups.find(name, account)).await.ok()
    }

    #[tokio::test]
    async fn names_without_an_answer_take_their_accounts_places_and_no_others() {
        let slow = Arc::new(Slow::default());
        let lookups = NameLookups::new(slow.clone());
        let (hostile, honest): (Arc<str>, Arc<str>) = ("hostile".into(), "honest".into());
        // Each call is abandoned, as when a client cancels, but its look-up continues.
        for number in 0..20 {
            let name = format!("slow{number}");
            let given_up = timeout(Duration::from_millis(5), lookups.find(&name, &hostile)).await;
            assert!(given_up.is_err());
        }
        assert_eq!(slow.asked.load(Ordering::SeqCst), MAX_LOOKUPS_OF_ACCOUNT);
        assert!(soon(&lookups, "quick", &hostile).await.is_none(), "it has no place left");
        assert!(soon(&lookups, "quick", &honest).await.expect("served").is_some());
        slow.release();
        assert!(soon(&lookups, "quick", &hostile).await.expect("served again").is_some());
    }

    #[tokio::test]
    async fn those_who_ask_for_one_name_share_one_look_up() {
        let slow = Arc::new(Slow::default());
        let lookups = NameLookups::new(slow.clone());
        let accounts: Vec<Arc<str>> = (0..50).map(|number| format!("{number}").into()).collect();
        let all = futures_util::future::join_all(accounts.iter().map(|one| lookups.find("slow", one)));
        let release = async {
            tokio::time::sleep(Duration::from_millis(50)).await;
            slow.release();
        };
        let (found, ()) = tokio::join!(all, release);
        assert!(found.iter().all(Option::is_some));
        assert_eq!(slow.asked.load(Ordering::SeqCst), 1);
        assert!(lookups.find("slow", &accounts[0]).await.is_some());
        assert_eq!(slow.asked.load(Ordering::SeqCst), 2, "an answer is not kept");
    }

    #[tokio::test]
    async fn a_look_up_that_panics_gives_its_place_back() {
        let lookups = NameLookups::new(Arc::new(Slow::default()));
        let account: Arc<str> = "one".into();
        for _ in 0..=MAX_LOOKUPS_OF_ACCOUNT {
            assert_eq!(lookups.find("panics", &account).await, None);
        }
    }
}
