//! Tasks that wait on other hosts, for a host that has room for some of them.

use super::PostgresStore;
use super::rows::{ids, number};
use toolyard_task::{Digest, Incarnation, StoreError, TaskId};
use uuid::Uuid;

/// Whether any task waits: the actual query writes, so it runs only if needed.
const ANY: &str = "SELECT 1 FROM task WHERE waits AND incarnation <> $1 AND digest = ANY($2) LIMIT 1";

/// Takes one index step for each owner, and reads for each no more rows than the query asks for,
/// however many tasks wait. Rows that another host has locked are skipped.
const TELL: &str = "
    WITH RECURSIVE clock AS MATERIALIZED (SELECT engine_time() AS now),
    turn (digest, owner) AS (
        SELECT wanted.digest, (
            SELECT task.owner FROM task WHERE waits AND task.digest = wanted.digest
            ORDER BY task.owner LIMIT 1)
        FROM unnest($2::text[]) AS wanted (digest)
        UNION ALL
        SELECT turn.digest, (
            SELECT task.owner FROM task WHERE waits AND task.digest = turn.digest AND task.owner > turn.owner
            ORDER BY task.owner LIMIT 1)
        FROM turn WHERE turn.owner IS NOT NULL),
    first AS (
        SELECT found.id, found.created, row_number() OVER (PARTITION BY owner ORDER BY created, id) AS place
        FROM (SELECT * FROM turn LIMIT $5) AS turn, clock, LATERAL (
            SELECT id, created FROM task
            WHERE waits AND task.digest = turn.digest AND task.owner = turn.owner
                AND incarnation <> $1 AND told <= clock.now
            ORDER BY created, id LIMIT $3) AS found
        WHERE turn.owner IS NOT NULL),
    chosen AS (SELECT id, place, created FROM first ORDER BY place, created, id LIMIT $3),
    mine AS (
        SELECT task.id, chosen.place, chosen.created FROM task JOIN chosen ON task.id = chosen.id, clock
        WHERE waits AND told <= clock.now
        FOR UPDATE OF task SKIP LOCKED),
    marked AS (UPDATE task SET told = clock.now + $4 FROM mine, clock WHERE task.id = mine.id)
    SELECT id FROM mine ORDER BY place, created, id";

/// For so long a task that was named to one host is not named to another one (milliseconds).
pub(super) const OFFER_PAUSE_MS: i64 = 3_000;
/// Owners among whom turns are taken, for each component.
const MAX_OWNERS: i64 = 1_000;

/// Returns ids of such tasks. For a while, only this host learns of them.
pub(super) async fn elsewhere(
    store: &PostgresStore,
    than: Incarnation,
    components: &[Digest],
    limit: u32,
) -> Result<Vec<TaskId>, StoreError> {
    let (than, limit) = (number(than.0), i64::from(limit));
    let components: Vec<String> = components.iter().map(|component| component.0.clone()).collect();
    if limit == 0 || store.readers.rows(ANY, &[&than, &components]).await?.is_empty() {
        return Ok(Vec::new());
    }
    let told = store.writer.write_to(LAST, move |writing| {
        let components = components.clone();
        Box::pin(async move {
            writing.rows(TELL, &[&than, &components, &limit, &OFFER_PAUSE_MS, &MAX_OWNERS]).await
        })
    });
    ids(&told.await?)
}

/// The key after all writes that change one task: this write locks the rows that it finds, and waits for
/// none.
pub(super) const LAST: Option<TaskId> = Some(TaskId(Uuid::max()));
