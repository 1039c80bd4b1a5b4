//! Timelines in PostgreSQL: the upgrade of a schema without them, and the bounds on all of them.

use super::server;
use tokio_postgres::NoTls;
use toolyard_store::postgres::PostgresLocation;
use toolyard_store::{Backend, PostgresOptions, PostgresStore, TimelineBounds};
use toolyard_store_contract::journal::{chunk, recorded};
use toolyard_store_contract::timeline::{kinds, log, timeline};
use toolyard_store_contract::{START, TTL, created, finish, owner, remove, result, task};
use toolyard_task::TaskStore as _;
use toolyard_task::journal::{Appended, ChunkWrite, Flush, JournalStore as _};
use toolyard_task::timeline::{EventKind, TimelineStore as _};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_schema_without_timelines_and_journals_is_upgraded() {
    let Some(server) = server::shared() else { return };
    let schema = server.schema();
    let place = PostgresLocation::parse(&server.address(), &schema).expect("an address");
    let open = || PostgresStore::open(place.clone(), PostgresOptions::default());
    let store = open().await.expect("opens");
    let made = created(&*store, task(&owner("a"))).await;
    store.shut_down().await;

    let (client, driver) = tokio_postgres::connect(&server.address(), NoTls).await.expect("connects");
    let driving = tokio::spawn(driver);
    let schema_2 = format!(
        "SET search_path = {schema}; DROP TABLE run, run_event, journal, journal_chunk, component, component_part;
         DROP FUNCTION room_for(bytea, bigint, bigint, bigint);
         ALTER TABLE task DROP COLUMN wake; UPDATE toolyard_version SET version = 2"
    );
    client.batch_execute(&schema_2).await.expect("is set back");
    let store = open().await.expect("is upgraded");
    let row = client.query_one("SELECT version FROM toolyard_version", &[]).await.expect("reads");
    assert_eq!(row.get::<_, i64>(0), 4);
    drop(client);
    drop(driving.await);

    assert_eq!(store.read(made.id, None).await.expect("reads").expect("is there").task, made);
    finish(&*store, &made, result()).await;
    assert_eq!(kinds(&*store, made.id).await, [EventKind::Ended]);
    assert_eq!(timeline(&*store, made.id).await.runs[0].outcome.as_deref(), Some("completed"));
    let fence = made.fence;
    let resumes = created(&*store, recorded(&owner("a"), fence)).await;
    let appended = store
        .write_chunks(resumes.id, fence, 0, vec![chunk(0, 9)], ChunkWrite::Append(Flush::Now))
        .await
        .expect("answers");
    assert_eq!(appended, Appended::Done);
    store.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_timelines_that_ended_first_give_way() {
    let Some(server) = server::shared() else { return };
    let schema = server.schema();
    let place = PostgresLocation::parse(&server.address(), &schema).expect("an address");
    let bounds = TimelineBounds { total: 30_000, rows: 3, ..TimelineBounds::default() };
    let options = PostgresOptions { timeline: bounds, ..PostgresOptions::default() };
    let store = super::open(&place, &options);
    let clock = super::clock(server, schema);
    clock.set(START);
    let mut made = Vec::new();
    for _ in 0..5 {
        clock.advance(1);
        let task = created(&*store, task(&owner("a"))).await;
        store.append(task.id, log(&"x".repeat(9_000)));
        made.push(finish(&*store, &task, result()).await.id);
    }
    for _ in 0..2 {
        store.tidy_timeline().await.expect("tidies");
        let mut events = Vec::new();
        for id in &made {
            events.push(kinds(&*store, *id).await.len());
        }
        assert_eq!(events, [1, 1, 4, 4, 4], "a gap is left of the oldest");
    }
    clock.advance(TTL);
    assert_eq!(remove(&*store, &made).await, 5);
    store.tidy_timeline().await.expect("tidies");
    let mut runs = Vec::new();
    for id in &made {
        runs.push(timeline(&*store, *id).await.runs.len());
    }
    assert_eq!(runs, [0, 0, 1, 1, 1], "the oldest records go first");
    store.shut_down().await;
}
