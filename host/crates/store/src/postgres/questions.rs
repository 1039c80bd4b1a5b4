//! Questions about tasks. Two of them write, because a task that is named to one host is not named to another one
//! for a while.

use super::PostgresStore;
use super::rows::{ids, keys, number, number_of};
use crate::codec::IN_TURNS;
use toolyard_task::store::TaskQuestion;
use toolyard_task::wire::TaskStatus;
use toolyard_task::{Digest, Incarnation, StoreError, TaskId};
use uuid::Uuid;

const DUE: &str = "
    SELECT id FROM task WHERE due <= (SELECT store_time($1)) ORDER BY due, id LIMIT $2";
const HELD: &str = "
    SELECT id FROM task WHERE incarnation = $1 AND incarnation > 0 AND status <= 2 ORDER BY id LIMIT $2";
const ASKING: &str = "SELECT id FROM task WHERE owner = $1 AND status = $2 ORDER BY created, id LIMIT $3";
const LIVE: &str = "
    SELECT id FROM task WHERE (owner = $1 OR (owner >= $2 AND owner < $3)) AND status <= 2 LIMIT $4";
const ENDED_JOURNALS: &str = "
    SELECT task.id FROM journal JOIN task ON task.id = journal.task
    WHERE task.status > 2 ORDER BY task.updated, task.id LIMIT $1";

/// Whether any parked task is due: the actual query writes, so it runs only if needed.
const ANY_DUE: &str = "SELECT 1 FROM task WHERE wake <= (SELECT store_time($1)) LIMIT 1";
/// The tasks that have been due for longest take turns by their owners. Those behind them wait, so that this
/// reads few entries of the index, however many tasks are due. Rows that another host has locked are skipped.
const WAKEABLE: &str = "
    WITH clock AS MATERIALIZED (SELECT store_time($1) AS now, engine_time() AS here),
    due AS (
        SELECT id, wake, owner FROM task
        WHERE wake <= (SELECT now FROM clock) AND told <= (SELECT here FROM clock)
        ORDER BY wake, id LIMIT $2),
    chosen AS (
        SELECT id, wake, row_number() OVER (PARTITION BY owner ORDER BY wake, id) AS place FROM due
        ORDER BY place, wake, id LIMIT $3),
    mine AS (
        SELECT task.id, chosen.place, chosen.wake FROM task JOIN chosen ON task.id = chosen.id, clock
        WHERE task.wake <= clock.now AND told <= clock.here
        FOR UPDATE OF task SKIP LOCKED),
    marked AS (UPDATE task SET told = clock.here + $4 FROM mine, clock WHERE task.id = mine.id)
    SELECT id FROM mine ORDER BY place, wake, id";

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
const OFFER_PAUSE_MS: i64 = 3_000;
/// Owners among whom turns are taken, for each component.
const MAX_OWNERS: i64 = 1_000;

/// The key after all writes that change one task: this write locks the rows that it finds, and waits for
/// none.
const LAST: Option<TaskId> = Some(TaskId(Uuid::max()));

/// Ids of tasks, the answer to this question.
pub(super) async fn select(
    store: &PostgresStore,
    question: TaskQuestion,
    limit: u32,
) -> Result<Vec<TaskId>, StoreError> {
    let (floor, limit, readers) = (store.state.floor.get(), i64::from(limit), &store.readers);
    ids(&match question {
        TaskQuestion::Due => readers.rows(DUE, &[&floor, &limit]).await?,
        TaskQuestion::HeldBy(incarnation) => readers.rows(HELD, &[&number(incarnation.0), &limit]).await?,
        TaskQuestion::WaitingElsewhere { than, components } => {
            return waiting_elsewhere(store, than, &components, limit).await;
        }
        TaskQuestion::Wakeable => return wakeable(store, limit).await,
        TaskQuestion::Asking(owner) => {
            let status = number_of(TaskStatus::InputRequired);
            readers.rows(ASKING, &[&owner.key().into_bytes(), &status, &limit]).await?
        }
        TaskQuestion::LiveOf(owner) => {
            let [one, from, until] = keys(&owner);
            readers.rows(LIVE, &[&one, &from, &until, &limit]).await?
        }
        TaskQuestion::EndedJournals => readers.rows(ENDED_JOURNALS, &[&limit]).await?,
    })
}

async fn wakeable(store: &PostgresStore, limit: i64) -> Result<Vec<TaskId>, StoreError> {
    let floor = store.state.floor.get();
    if limit == 0 || store.readers.rows(ANY_DUE, &[&floor]).await?.is_empty() {
        return Ok(Vec::new());
    }
    let told = store.writer.write_to(LAST, limit, |writing, limit| {
        Box::pin(async move {
            let floor = writing.state.floor.get();
            writing.rows(WAKEABLE, &[&floor, &IN_TURNS, limit, &OFFER_PAUSE_MS]).await
        })
    });
    ids(&told.await?)
}

async fn waiting_elsewhere(
    store: &PostgresStore,
    than: Incarnation,
    components: &[Digest],
    limit: i64,
) -> Result<Vec<TaskId>, StoreError> {
    let components: Vec<String> = components.iter().map(|component| component.0.clone()).collect();
    let given = (number(than.0), components, limit);
    if limit == 0 || store.readers.rows(ANY, &[&given.0, &given.1]).await?.is_empty() {
        return Ok(Vec::new());
    }
    let told = store.writer.write_to(LAST, given, |writing, (than, components, limit)| {
        Box::pin(
            async move { writing.rows(TELL, &[than, components, limit, &OFFER_PAUSE_MS, &MAX_OWNERS]).await },
        )
    });
    ids(&told.await?)
}
