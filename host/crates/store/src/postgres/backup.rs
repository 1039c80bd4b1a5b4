//! Copies of the whole schema: one file for each table, in PostgreSQL's binary format of COPY, and one for the
//! sequences.

use super::connections::PostgresLocation;
use super::error::PostgresOpenError;
use super::schema::{self, VERSION};
use crate::backup::{BackupError, CopiedSchema};
use crate::encryption::{Keyring, Sealing};
use bytes::Bytes;
use futures_util::{SinkExt as _, StreamExt as _, pin_mut};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::fs::File;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, BufWriter};
use tokio_postgres::{Client, Error, Transaction};

/// The tables with rows, and the schema that introduced each. A table follows those that it refers to.
const TABLES: &[(&str, i64)] = &[
    ("span", 1),
    ("session", 1),
    ("task", 1),
    ("node", 1),
    ("key", 1),
    ("used", 1),
    ("permission", 1),
    ("audit", 1),
    ("batch", 1),
    ("audit_log", 1),
    ("seal", 1),
    ("run", 3),
    ("run_event", 3),
    ("journal", 4),
    ("journal_chunk", 4),
    ("component", 4),
    ("component_part", 4),
];
/// The first schema that numbers tasks.
const NUMBERED: i64 = 5;
/// Tables in which the schema itself puts a row.
const SEEDED: [&str; 2] = ["span", "audit_log"];
/// The name of the file with the sequences.
const SEQUENCES: &str = "sequences.json";
/// The longest such file, in bytes.
const MAX_SEQUENCES: usize = 4096;
/// A restored schema gives no number that a host could still use that has started since the backup: so many
/// numbers are passed over.
const PASSED_OVER: i64 = 1_000_000;
/// The largest number of a copy. Later ones follow it.
const MAX_NUMBER: i64 = 1 << 40;
/// The number of bytes that one message takes to the server.
const CHUNK: usize = 64 << 10;
/// The time that this process may take between two statements, for example to write to a slow disk.
const IDLE: &str = "SET LOCAL idle_in_transaction_session_timeout = '10min'";

/// The remedy when there is a store already.
const ELSEWHERE: &str = "name another schema (`cluster.schema`) or an empty database, or drop the schema";

/// The last numbers that the sequences gave.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sequences {
    node_incarnation_seq: i64,
    audit_writer: i64,
}

/// The names of the files of a copy of this schema, in the order of a restore.
#[must_use]
pub fn files(schema: i64) -> Vec<String> {
    let tables = tables(schema).map(|table| format!("{table}.copy"));
    tables.chain([SEQUENCES.to_owned()]).collect()
}

fn tables(schema: i64) -> impl Iterator<Item = &'static str> {
    TABLES.iter().filter(move |(_, since)| *since <= schema).map(|(table, _)| *table)
}

/// Copies the schema into new files in `folder`, as of one moment, while hosts run.
///
/// # Errors
/// [`BackupError`].
pub async fn copy(place: &PostgresLocation, folder: &Path) -> Result<CopiedSchema, BackupError> {
    let fault = |source| BackupError::from(PostgresOpenError::of(place, source));
    let (mut on, driver) = place.connect().await.map_err(fault)?;
    let driving = tokio::spawn(driver);
    let copied = copy_on(&mut on, place, folder).await;
    drop(on);
    // It ends when its client is dropped.
    drop(driving.await);
    copied
}

async fn copy_on(
    on: &mut Client,
    place: &PostgresLocation,
    folder: &Path,
) -> Result<CopiedSchema, BackupError> {
    let fault = |source| BackupError::from(PostgresOpenError::of(place, source));
    let schema = place.schema();
    let is_there = "SELECT pg_catalog.to_regclass($1::pg_catalog.text) IS NOT NULL";
    let row = on.query_one(is_there, &[&format!("{schema}.{VERSION}")]).await.map_err(fault)?;
    if !row.get::<_, bool>(0) {
        return Err(BackupError::NoStore { place: place.to_string() });
    }
    let isolation = tokio_postgres::IsolationLevel::RepeatableRead;
    let step =
        on.build_transaction().isolation_level(isolation).read_only(true).start().await.map_err(fault)?;
    // The locks come before the snapshot, which the first query takes. They do not hinder hosts, but an
    // upgrade waits until the copy is complete.
    let first: Vec<_> = tables(1).chain([VERSION]).map(|table| format!("{schema}.{table}")).collect();
    let lock = format!("{IDLE}; LOCK TABLE {} IN ACCESS SHARE MODE", first.join(", "));
    step.batch_execute(&lock).await.map_err(fault)?;
    let number: i64 =
        step.query_one(&format!("SELECT version FROM {schema}.{VERSION}"), &[]).await.map_err(fault)?.get(0);
    schema::check_version(number, place)?;
    for table in tables(number) {
        let rows = format!("COPY {schema}.{table} TO STDOUT (FORMAT binary)");
        let rows = step.copy_out(rows.as_str()).await.map_err(fault)?;
        pin_mut!(rows);
        let path = folder.join(format!("{table}.copy"));
        let cannot = |source| BackupError::file(&path, source);
        let mut file = BufWriter::new(File::create_new(&path).await.map_err(cannot)?);
        while let Some(part) = rows.next().await {
            file.write_all(&part.map_err(fault)?).await.map_err(cannot)?;
        }
        file.flush().await.map_err(cannot)?;
    }
    // Sequences are not part of the snapshot: these numbers are the same or later, which does no harm.
    let last = |sequence: &str| format!("(SELECT last_value FROM {schema}.{sequence})");
    let both = format!("SELECT {}, {}", last("node_incarnation_seq"), last("audit_writer"));
    let row = step.query_one(&both, &[]).await.map_err(fault)?;
    let sequences = Sequences { node_incarnation_seq: row.get(0), audit_writer: row.get(1) };
    let path = folder.join(SEQUENCES);
    let text = serde_json::to_string(&sequences).map_err(|error| BackupError::damaged(&path, error))?;
    tokio::fs::write(&path, text).await.map_err(|source| BackupError::file(&path, source))?;
    Ok(CopiedSchema { number, is_current: number == schema::current() })
}

