//! `toolyard tasks export` and `import`: all tasks as JSON lines.

use super::{operator, timeline};
use crate::command::counted;
use crate::config::Config;
use anyhow::{Context as _, bail};
use bytesize::ByteSize;
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read as _, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use tempfile::NamedTempFile;
use toolyard_cli::{output, say, tell};
use toolyard_dispatch::{Action, By, Entry, Task, Timestamp};
use toolyard_store::{Backend, jsonl};

/// The most tasks that one transaction imports, and the bytes of lines after which a batch is full.
const ROWS: usize = 256;
const ENOUGH: usize = 4 << 20;

/// Write all tasks, with everything that belongs to them, as JSON lines.
///
/// Arguments, answers and results are written in plain text, even if the store is encrypted: protect the file
/// as you protect the store. The file is made for its owner alone (mode 600), and appears only when it is
/// complete. A host may keep running; the file does not show its later changes. It contains no sessions,
/// permissions or keys.
#[derive(Debug, Args)]
pub struct Export {
    /// The file to write, replacing an existing one. [default: stdout]
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Add the events of each task as `timeline`. `import` ignores them.
    #[arg(long)]
    timeline: bool,
}

/// Read tasks that `export` wrote, on this or another machine.
///
/// A task whose id is already in this store is skipped, so you can repeat an import that was stopped. Ids,
/// owners, times and ttls stay the same. The next start of a host removes ended tasks that are past their
/// ttl. A task that was live is imported as one whose host has died. The next host decides, as after a crash,
/// whether to run it again: stop the host that has the original before you export it, or both run it. If a
/// line cannot be read, the tasks before it are imported, and nothing of that line.
#[derive(Debug, Args)]
pub struct Import {
    /// The file to read; `-` is stdin.
    #[arg(value_name = "FILE", default_value = "-")]
    file: PathBuf,
    /// The longest line to read, such as 64MiB; each is held in memory.
    #[arg(long, value_name = "SIZE", default_value = "512MiB")]
    max_line: ByteSize,
}

