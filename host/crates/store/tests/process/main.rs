//! Stores in processes that are killed, that meet faults of the disk, or that upgrade one file together. The tests
//! start this program again, with the path of one test.

mod faults;
mod kills;
mod migrations;
