//! How long a page of a listing or a search takes among a million tasks in PostgreSQL: the rows of
//! `list`, on a server that this bench starts.
//!
//! `cargo bench -p toolyard-store --bench list_postgres`; `LIST_RECORDS` is the number of tasks.
//! Each run writes new ones.

#[path = "kit/pages.rs"]
mod pages;
#[path = "../../../../tests/src/postgres.rs"]
#[allow(dead_code, reason = "the host's tests need more of it")]
mod server;

use bytes::Bytes;
use futures_util::SinkExt as _;
use pages::{DAY, DAYS, Record};
use std::fmt::Write as _;
use std::time::Instant;
use tokio_postgres::{Client, NoTls};
use toolyard_store::contract::START;
use toolyard_store::postgres::PostgresLocation;
use toolyard_store::{PostgresOptions, PostgresStore};

/// Rows are sent in pieces of about this many bytes.
const PIECE: usize = 1 << 20;

fn main() {
    let Some(records) = pages::wanted() else { return };
    let Some(server) = server::Server::start(server::Flushing::Off) else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    let rows = runtime.block_on(measure(&server, records));
    pages::print(&format!("{records} tasks in PostgreSQL"), &rows);
}

async fn measure(server: &server::Server, records: i64) -> Vec<pages::Measured> {
    let schema = server.schema();
    let place = PostgresLocation::parse(&server.address(), &schema).expect("an address");
    let store = PostgresStore::open(place, PostgresOptions::default()).await.expect("opens");
    let address = format!("{}&options=-c%20search_path%3D{schema}", server.address());
    let (client, driver) = tokio_postgres::connect(&address, NoTls).await.expect("connects");
    let driver = tokio::spawn(driver);
    let begun = Instant::now();
    fill(&client, records).await;
    eprintln!("{records} tasks written in {:.0} s", begun.elapsed().as_secs_f64());
    let run = async |sql: &str| client.batch_execute(sql).await.expect("is done");
    // The tasks are of the time of the manual clock.
    run(&format!("CREATE OR REPLACE FUNCTION engine_time() RETURNS bigint LANGUAGE sql VOLATILE AS $$ SELECT {START}::bigint $$"))
        .await;
    run("UPDATE span SET longest = (SELECT max(updated - created) FROM task)").await;
    // By itself, as it can be in no transaction with others.
    run("VACUUM ANALYZE").await;
    let mut rows = pages::measure(&*store).await;
    // As if one task had taken all of the time, so that a window on one time says
    // nothing of the other, and the budget is all that bounds a walk.
    run(&format!("UPDATE span SET longest = {}", DAYS * DAY)).await;
    rows.extend(pages::measure_without_span(&*store).await);
    store.shut_down().await;
    drop(client);
    driver.await.expect("no panic").expect("ends");
    rows
}

/// Past the port, with the indexes made last: a million creations and ends
/// through it would take minutes.
async fn fill(on: &Client, records: i64) {
    let sql = "SELECT indexname, indexdef FROM pg_indexes
        WHERE schemaname = current_schema() AND tablename = 'task' AND indexname <> 'task_pkey'";
    let indexes = on.query(sql, &[]).await.expect("reads");
    for index in &indexes {
        on.batch_execute(&format!("DROP INDEX {}", index.get::<_, &str>(0))).await.expect("drops");
    }
    let copy = "COPY task (id, owner, status, created, updated, due, incarnation, version, digest, waits, record, arguments, outcome)
        FROM STDIN";
    let sink = on.copy_in::<_, Bytes>(copy).await.expect("begins");
    let mut sink = std::pin::pin!(sink);
    let (arguments, outcome) = (bytea(&pages::arguments()), bytea(&pages::outcome()));
    let mut piece = String::new();
    for Record { task, status, created, updated, record } in pages::records(records) {
        let (id, owner, due, digest) = (task.id, bytea(&task.owner.key()), task.due_at().0, &task.digest);
        let outcome = if status > 2 { &outcome } else { "\\N" };
        let record = record.replace('\\', "\\\\");
        writeln!(
            piece,
            "{id}\t{owner}\t{status}\t{created}\t{updated}\t{due}\t1\t2\t{digest}\tf\t{record}\t{arguments}\t{outcome}"
        )
        .expect("a string takes it");
        if piece.len() >= PIECE {
            sink.send(std::mem::take(&mut piece).into()).await.expect("it is taken");
        }
    }
    sink.send(piece.into()).await.expect("it is taken");
    sink.finish().await.expect("is done");
    for index in &indexes {
        on.batch_execute(index.get(1)).await.expect("makes the index");
    }
}

/// As the server reads it, behind a backslash of its own.
fn bytea(text: &str) -> String {
    let digits = text.bytes().fold(String::new(), |mut digits, byte| {
        write!(digits, "{byte:02x}").expect("a string takes it");
        digits
    });
    format!("\\\\x{digits}")
}
