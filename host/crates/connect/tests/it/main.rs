//! Tests of `toolyard connect` and `toolyard doctor`: their facts, plans and edits of files.

mod doctor;
mod effects;
mod golden;
mod unchanged;

use std::sync::{Mutex, MutexGuard, PoisonError};

static PROGRAMS: Mutex<()> = Mutex::new(());

/// A test holds this while it writes a program and starts it. Otherwise a process that another test starts could
/// inherit the open file, and Linux starts no program that is open for writing.
fn programs() -> MutexGuard<'static, ()> {
    PROGRAMS.lock().unwrap_or_else(PoisonError::into_inner)
}
