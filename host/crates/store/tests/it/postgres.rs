//! The contract suite over the store in PostgreSQL, on its own server, and tests that apply only
//! there.

#[path = "../../../../../tests/src/postgres.rs"]
#[allow(dead_code, reason = "the host's tests need more of it")]
mod server;

mod backup;
mod resealing;
mod strangers;
mod timelines;

use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio_postgres::{Client, NoTls};
use toolyard_store::postgres::PostgresLocation;
use toolyard_store::{Backend, Keyring, PostgresOptions, PostgresStore};
use toolyard_store_contract::leases::LEASE;
use toolyard_store_contract::{Fixture, Host, ManualClock, START};

/// A separate schema.
struct Schema {
    server: &'static server::Server,
    name: String,
    place: PostgresLocation,
}

impl Schema {
    /// `None` without a server.
    fn new() -> Option<Self> {
        let server = server::shared()?;
        let name = server.schema();
        let place = PostgresLocation::parse(&server.address(), &name).expect("an address");
        Some(Self { server, name, place })
    }

    /// A connection that belongs to no host.
    async fn beside(&self) -> Client {
        let client = connect(&self.server.address()).await;
        client.batch_execute(&format!("SET search_path = {}", self.name)).await.expect("is set");
        client
    }
}

async fn connect(address: &str) -> Client {
    let (client, driver) = tokio_postgres::connect(address, NoTls).await.expect("connects");
    // It ends when its client is dropped.
    tokio::spawn(async move { drop(driver.await) });
    client
}

fn fixture(keys: Option<Arc<Keyring>>, leaves: bool) -> Option<Fixture> {
    let schema = Schema::new()?;
    let place = schema.place.clone();
    let options = PostgresOptions {
        lease: LEASE,
        readers: 4,
        audit: true,
        note: Duration::from_millis(20),
        touch: Duration::from_millis(20),
        adopt_after: Duration::ZERO,
        keys,
        ..PostgresOptions::default()
    };
    // The tables are created first, so that a test clock can replace the server's.
    let first = open(&place, &options);
    wait(first.shut_down());
    let clock = clock(&schema);
    let open = move || {
        let store = open(&place, &options);
        let killed = store.clone();
        let end = async move {
            // A host that crashes does not resign.
            if leaves {
                killed.shut_down().await;
            }
        };
        Host { store, kill: Box::new(move || Box::pin(end)) }
    };
    Some(Fixture { clock, open: Box::new(open), races: crate::contract::races(1_000) })
}

fn open(place: &PostgresLocation, options: &PostgresOptions) -> Arc<PostgresStore> {
    wait(PostgresStore::open(place.clone(), options.clone())).expect("opens")
}

/// Waits in a function that is not async.
fn wait<T>(work: impl Future<Output = T>) -> T {
    tokio::task::block_in_place(|| Handle::current().block_on(work))
}

/// From here on, the test sets the server's clock in this schema.
fn clock(schema: &Schema) -> Arc<ManualClock> {
    let client = wait(schema.beside());
    let replaced = format!(
        "CREATE TABLE manual_clock (now bigint NOT NULL);
         INSERT INTO manual_clock VALUES ({START});
         CREATE OR REPLACE FUNCTION engine_time() RETURNS bigint LANGUAGE sql VOLATILE AS
             $$ SELECT now FROM manual_clock $$"
    );
    wait(client.batch_execute(&replaced)).expect("replaces the clock");
    let tell = move |now: i64| {
        wait(client.execute("UPDATE manual_clock SET now = $1", &[&now])).expect("sets the clock");
    };
    ManualClock::telling(START, Box::new(tell))
}

mod plain {
    use super::*;

    toolyard_store_contract::contract_tests! { match fixture(None, true) { Some(fixture) => fixture, None => return } }
}

/// Encrypted stores also keep every promise of a store.
mod encrypted {
    use super::*;

    toolyard_store_contract::contract_tests! {
        match fixture(Keyring::new([[7; 32]]), true) { Some(fixture) => fixture, None => return }
    }
}

/// A host that crashes does not resign.
mod leased {
    use super::*;

    toolyard_store_contract::lease_tests! { match fixture(None, false) { Some(fixture) => fixture, None => return } }
}
