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

#[test]
fn an_upgrade_that_fails_leaves_the_old_schema_and_the_next_start_brings_it_forward() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, copy) = (folder.path().join(FILE), folder.path().join("toolyard.sqlite.schema-1"));
    drop(first_schema(&path));
    let open = || prepare(folder.path(), Duration::from_secs(1), &Sealing::default());
    std::fs::create_dir_all(copy.join("full")).expect("makes");
    let refused = open().expect_err("the file cannot be copied");
    assert!(refused.to_string().starts_with("cannot keep a copy of "), "{refused}");
    assert!(!folder.path().join(PART).exists());
    std::fs::remove_dir_all(&copy).expect("removes");
    let old = || {
        let old = Connection::open(&path).expect("opens");
        assert_eq!(version(&old, &path).expect("is ours"), 1);
        old
    };
    old().execute_batch("CREATE TABLE journal (a)").expect("creates");
    open().expect_err("a late step meets a table of its name");
    let old = old();
    assert!(old.prepare("SELECT * FROM span").is_err(), "half of what was done is there");
    old.execute_batch("DROP TABLE journal").expect("removes");
    drop(old);
    let (_, brought) = open().expect("opens");
    assert_eq!(version(&brought, &path).expect("is ours"), MIGRATIONS.len() as i64);
}
