//! The contract suite over each store.

use std::sync::Arc;
use toolyard_store::{Backend, Keyring, MemoryStore, SqliteOptions, SqliteStore};
use toolyard_store_contract::{Fixture, Host, ManualClock, START};

/// The number of races of each kind: the nightly run has all, a landing a quarter.
pub fn races(all: u32) -> u32 {
    if std::env::var_os("NIGHTLY").is_some() { all } else { all / 4 }
}

mod memory {
    toolyard_store_contract::contract_tests!(super::memory(
        super::MemoryStore::audited,
        super::races(100_000)
    ));
}

mod leased {
    use toolyard_store_contract::leases::LEASE;

    toolyard_store_contract::lease_tests!(super::memory(|store| store.leased(LEASE), 1));
}

mod sqlite {
    toolyard_store_contract::contract_tests!(super::sqlite(None));
}

/// Encrypted stores also keep every promise of a store.
mod encrypted {
    toolyard_store_contract::contract_tests!(super::sqlite(super::Keyring::new([[7; 32]])));
}

fn memory(set: impl FnOnce(MemoryStore) -> MemoryStore, races: u32) -> Fixture {
    let clock = ManualClock::at(START);
    let first = set(MemoryStore::new(clock.clone()));
    let open = move || {
        let store = Arc::new(first.node());
        let killed = store.clone();
        Host { store, kill: Box::new(move || Box::pin(async move { killed.kill() })) }
    };
    Fixture { clock, open: Box::new(open), races }
}

fn sqlite(keys: Option<Arc<Keyring>>) -> Fixture {
    let clock = ManualClock::at(START);
    let folder = tempfile::tempdir().expect("a folder");
    let note = std::time::Duration::from_millis(20);
    let options = SqliteOptions { audit: true, note, keys, ..SqliteOptions::new(clock.clone()) };
    // Every host is like another process: it has its own file handles, connections and threads.
    let open = move || {
        let store = SqliteStore::open(folder.path(), options.clone()).expect("opens");
        let killed = store.clone();
        Host { store, kill: Box::new(move || Box::pin(async move { killed.shut_down().await })) }
    };
    Fixture { clock, open: Box::new(open), races: races(1_000) }
}
