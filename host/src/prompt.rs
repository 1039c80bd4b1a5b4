//! Questions to the person at the terminal of a command.

use anyhow::Context as _;
use std::io::{self, BufRead as _, IsTerminal as _};
use toolyard_cli::output;

/// Whether a person is at the terminal who can be asked.
pub fn is_attended() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Shows a question, and reads a line without the space around it. `None` if the terminal is gone.
///
/// # Errors
/// If the terminal cannot be read.
pub async fn read_line(question: &str) -> anyhow::Result<Option<String>> {
    output::tell_text(question);
    let read = tokio::task::spawn_blocking(|| {
        let mut line = String::new();
        io::stdin().lock().read_line(&mut line).map(|length| (length > 0).then_some(line))
    });
    let line = read.await.context("cannot read the answer")?.context("cannot read the answer")?;
    Ok(line.map(|line| line.trim().to_owned()))
}