/// Runs `tasks export`.
pub fn export(config: &Config, options: &Export) -> anyhow::Result<ExitCode> {
    operator::has_store(config, false)?;
    let output = options.output.as_deref().filter(|path| *path != Path::new("-"));
    operator::with_bare_store(config, async |store| {
        let (written, unreadable) = match output {
            None => {
                let mut out = BufWriter::new(output::json_lines());
                let done = write(store, options.timeline, &mut out).await?;
                out.flush().context("cannot write to stdout")?;
                done
            }
            Some(path) => {
                let cannot = || format!("cannot write {}", path.display());
                let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
                // Created with mode 600, and removed unless it is renamed to its final name.
                let partial = NamedTempFile::new_in(folder.unwrap_or(Path::new("."))).with_context(cannot)?;
                let mut out = BufWriter::new(partial);
                let done = write(store, options.timeline, &mut out).await?;
                let partial =
                    out.into_inner().map_err(io::IntoInnerError::into_error).with_context(cannot)?;
                partial.as_file().sync_all().with_context(cannot)?;
                partial.persist(path).with_context(cannot)?;
                done
            }
        };
        noted(store, Action::ArchiveExported, written);
        tell!("toolyard: exported {}", tasks(written));
        if unreadable > 0 {
            bail!("cannot read {}, which were left out; the log names them", tasks(unreadable));
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// Writes the lines. Returns the number of tasks, and of tasks that could not be read.
async fn write(store: &dyn Backend, with_timeline: bool, out: &mut impl Write) -> anyhow::Result<(u64, u64)> {
    let bar = progress("exporting");
    let (mut written, mut unreadable) = (0, 0);
    let mut export = store.export().await?;
    loop {
        let page = export.next().await.with_context(|| format!("after {}", tasks(written)))?;
        if page.is_empty() {
            bar.finish_and_clear();
            return Ok((written, unreadable));
        }
        for task in page {
            match task {
                Ok(task) => {
                    let events = match with_timeline {
                        true => Some(timeline::events(store, task.id).await?),
                        false => None,
                    };
                    let line = jsonl::line(&task, events.as_deref())?;
                    writeln!(out, "{line}").context("cannot write the output")?;
                    written += 1;
                }
                Err(error) => {
                    tracing::error!(
                        event = "task.not_exported",
                        error = &error as &dyn std::error::Error,
                        "cannot export task"
                    );
                    unreadable += 1;
                }
            }
        }
        bar.set_position(written);
    }
}

/// Runs `tasks import`.
pub fn import(config: &Config, options: &Import, json: bool) -> anyhow::Result<ExitCode> {
    let cannot = || format!("cannot read {}", options.file.display());
    let input: Input = match options.file == Path::new("-") {
        true => Box::new(BufReader::new(io::stdin())),
        false => Box::new(BufReader::new(File::open(&options.file).with_context(cannot)?)),
    };
    operator::with_bare_store(config, async |store| {
        let mut counts = Counts::default();
        let done = read(store, input, options.max_line, &mut counts).await;
        if counts.imported > 0 {
            noted(store, Action::ArchiveImported, counts.imported);
        }
        if json {
            output::json(serde_json::json!({"imported": counts.imported, "skipped": counts.skipped}));
        } else {
            say!("imported {}, skipped {} that were there", tasks(counts.imported), counts.skipped);
        }
        done.map(|()| ExitCode::SUCCESS)
    })
}

/// The source of the tasks.
type Input = Box<dyn BufRead + Send>;

#[derive(Default)]
struct Counts {
    imported: u64,
    skipped: u64,
}

impl Counts {
    /// Adds a batch of `tasks`, of which the store took `taken`.
    fn add(&mut self, tasks: usize, taken: u32) {
        self.imported += u64::from(taken);
        self.skipped += tasks as u64 - u64::from(taken);
    }
}

async fn read(
    store: &dyn Backend,
    mut input: Input,
    max_line: ByteSize,
    counts: &mut Counts,
) -> anyhow::Result<()> {
    let bar = progress("importing");
    let mut number = 0;
    loop {
        // Reading may wait for input at a terminal, where the person may press Ctrl-C instead.
        let read = tokio::task::spawn_blocking(move || {
            let batch = Batch::read(&mut input, max_line, &mut number);
            (input, number, batch)
        });
        let batch;
        (input, number, batch) = read.await.context("reading panicked")?;
        let batch = batch.without_those_ahead(store.now().await?);
        // The store uses the times of its tasks as clock values that it has already given. So a task enters
        // the store only when its time has come.
        tokio::time::sleep(Duration::from_millis(batch.ahead)).await;
        // Tasks before an unreadable line are imported.
        take(store, batch.tasks, &batch.numbers, counts).await?;
        bar.set_position(counts.imported + counts.skipped);
        if !batch.end? {
            continue;
        }
        bar.finish_and_clear();
        return Ok(());
    }
}

/// Imports tasks. The store takes all of them or none. If it refuses them together, they are imported one by
/// one, up to the one that it refuses.
async fn take(
    store: &dyn Backend,
    tasks: Vec<Task>,
    numbers: &[u64],
    counts: &mut Counts,
) -> anyhow::Result<()> {
    if let Ok(taken) = store.import(tasks.clone()).await {
        counts.add(tasks.len(), taken);
        return Ok(());
    }
    for (task, number) in tasks.into_iter().zip(numbers) {
        let taken = store.import(vec![task]).await.with_context(|| format!("line {number}"))?;
        counts.add(1, taken);
    }
    Ok(())
}

/// Some tasks, and whether the input has ended.
struct Batch {
    tasks: Vec<Task>,
    /// The numbers of their lines.
    numbers: Vec<u64>,
    end: anyhow::Result<bool>,
    /// The milliseconds by which their latest time is ahead of the store's clock.
    ahead: u64,
}

impl Batch {
    /// Reads the next batch, after `number` lines.
    fn read(input: &mut Input, max_line: ByteSize, number: &mut u64) -> Self {
        let mut batch = Self { tasks: Vec::new(), numbers: Vec::new(), end: Ok(false), ahead: 0 };
        let (mut bytes, mut line) = (0, String::new());
        while batch.tasks.len() < ROWS && bytes < ENOUGH {
            *number += 1;
            line.clear();
            let at = || format!("line {number}");
            match next(input, max_line, &mut line).with_context(at) {
                Ok(true) => {}
                end => return Self { end: end.map(|_| true), ..batch },
            }
            bytes += line.len();
            if line.trim().is_empty() {
                continue;
            }
            match jsonl::read_line(&line).with_context(at) {
                Ok(task) => {
                    batch.tasks.push(task);
                    batch.numbers.push(*number);
                }
                Err(error) => return Self { end: Err(error), ..batch },
            }
        }
        batch
    }

    /// The batch up to the first task whose time is ahead of the store's clock.
    fn without_those_ahead(mut self, now: Timestamp) -> Self {
        for (place, (task, number)) in self.tasks.iter().zip(&self.numbers).enumerate() {
            match jsonl::ahead(task, now) {
                Ok(ahead) => self.ahead = self.ahead.max(ahead),
                Err(error) => {
                    self.end = Err(error).with_context(|| format!("line {number}"));
                    self.tasks.truncate(place);
                    break;
                }
            }
        }
        self
    }
}

/// Reads the next line. Returns whether there was one.
fn next(input: &mut Input, max_line: ByteSize, line: &mut String) -> anyhow::Result<bool> {
    let length = input.take(max_line.as_u64().saturating_add(1)).read_line(line)?;
    if length as u64 > max_line.as_u64() {
        bail!("longer than {max_line} (`--max-line`)");
    }
    Ok(length > 0)
}

/// Records the action in the audit log.
fn noted(store: &dyn Backend, action: Action, count: u64) {
    let by = By::principal("local", None);
    store.note(Entry { count: Some(count), ..Entry::new(action, &by) });
}

pub(super) fn tasks(count: u64) -> String {
    counted(count, "task")
}

/// A progress bar for terminals.
pub(super) fn progress(what: &'static str) -> ProgressBar {
    let style = ProgressStyle::with_template("{spinner} {msg}: {human_pos} tasks");
    let style = style.unwrap_or_else(|_| ProgressStyle::default_spinner());
    // Hidden where stderr is no terminal.
    ProgressBar::new_spinner().with_style(style).with_message(what)
}
