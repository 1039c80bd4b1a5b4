//! Stores in processes that are killed, that meet faults of the disk, or that upgrade one file together. The tests
//! start this program again, with the path of one test.

mod faults;
mod kills;
mod migrations;

/// Checks the whole file.
fn whole(folder: &std::path::Path) {
    let file = rusqlite::Connection::open(folder.join("toolyard.sqlite")).expect("opens");
    let check: String = file.query_row("PRAGMA integrity_check", [], |row| row.get(0)).expect("checks");
    assert_eq!(check, "ok");
}
