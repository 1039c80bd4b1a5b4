//! A property that kill -9 cannot show: acknowledged changes are on the disk, and not only in the kernel. The
//! test traces the system calls of a host. Between a request that changes a task and its answer, the host
//! flushes the log of the database.

use serde_json::json;
use std::collections::HashSet;
use std::path::Path;
use std::process::Stdio;
use tokio::process::{Child, Command};
use toolyard_tests::{Host, Setup, eventually, guests};

/// Changes of each kind.
const CHANGES: usize = 20;

/// The events of a trace that matter here, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seen {
    Request,
    Flushed,
    Answer,
}

/// Reads a trace line by line: each line begins with the thread id.
#[derive(Default)]
struct Reader {
    /// Threads that are flushing the log of the database.
    flushing: HashSet<String>,
}

impl Reader {
    fn seen(&mut self, line: &str) -> Option<Seen> {
        let (thread, call) = line.split_once(' ')?;
        if line.contains("\"POST /mcp") {
            return Some(Seen::Request);
        }
        if line.contains("\"HTTP/1.1 200") {
            return Some(Seen::Answer);
        }
        let call = call.trim_start();
        if call.starts_with("fsync(") || call.starts_with("fdatasync(") {
            if !call.contains("toolyard.sqlite-wal>") {
                return None;
            }
            if call.contains("<unfinished") {
                self.flushing.insert(thread.to_owned());
                return None;
            }
        } else if !(call.contains("sync resumed>") && self.flushing.remove(thread)) {
            return None;
        }
        call.ends_with("= 0").then_some(Seen::Flushed)
    }
}

/// Starts to trace all threads of a host; `None` if tracing is impossible.
async fn watch(host: &Host, trace: &Path) -> Option<Child> {
    let mut strace = Command::new("strace");
    let calls = "trace=fsync,fdatasync,read,recvfrom,write,writev,sendto,sendmsg";
    strace.args(["-f", "-y", "-s", "16", "-e", calls]);
    strace.arg("-o").arg(trace).arg("-p").arg(host.pid().to_string()).kill_on_drop(true);
    let mut strace = strace.stdin(Stdio::null()).stderr(Stdio::null()).spawn().ok()?;
    let threads = format!("/proc/{}/task", host.pid());
    let attached = eventually("strace to attach, or to give up", || {
        let gone = strace.try_wait().expect("waiting works").is_some();
        let attached = std::fs::read_dir(&threads).expect("the host lives").flatten().all(|thread| {
            let status = std::fs::read_to_string(thread.path().join("status")).unwrap_or_default();
            !status.contains("TracerPid:\t0\n")
        });
        async move { (attached || gone).then_some(attached) }
    })
    .await;
    attached.then_some(strace)
}

#[tokio::test]
async fn an_acknowledged_change_was_flushed_to_the_disk_before() {
    let (host, session) = Setup::new().with(&[guests::fixture("effects")]).open().await;
    let create = async |key: &str| session.create("once", json!({"key": key, "ms": 600_000})).await;
    create("before").await;
    let trace = host.folder().join("trace");
    let Some(strace) = watch(&host, &trace).await else {
        return crate::say("SKIPPED: strace is not there, or may not watch");
    };
    for number in 0..CHANGES {
        let id = create(&number.to_string()).await;
        session.result("tasks/cancel", json!({"taskId": id})).await;
    }
    let (text, seen) = eventually("the trace to be written", || async {
        let (text, mut reader) = (std::fs::read_to_string(&trace).unwrap_or_default(), Reader::default());
        let seen: Vec<_> = text.lines().filter_map(|line| reader.seen(line)).collect();
        let answers = seen.iter().filter(|what| **what == Seen::Answer).count();
        assert!(answers <= 2 * CHANGES, "{text}");
        (answers == 2 * CHANGES).then_some((text, seen))
    })
    .await;
    drop(strace);
    let mut flushed = None;
    for what in seen {
        match what {
            Seen::Request => flushed = Some(false),
            Seen::Flushed => flushed = flushed.map(|_| true),
            Seen::Answer => assert_eq!(flushed.take(), Some(true), "not flushed first:\n{text}"),
        }
    }
}
