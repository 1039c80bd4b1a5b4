//! Timelines in PostgreSQL: the upgrade of a schema without them, and the bounds on all of them.

use super::Schema;
use crate::keys::Place as _;
use toolyard_store::{Backend as _, PostgresOptions};
use toolyard_store_contract::journal::{append, chunk, recorded};
use toolyard_store_contract::timeline::{self, kinds, narrow, timeline};
use toolyard_store_contract::{created, finish, owner, read, result, task};
use toolyard_task::journal::Appended;
use toolyard_task::timeline::EventKind;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_schema_without_timelines_and_journals_is_upgraded() {
    let Some(schema) = Schema::new() else { return };
    let store = schema.open(&[]).await;
    let made = created(&*store, task(&owner("a"))).await;
    store.shut_down().await;

    let schema_2 = "DROP TABLE run, run_event, journal, journal_chunk, component, component_part;
        DROP FUNCTION room_for(bytea, bigint, bigint, bigint);
        ALTER TABLE task DROP COLUMN wake; UPDATE toolyard_version SET version = 2";
    schema.run(schema_2).await;
    let store = schema.open(&[]).await;
    assert_eq!(schema.count("SELECT version FROM toolyard_version").await, 4);

    assert_eq!(read(&*store, made.id).await, made);
    finish(&*store, &made, result()).await;
    assert_eq!(kinds(&*store, made.id).await, [EventKind::Ended]);
    assert_eq!(timeline(&*store, made.id).await.runs[0].outcome.as_deref(), Some("completed"));
    let fence = made.fence;
    let resumes = created(&*store, recorded(&owner("a"), fence)).await;
    assert_eq!(append(&*store, resumes.id, fence, 0, &[chunk(0, 9)]).await, Appended::Done);
    store.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_timelines_that_ended_first_give_way() {
    let Some(schema) = Schema::new() else { return };
    let options = PostgresOptions { timeline: narrow(), ..PostgresOptions::default() };
    let store = super::open(&schema.place, &options);
    let clock = super::clock(&schema);
    timeline::the_timelines_that_ended_first_give_way(&*store, &clock).await;
    store.shut_down().await;
}
