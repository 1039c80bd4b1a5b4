//! Processes that a test has started, and the resources of the machine that a host uses, as the kernel reports them.

use crate::{Host, PATIENCE};
use rustix::process::{Pid, Signal, kill_process};
use std::path::PathBuf;
use std::process::ExitStatus;
use tokio::process::Child;

/// The id of a process.
///
/// # Panics
/// If it has ended.
pub fn pid(child: &Child) -> Pid {
    Pid::from_raw(child.id().expect("it runs").cast_signed()).expect("not zero")
}

/// Sends a process a signal.
///
/// # Panics
/// If it has ended.
pub fn signal(child: &Child, signal: Signal) {
    kill_process(pid(child), signal).expect("it runs");
}

/// Waits until a process has ended.
///
/// # Panics
/// If that takes longer than [`PATIENCE`].
pub async fn ended(child: &mut Child) -> ExitStatus {
    tokio::time::timeout(PATIENCE, child.wait()).await.expect("it ends").expect("waiting works")
}

/// The resources of a process.
#[derive(Debug, Clone, Copy)]
pub struct Usage {
    /// Resident memory, in bytes.
    pub resident: u64,
    /// The peak of resident memory so far, in bytes.
    pub peak: u64,
    /// Threads.
    pub threads: u64,
    /// Open descriptors.
    pub descriptors: u64,
    /// Mappings of memory.
    pub mappings: u64,
    /// Processor time so far, in hundredths of a second.
    pub ticks: u64,
}

impl Host {
    /// The resources that the host uses at this moment.
    ///
    /// # Panics
    /// If it does not run.
    pub fn usage(&self) -> Usage {
        let process = PathBuf::from(format!("/proc/{}", self.pid().as_raw_nonzero()));
        let read = |file: &str| std::fs::read_to_string(process.join(file)).expect("the host runs");
        let (status, stat) = (read("status"), read("stat"));
        let figure = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("a figure");
            line.split_whitespace().next().and_then(|word| word.parse::<u64>().ok()).expect("a number")
        };
        // The name of the program, in parentheses, may hold anything.
        let (_, fields) = stat.rsplit_once(')').expect("a name");
        let ticks = fields.split_whitespace().skip(11).take(2);
        Usage {
            resident: figure("VmRSS:") << 10,
            peak: figure("VmHWM:") << 10,
            threads: figure("Threads:"),
            descriptors: std::fs::read_dir(process.join("fd")).expect("the host runs").count() as u64,
            mappings: read("maps").lines().count() as u64,
            ticks: ticks.map(|field| field.parse::<u64>().expect("a number")).sum(),
        }
    }
}
