//! Tests of `toolyard connect` and `toolyard doctor`: their facts, plans and edits of files.

mod doctor;
mod effects;
mod golden;
mod unchanged;

use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use toolyard_connect::{DEFAULT_NAME, Environment, Options, Server, System};

static PROGRAMS: Mutex<()> = Mutex::new(());

/// A test holds this while it writes a program and starts it. Otherwise a process that another test starts could
/// inherit the open file, and Linux starts no program that is open for writing.
fn programs() -> MutexGuard<'static, ()> {
    PROGRAMS.lock()
}

/// A machine without clients and without variables.
fn environment(system: System, home: &str, project: &str) -> Environment {
    Environment {
        system,
        home: home.to_owned(),
        project: project.to_owned(),
        variables: BTreeMap::new(),
        programs: BTreeMap::new(),
        claude_packages: Vec::new(),
    }
}

/// The entry of this server in the file of the user.
fn options(server: Server) -> Options {
    Options { name: DEFAULT_NAME.to_owned(), project: false, remove: false, server }
}

/// Writes a program that runs this script.
fn write_program(path: &Path, script: &str) {
    std::fs::write(path, format!("#!/bin/sh\n{script}\n")).expect("written");
    std::fs::set_permissions(path, Permissions::from_mode(0o755)).expect("set");
}

/// A host that the client starts.
fn stdio() -> Server {
    Server::Stdio { program: "/bin/toolyard".to_owned(), args: vec!["stdio".to_owned()] }
}
