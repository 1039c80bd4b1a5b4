//! The tables, in their own PostgreSQL schema, and the upgrade of older schemas.

use super::PostgresOpenError;
use super::connections::PostgresLocation;
use super::keys::FIRST as FIRST_KEY;
use super::ownership::{SYSTEM_PATH, SYSTEM_PATH_OF_SESSION, foreign};
use crate::encryption::Sealing;
use crate::key_id::KeyId;
use crate::refusal::secret;
use std::time::Duration;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Error, GenericClient, Transaction};
use toolyard_task::keys::KeyUse;

/// Each entry upgrades a schema from the version of its index to the next one. A released entry is
/// never edited.
const MIGRATIONS: &[&str] = &[SCHEMA_1, SCHEMA_2, SCHEMA_3, SCHEMA_4, SCHEMA_5];

/// `engine_time` is the time of the server, in milliseconds since 1970, and `store_time` the same,
/// except that it does not go back behind a time that its caller has seen; a time more than a day
/// ahead came from a wrong clock and is ignored.
///
/// Owners are bytes, since their keys may contain any byte, and text in PostgreSQL cannot contain
/// zero. Ids of sessions and grants are compared byte by byte, as everywhere else. The server
/// stores long values outside their row (TOAST), and does not rewrite them when another column
/// changes.
///
/// `status <= 2` means that a task is live (`codec::status`). `told` is the time until which a
/// waiting task is not offered to another host. The indexes are the same as in the SQLite store,
/// which explains them.
const SCHEMA_1: &str = include_str!("schema/1.sql");

/// Hosts take locks only on tables. Any role that may connect can take and hold an advisory lock of
/// any number, but only the host's own role can lock these tables. These tables never contain a
/// row, and the mode of [`lock`] writes nothing.
///
/// `bytes` is the number of bytes kept for a task: the lengths of its record, its arguments and its
/// outcome. It is in an index that every change writes anyway, and sums read that index.
const SCHEMA_2: &str = include_str!("schema/2.sql");

/// Timelines, as in schema 8 of the SQLite store. Attempts outlive their tasks. Numbers of events have no
/// counter: a transaction that adds events of a task has locked the task.
const SCHEMA_3: &str = include_str!("schema/3.sql");

/// When a parked task is due, and journals, as in schema 9 of the SQLite store. Components are here in parts of
/// 1 MiB, so that every host of the schema has them; `put` is the time at which one was last put.
const SCHEMA_4: &str = include_str!("schema/4.sql");

/// Attempts and events are found by a number of their task, which grows, as in schemas 10 and 11 of the SQLite store.
/// With the random id, each change wrote pages all over their indexes, whole pages after each checkpoint.
const SCHEMA_5: &str = include_str!("schema/5.sql");

/// The table that holds the version of the tables. Its name identifies a schema of a host.
pub(super) const VERSION: &str = "toolyard_version";

/// Another session may have created the same object first; then it exists.
const MAX_ATTEMPTS: u32 = 5;
/// The time after which the log says which session the start waits for.
const TELL_AFTER: Duration = Duration::from_secs(1);

const WHO: &str = "
    SELECT coalesce(string_agg(format('process %s of the role %s (%s)', pid, usename, application_name), ', '), '')
    FROM pg_stat_activity WHERE pid = ANY (pg_blocking_pids($1))";

/// Creates the schema if it is missing, and upgrades it to that of this release. Only one host does
/// this at a time. Returns the secret that all hosts of the schema share.
///
/// # Errors
/// [`PostgresOpenError`], also if another connection holds a lock for longer than `patience`.
pub(super) async fn prepare(
    on: &mut Client,
    place: &PostgresLocation,
    sealing: &Sealing,
    patience: Duration,
) -> Result<[u8; 32], PostgresOpenError> {
    let fault = |source| PostgresOpenError::of(place, source);
    let me: i32 = on.query_one("SELECT pg_catalog.pg_backend_pid()", &[]).await.map_err(fault)?.get(0);
    let mut attempt = 1;
    loop {
        let mut blocking = String::new();
        let prepared = {
            let preparing = prepare_once(on, place, sealing, patience);
            let mut preparing = std::pin::pin!(preparing);
            loop {
                match tokio::time::timeout(TELL_AFTER, &mut preparing).await {
                    Ok(prepared) => break prepared,
                    Err(_) => tell_who_blocks(place, me, &mut blocking).await,
                }
            }
        };
        match prepared {
            Err(Unprepared::Passing(_)) if attempt < MAX_ATTEMPTS => attempt += 1,
            Err(Unprepared::Passing(error)) => return Err(fault(error)),
            Err(Unprepared::Locked(source)) => {
                let by = if blocking.is_empty() { "another process".to_owned() } else { blocking };
                return Err(PostgresOpenError::Locked { place: place.to_string(), by, patience, source });
            }
            Err(Unprepared::Refused(error)) => return Err(error),
            Ok(secret) => return Ok(secret),
        }
    }
}

