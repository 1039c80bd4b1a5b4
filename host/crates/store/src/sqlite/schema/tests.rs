use super::*;

/// A new file with the first schema.
fn first_schema(path: &Path) -> Connection {
    let first = Connection::open(path).expect("opens");
    first.execute_batch(SCHEMA_1).expect("makes the tables");
    first.pragma_update(None, "application_id", APPLICATION_ID).expect("sets");
    first.pragma_update(None, "user_version", 1).expect("sets");
    first
}

#[test]
fn an_upgrade_keeps_a_copy_of_the_file_that_only_its_owner_can_read() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().expect("a folder");
    let open = || prepare(folder.path(), Duration::from_secs(1), &Sealing::default()).expect("opens");
    drop(first_schema(&folder.path().join(FILE)));
    // Left by a crash in the middle of a copy.
    std::fs::write(folder.path().join(PART), "half").expect("writes");
    drop(open());
    drop(open());
    let copies = kept_copies(folder.path()).expect("reads");
    assert_eq!(copies, [folder.path().join("toolyard.sqlite.schema-1")]);
    assert_eq!(std::fs::metadata(&copies[0]).expect("is there").permissions().mode() & 0o777, 0o600);
    let old = Connection::open(&copies[0]).expect("opens");
    assert_eq!(version(&old, &copies[0]).expect("is ours"), 1);
    assert!(!folder.path().join(PART).exists());
    let new = tempfile::tempdir().expect("a folder");
    prepare(new.path(), Duration::from_secs(1), &Sealing::default()).expect("opens");
    assert!(kept_copies(new.path()).expect("reads").is_empty(), "a new file has no earlier release");
}

#[test]
fn a_file_that_cannot_be_copied_is_not_upgraded() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join(FILE);
    drop(first_schema(&path));
    std::fs::create_dir_all(folder.path().join("toolyard.sqlite.schema-1/full")).expect("makes");
    let refused = prepare(folder.path(), Duration::from_secs(1), &Sealing::default()).expect_err("refuses");
    assert!(refused.to_string().starts_with("cannot keep a copy of "), "{refused}");
    assert_eq!(version(&Connection::open(&path).expect("opens"), &path).expect("is ours"), 1);
    assert!(!folder.path().join(PART).exists());
}

#[test]
fn a_statement_is_planned_once_whatever_is_bound_to_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let (_, on) = prepare(folder.path(), Duration::from_secs(1), &Sealing::default()).expect("opens");
    let sql = "SELECT count(*) FROM task WHERE owner = ?1 AND created BETWEEN ?2 AND ?3";
    let mut statement = on.prepare(sql).expect("prepares");
    for from in 0..10 {
        let found = statement.query_row(("a", from, from + 1), |row| row.get::<_, i64>(0));
        assert_eq!(found.expect("counts"), 0);
    }
    assert_eq!(statement.get_status(rusqlite::StatementStatus::RePrepare), 0);
}

const FOLDER: &str = "TOOLYARD_STORE_SCHEMA_FOLDER";

/// A process that is killed after it has upgraded a file as far as it reports, without a commit;
/// without a folder, this test does nothing.
#[test]
fn process() {
    let Ok(folder) = std::env::var(FOLDER) else { return };
    let path = PathBuf::from(folder).join(FILE);
    let mut connection = connection(&path, Duration::from_secs(1)).expect("opens");
    let step = connection.transaction_with_behavior(TransactionBehavior::Immediate).expect("begins");
    for migration in &MIGRATIONS[1..] {
        step.execute_batch(migration).expect("brings forward");
    }
    step.pragma_update(None, "user_version", MIGRATIONS.len() as i64).expect("sets");
    // More than the cache can hold, so that pages of the transaction are in the log.
    step.execute_batch("CREATE TABLE large (a); INSERT INTO large VALUES (zeroblob(40000000))")
        .expect("writes");
    println!("\n> brought forward");
    std::thread::park();
}

#[test]
fn a_kill_in_the_middle_leaves_the_old_schema_and_the_next_start_brings_it_forward() {
    use std::io::{BufRead as _, BufReader};
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join(FILE);
    drop(first_schema(&path));
    let mut process = std::process::Command::new(std::env::current_exe().expect("is known"));
    process.args(["--exact", "sqlite::schema::tests::process", "--nocapture"]).env(FOLDER, folder.path());
    let mut child = process.stdout(std::process::Stdio::piped()).spawn().expect("starts");
    let lines = BufReader::new(child.stdout.take().expect("is piped")).lines();
    let said = lines.map_while(Result::ok).find(|line| line.starts_with("> "));
    assert_eq!(said.as_deref(), Some("> brought forward"));
    child.kill().expect("SIGKILL");
    child.wait().expect("ends");
    let log = std::fs::metadata(folder.path().join("toolyard.sqlite-wal")).expect("is there");
    assert!(log.len() > 10_000_000, "what was done is in the log, without its commit: {}", log.len());
    let old = Connection::open(&path).expect("opens");
    assert_eq!(version(&old, &path).expect("is ours"), 1);
    drop(old);
    let (_, brought) = prepare(folder.path(), Duration::from_secs(1), &Sealing::default()).expect("opens");
    assert_eq!(version(&brought, &path).expect("is ours"), MIGRATIONS.len() as i64);
    assert!(brought.prepare("SELECT * FROM large").is_err(), "half of what was done is there");
}
