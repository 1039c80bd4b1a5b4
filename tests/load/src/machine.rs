//! The machine, without which figures mean nothing.

use serde_json::{Value, json};
use std::process::Command;
use toolyard_tests::guests;

/// The description of the machine.
#[derive(Debug, Clone)]
pub struct Machine {
    cores: usize,
    processor: String,
    memory_mib: u64,
    kernel: String,
    rustc: String,
    commit: String,
    binary: String,
    load: String,
    seconds: u64,
}

/// Examines the machine.
pub fn describe() -> Machine {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let field = |text: &str, name: &str| {
        let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_default();
        line.split_once(':').map_or_else(|| "unknown".to_owned(), |(_, value)| value.trim().to_owned())
    };
    let memory = field(&read("/proc/meminfo"), "MemTotal");
    let memory = memory.split(' ').next().and_then(|kib| kib.parse::<u64>().ok()).unwrap_or_default();
    Machine {
        cores: std::thread::available_parallelism().map_or(0, std::num::NonZero::get),
        processor: field(&read("/proc/cpuinfo"), "model name"),
        memory_mib: memory / 1024,
        kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
        rustc: output("rustc", &["--version"]),
        commit: output("git", &["describe", "--always", "--dirty"]),
        binary: binary(),
        load: read("/proc/loadavg").split(' ').take(3).collect::<Vec<_>>().join(" "),
        seconds: std::time::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_secs()),
    }
}

impl Machine {
    /// As text.
    pub fn lines(&self) -> String {
        format!(
            "- machine: {} cores, {}, {} MiB memory, Linux {}\n- built with {}, commit {}\n- the host: {}\n- load average before: {}\n",
            self.cores,
            self.processor,
            self.memory_mib,
            self.kernel,
            self.rustc,
            self.commit,
            self.binary,
            self.load
        )
    }

    /// As JSON.
    pub fn json(&self) -> Value {
        json!({
            "cores": self.cores, "processor": self.processor, "memory_mib": self.memory_mib,
            "kernel": self.kernel, "rustc": self.rustc, "commit": self.commit,
            "binary": self.binary, "load_before": self.load, "unix_seconds": self.seconds,
        })
    }
}

/// The measured host's binary, relative to the source folder if it is inside.
fn binary() -> String {
    let binary = guests::binary();
    let sources = std::env::current_dir().unwrap_or_default();
    binary.strip_prefix(&sources).unwrap_or(&binary).display().to_string()
}

fn output(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().ok().filter(|output| output.status.success());
    output.map_or_else(
        || "unknown".to_owned(),
        |output| String::from_utf8_lossy(&output.stdout).trim().to_owned(),
    )
}