/// Logs which session this start waits for, if it waits and this has not been logged yet.
async fn tell_who_blocks(place: &PostgresLocation, me: i32, blocking: &mut String) {
    let asked = async {
        let on = place.client().await?;
        // It is not yet known who owns the schema.
        on.batch_execute(SYSTEM_PATH_OF_SESSION).await?;
        on.query_one(WHO, &[&me]).await?.try_get::<_, String>(0)
    };
    let Ok(Ok(by)) = tokio::time::timeout(TELL_AFTER, asked).await else { return };
    if !by.is_empty() && by != *blocking {
        tracing::warn!(
            event = "store.start_blocked", location = %place, by,
            "start waits for a lock in the database"
        );
        *blocking = by;
    }
}

/// Why nothing was prepared.
enum Unprepared {
    Refused(PostgresOpenError),
    /// Another session has just created the same object.
    Passing(Error),
    /// Another session has held a lock for too long.
    Locked(Error),
}

impl Unprepared {
    fn of(place: &PostgresLocation, error: Error) -> Self {
        let passing = [
            SqlState::DUPLICATE_SCHEMA,
            SqlState::DUPLICATE_TABLE,
            SqlState::DUPLICATE_OBJECT,
            SqlState::UNIQUE_VIOLATION,
            SqlState::T_R_DEADLOCK_DETECTED,
        ];
        match error.code() {
            Some(&SqlState::LOCK_NOT_AVAILABLE) => Self::Locked(error),
            Some(code) if passing.contains(code) => Self::Passing(error),
            _ => Self::Refused(PostgresOpenError::of(place, error)),
        }
    }
}

async fn prepare_once(
    on: &mut Client,
    place: &PostgresLocation,
    sealing: &Sealing,
    patience: Duration,
) -> Result<[u8; 32], Unprepared> {
    let fault = |source| Unprepared::of(place, source);
    let step = on.transaction().await.map_err(fault)?;
    own_schema(&step, place, patience).await?;
    if !check_ownership(&step, place).await? {
        create_version_table(&step, place).await?;
    }
    enter(&step, place).await.map_err(fault)?;
    step.batch_execute(&lock(VERSION)).await.map_err(fault)?;
    let found: i64 = step.query_one("SELECT version FROM toolyard_version", &[]).await.map_err(fault)?.get(0);
    check_version(found, place).map_err(Unprepared::Refused)?;
    if found > 0 {
        check_keys(&step, place, sealing).await.map_err(Unprepared::Refused)?;
    }
    upgrade(&step, found, current()).await.map_err(fault)?;
    let secret = message_secret(&step, place).await?;
    step.commit().await.map_err(fault)?;
    Ok(secret)
}

/// The version of this release.
pub(super) const fn current() -> i64 {
    MIGRATIONS.len() as i64
}

/// Refuses a version that this release does not know.
pub(super) fn check_version(found: i64, place: &PostgresLocation) -> Result<(), PostgresOpenError> {
    let known = current();
    match found > known || found < 0 {
        true => Err(PostgresOpenError::Newer { place: place.to_string(), found, known }),
        false => Ok(()),
    }
}

/// Refuses a schema with values that none of these keys can open.
pub(super) async fn check_keys(
    on: &impl GenericClient,
    place: &PostgresLocation,
    sealing: &Sealing,
) -> Result<(), PostgresOpenError> {
    let sealed_with = sealed_with(on).await.map_err(|source| PostgresOpenError::of(place, source))?;
    match sealed_with.into_iter().find(|key| !sealing.opens(*key)) {
        Some(key) => Err(PostgresOpenError::Sealed { place: place.to_string(), key }),
        None => Ok(()),
    }
}

/// Creates the tables of this version, without rows of hosts, in a schema that is missing or holds nothing.
/// Returns whether it is such a schema. From here on, the transaction's search path is the schema.
pub(super) async fn create_empty(
    step: &Transaction<'_>,
    place: &PostgresLocation,
    version: i64,
    patience: Duration,
) -> Result<bool, PostgresOpenError> {
    let fault = |source| PostgresOpenError::of(place, source);
    let refused = |refused| match refused {
        Unprepared::Refused(error) => error,
        Unprepared::Passing(source) | Unprepared::Locked(source) => fault(source),
    };
    check_version(version, place)?;
    own_schema(step, place, patience).await.map_err(refused)?;
    let holds = "SELECT EXISTS (SELECT 1 FROM pg_class JOIN pg_namespace ON relnamespace = pg_namespace.oid
        WHERE nspname = $1)";
    if step.query_one(holds, &[&place.schema()]).await.map_err(fault)?.get(0) {
        return Ok(false);
    }
    create_version_table(step, place).await.map_err(refused)?;
    enter(step, place).await.map_err(fault)?;
    upgrade(step, 0, version).await.map_err(fault)?;
    Ok(true)
}

