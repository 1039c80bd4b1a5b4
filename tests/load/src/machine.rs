//! The machine, without which figures mean nothing.

use std::process::Command;
use toolyard_tests::guests;

/// Describes the machine, in lines of a list.
pub fn describe() -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let field = |text: &str, name: &str| {
        let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_default();
        line.split_once(':').map_or_else(|| "unknown".to_owned(), |(_, value)| value.trim().to_owned())
    };
    let memory = field(&read("/proc/meminfo"), "MemTotal");
    let memory_kib = memory.split(' ').next().and_then(|kib| kib.parse::<u64>().ok()).unwrap_or_default();
    format!(
        "- machine: {} cores, {}, {} MiB memory, Linux {}\n- built with {}, commit {}\n- the host: {}\n- load average before: {}\n",
        std::thread::available_parallelism().map_or(0, std::num::NonZero::get),
        field(&read("/proc/cpuinfo"), "model name"),
        memory_kib / 1024,
        read("/proc/sys/kernel/osrelease").trim(),
        output("rustc", &["--version"]),
        output("git", &["describe", "--always", "--dirty"]),
        binary(),
        read("/proc/loadavg").split(' ').take(3).collect::<Vec<_>>().join(" "),
    )
}

/// The measured host's binary, relative to the source folder if it is inside.
fn binary() -> String {
    let binary = guests::binary();
    let sources = std::env::current_dir().unwrap_or_default();
    binary.strip_prefix(&sources).unwrap_or(&binary).display().to_string()
}

fn output(program: &str, arguments: &[&str]) -> String {
    let done = Command::new(program).args(arguments).output().ok().filter(|done| done.status.success());
    done.map_or_else(|| "unknown".to_owned(), |done| String::from_utf8_lossy(&done.stdout).trim().to_owned())
}