/// Makes the schema of the files in `folder`, in one transaction: all of it or nothing.
///
/// # Errors
/// [`BackupError`], also if the schema holds anything already, or if these keys cannot open what is sealed.
pub async fn restore(
    place: &PostgresLocation,
    number: i64,
    folder: &Path,
    keys: Option<Arc<Keyring>>,
    patience: Duration,
) -> Result<CopiedSchema, BackupError> {
    let fault = |source| BackupError::from(PostgresOpenError::of(place, source));
    let sequences = read_sequences(&folder.join(SEQUENCES)).await?;
    let (mut on, driver) = place.connect().await.map_err(fault)?;
    let driving = tokio::spawn(driver);
    let restored = async {
        let step = on.transaction().await.map_err(fault)?;
        step.batch_execute(IDLE).await.map_err(fault)?;
        if !schema::create_empty(&step, place, number, patience).await? {
            let place = place.to_string();
            return Err(BackupError::NotEmpty { place, advice: ELSEWHERE });
        }
        for table in SEEDED {
            step.batch_execute(&format!("DELETE FROM {table}")).await.map_err(fault)?;
        }
        for table in tables(number) {
            fill(&step, table, &folder.join(format!("{table}.copy")), place).await?;
        }
        finish(&step, sequences).await.map_err(fault)?;
        if number >= NUMBERED {
            let next = "SELECT setval('task_seq_seq', (SELECT coalesce(max(seq), 0) + 1 FROM task))";
            step.batch_execute(next).await.map_err(fault)?;
        }
        schema::check_keys(&step, place, &Sealing(keys)).await?;
        #[cfg(feature = "failpoints")]
        toolyard_failpoint::reach("restore.filled");
        step.commit().await.map_err(fault)?;
        Ok(CopiedSchema { number, is_current: number == schema::current() })
    };
    let restored = restored.await;
    drop(on);
    drop(driving.await);
    restored
}

/// Fills a table with the rows of its file.
async fn fill(
    step: &Transaction<'_>,
    table: &str,
    path: &Path,
    place: &PostgresLocation,
) -> Result<(), BackupError> {
    // The server refuses rows that do not fit the table: invalid data, violated constraints, and what is not
    // in the format of COPY.
    let fault = |source: Error| match source.as_db_error() {
        Some(error) if ["22", "23", "08"].iter().any(|class| error.code().code().starts_with(class)) => {
            BackupError::damaged(path, error.message())
        }
        _ => BackupError::from(PostgresOpenError::of(place, source)),
    };
    let cannot = |source| BackupError::file(path, source);
    let mut file = File::open(path).await.map_err(cannot)?;
    let rows = format!("COPY {table} FROM STDIN (FORMAT binary)");
    let sink = step.copy_in::<_, Bytes>(rows.as_str()).await.map_err(fault)?;
    pin_mut!(sink);
    loop {
        let mut part = vec![0; CHUNK];
        let length = file.read(&mut part).await.map_err(cannot)?;
        if length == 0 {
            break;
        }
        part.truncate(length);
        sink.send(part.into()).await.map_err(fault)?;
    }
    sink.finish().await.map_err(fault)?;
    Ok(())
}

/// Sets the sequences. The hosts of the backup do not run on this schema, so they count as dead, whatever
/// their leases say.
async fn finish(step: &Transaction<'_>, sequences: Sequences) -> Result<(), Error> {
    let (host, writer) = (sequences.node_incarnation_seq + PASSED_OVER, sequences.audit_writer + PASSED_OVER);
    step.execute("SELECT setval('node_incarnation_seq', $1), setval('audit_writer', $2)", &[&host, &writer])
        .await?;
    step.execute("UPDATE node SET dead = true", &[]).await.map(drop)
}

async fn read_sequences(path: &Path) -> Result<Sequences, BackupError> {
    let text = tokio::fs::read(path).await.map_err(|source| BackupError::file(path, source))?;
    if text.len() > MAX_SEQUENCES {
        return Err(BackupError::damaged(path, "it is too long"));
    }
    let sequences: Sequences =
        serde_json::from_slice(&text).map_err(|error| BackupError::damaged(path, error))?;
    let known = 1..=MAX_NUMBER;
    if !known.contains(&sequences.node_incarnation_seq) || !known.contains(&sequences.audit_writer) {
        return Err(BackupError::damaged(path, "a number is out of its bounds"));
    }
    Ok(sequences)
}