/// Creates the schema if it is missing, and makes sure that it belongs to this role alone. Until [`enter`], only the
/// system's own names count.
async fn own_schema(
    step: &Transaction<'_>,
    place: &PostgresLocation,
    patience: Duration,
) -> Result<(), Unprepared> {
    // The name contains only letters, digits and underscores.
    let (fault, schema) = (|source| Unprepared::of(place, source), place.schema());
    let bounds = format!("{SYSTEM_PATH}; SET LOCAL lock_timeout = {}", patience.as_millis().max(1));
    step.batch_execute(&bounds).await.map_err(fault)?;
    let there = "SELECT EXISTS (SELECT 1 FROM pg_namespace WHERE nspname = $1)";
    if !step.query_one(there, &[&schema]).await.map_err(fault)?.get::<_, bool>(0) {
        step.batch_execute(&format!("CREATE SCHEMA {schema}")).await.map_err(fault)?;
    }
    check_owner(step, place).await
}

/// From here on, everything in the schema belongs to the host. The system's names also come first on this path,
/// because it does not list them; but new objects are created in the schema.
async fn enter(step: &Transaction<'_>, place: &PostgresLocation) -> Result<(), Error> {
    step.batch_execute(&format!("SET LOCAL search_path = {}, pg_temp", place.schema())).await
}

/// Brings the tables from one version to another one.
async fn upgrade(step: &Transaction<'_>, from: i64, to: i64) -> Result<(), Error> {
    let place = |version: i64| usize::try_from(version).unwrap_or(0);
    for migration in &MIGRATIONS[place(from)..place(to)] {
        step.batch_execute(migration).await?;
    }
    if from < to {
        step.execute("UPDATE toolyard_version SET version = $1", &[&to]).await?;
    }
    Ok(())
}

/// Creates the table that makes the schema one of a host.
async fn create_version_table(step: &Transaction<'_>, place: &PostgresLocation) -> Result<(), Unprepared> {
    let (fault, schema) = (|source| Unprepared::of(place, source), place.schema());
    let make = "(one boolean PRIMARY KEY CHECK (one), version bigint NOT NULL)";
    step.batch_execute(&format!("CREATE TABLE {schema}.{VERSION} {make}")).await.map_err(fault)?;
    // Another role may have begun to create the schema while it still had the right.
    check_owner(step, place).await?;
    let first = format!("INSERT INTO {schema}.{VERSION} VALUES (true, 0)");
    step.batch_execute(&first).await.map_err(fault)
}

/// Takes this table as a lock until the end of the transaction. Only roles that may change
/// the table can.
pub(super) fn lock(table: &str) -> String {
    format!("LOCK TABLE {table} IN SHARE UPDATE EXCLUSIVE MODE")
}

/// A schema that does not belong to this role alone is not used.
async fn check_owner(step: &Transaction<'_>, place: &PostgresLocation) -> Result<(), Unprepared> {
    match foreign(step, place).await.map_err(|error| Unprepared::of(place, error))? {
        Some(refused) => Err(Unprepared::Refused(refused)),
        None => Ok(()),
    }
}

/// Whether this program has already filled the schema. A schema that another program has filled is
/// not used.
async fn check_ownership(step: &Transaction<'_>, place: &PostgresLocation) -> Result<bool, Unprepared> {
    let sql = "
        SELECT count(*) > 0, coalesce(bool_or(relname = $2 AND relkind = 'r'), false)
        FROM pg_class JOIN pg_namespace ON relnamespace = pg_namespace.oid WHERE nspname = $1";
    let found = step.query_one(sql, &[&place.schema(), &VERSION]).await;
    let found = found.map_err(|error| Unprepared::of(place, error))?;
    match (found.get(0), found.get(1)) {
        (true, false) => Err(Unprepared::Refused(PostgresOpenError::Foreign { place: place.to_string() })),
        (_, ours) => Ok(ours),
    }
}

/// The secret with which hosts seal their messages; the first start creates it.
async fn message_secret(step: &Transaction<'_>, place: &PostgresLocation) -> Result<[u8; 32], Unprepared> {
    let (fault, used_for) = (|source| Unprepared::of(place, source), KeyUse::Message.as_str());
    let made = secret().map_err(|error| {
        Unprepared::Refused(PostgresOpenError::Unavailable { place: place.to_string(), source: error.into() })
    })?;
    step.execute(FIRST_KEY, &[&used_for, &&made[..]]).await.map_err(fault)?;
    let newest = "SELECT secret FROM key WHERE use = $1 ORDER BY id DESC LIMIT 1";
    let rows = step.query(newest, &[&used_for]).await.map_err(fault)?;
    let secret = rows.first().and_then(|row| row.get::<_, &[u8]>(0).try_into().ok());
    secret.ok_or_else(|| Unprepared::Refused(PostgresOpenError::Key { place: place.to_string() }))
}

/// The keys that are needed to read the existing values.
pub(super) async fn sealed_with(on: &impl GenericClient) -> Result<Vec<KeyId>, tokio_postgres::Error> {
    let rows = on.query("SELECT key FROM seal ORDER BY key", &[]).await?;
    let keys = rows.iter().filter_map(|row| row.get::<_, &[u8]>(0).try_into().ok());
    Ok(keys.map(KeyId).collect())
}
