//! Timelines in PostgreSQL: the upgrade of a schema without them, and the bounds on all of them.

use super::Schema;
use crate::keys::Place as _;
use toolyard_store::{Backend as _, PostgresOptions};
use toolyard_store_contract::journal::{append, chunk, recorded};
use toolyard_store_contract::timeline::{self, narrow, timeline};
use toolyard_store_contract::{created, finish, owner, read, result, task};
use toolyard_task::journal::Appended;
use toolyard_task::store::Removable;
use toolyard_task::timeline::{EventKind, Timeline};

/// Makes the tables those of schema 4 again.
const SCHEMA_4: &str = "
    ALTER TABLE run_event RENAME TO run_event_5;
    ALTER TABLE run_event_5 DROP CONSTRAINT run_event_pkey;
    CREATE TABLE run_event (task uuid NOT NULL, seq bigint NOT NULL, attempt bigint NOT NULL, at bigint NOT NULL,
        kind smallint NOT NULL, body bytea NOT NULL, PRIMARY KEY (task, seq));
    INSERT INTO run_event SELECT id, event.seq, attempt, at, kind, body
        FROM run_event_5 AS event JOIN task ON task.seq = event.task;
    DROP TABLE run_event_5;
    DROP INDEX run_by_task, left_run_by_task, left_run_by_ended;
    ALTER TABLE run DROP COLUMN task_seq, ADD PRIMARY KEY (task, attempt);
    CREATE INDEX run_by_ended ON run (ended) WHERE ended IS NOT NULL;
    ALTER TABLE task DROP COLUMN seq;
    UPDATE toolyard_version SET version = 4";

/// Schema 2 has neither timelines nor journals.
const SCHEMA_2: &str = "DROP TABLE run, run_event, journal, journal_chunk, component, component_part;
    DROP FUNCTION room_for(bytea, bigint, bigint, bigint);
    ALTER TABLE task DROP COLUMN wake; UPDATE toolyard_version SET version = 2";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_older_schema_is_upgraded_and_attempts_and_events_find_their_tasks() {
    for (older, has_timelines) in [(&[SCHEMA_4][..], true), (&[SCHEMA_4, SCHEMA_2], false)] {
        let Some(schema) = Schema::new() else { return };
        let store = schema.open(&[]).await;
        let made = created(&*store, task(&owner("a"))).await;
        let gone = finish(&*store, &created(&*store, task(&owner("a"))).await, result()).await;
        let removed = store.remove(vec![(gone.id, Vec::new())], Removable::Ended).await.expect("removes");
        assert_eq!(removed, 1);
        let before = [timeline(&*store, made.id).await, timeline(&*store, gone.id).await];
        assert_eq!(before.each_ref().map(|it| (it.runs.len(), it.events.len())), [(1, 2), (1, 0)]);
        store.shut_down().await;
        for sql in older {
            schema.run(sql).await;
        }
        let store = schema.open(&[]).await;
        assert_eq!(schema.count("SELECT version FROM toolyard_version").await, 5);
        assert_eq!(read(&*store, made.id).await, made);
        let after = [timeline(&*store, made.id).await, timeline(&*store, gone.id).await];
        assert_eq!(after, if has_timelines { before } else { Default::default() });
        finish(&*store, &made, result()).await;
        let Timeline { runs, events, .. } = timeline(&*store, made.id).await;
        assert_eq!(events.last().map(|event| event.kind), Some(EventKind::Ended));
        // The attempt is the same.
        assert_eq!((runs.len(), runs[0].outcome.as_deref()), (1, Some("completed")));
        let resumes = created(&*store, recorded(&owner("a"), made.fence)).await;
        assert_eq!(append(&*store, resumes.id, made.fence, 0, &[chunk(0, 9)]).await, Appended::Done);
        store.shut_down().await;
    }
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
