//! Credential helpers: programs `docker-credential-NAME` that keep passwords in a keychain.

use super::Credential;
use crate::document::visible;
use crate::error::Problem;
use crate::limits::MAX_HELPER_ANSWER;
use rustix::process::{Pid, Signal, kill_process_group};
use serde::Deserialize;
use std::ffi::OsStr;
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, Command};
use zeroize::Zeroizing;

/// The name by which helpers mark a refresh token.
const TOKEN_USER: &str = "<token>";

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Entry {
    username: String,
    secret: String,
}

/// Whether a helper succeeded, and its output.
type Output = (bool, Zeroizing<Vec<u8>>);

fn failed(program: &str, why: impl ToString) -> Problem {
    Problem::Other(format!("the credential helper {program} failed: {}", why.to_string()))
}

/// Asks a helper for the credential of a registry.
pub async fn get(program: &str, key: &str, timeout: Duration) -> Result<Option<Credential>, Problem> {
    check_name(program)?;
    let output = run_program(program.as_ref(), program, "get", key.as_bytes(), timeout).await?;
    read_answer(program, output)
}

/// The name comes from a file; a path would start any program.
fn check_name(program: &str) -> Result<(), Problem> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if program.chars().all(plain) {
        return Ok(());
    }
    Err(failed(program, "its name has characters other than letters, digits, - _ and ."))
}

fn read_answer(program: &str, (is_success, output): Output) -> Result<Option<Credential>, Problem> {
    if !is_success {
        let text = String::from_utf8_lossy(&output);
        // The sentence of all helpers that build on docker's library.
        if text.contains("credentials not found") {
            return Ok(None);
        }
        return Err(failed(program, visible(&text)));
    }
    let entry: Entry = serde_json::from_slice(&output)
        .map_err(|error| failed(program, format!("its answer is not a credential: {error}")))?;
    let secret = Zeroizing::new(entry.secret);
    if entry.username == TOKEN_USER {
        return Ok(Some(Credential::IdentityToken(secret)));
    }
    Ok(Some(Credential::Password { user: entry.username, password: secret }))
}

/// Runs a helper within the timeout.
async fn run_program(
    path: &OsStr,
    program: &str,
    verb: &str,
    input: &[u8],
    timeout: Duration,
) -> Result<Output, Problem> {
    let mut command = Command::new(path);
    command.arg(verb).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    // Helpers are often shell scripts. Their own group lets a timeout end their children too.
    command.process_group(0).kill_on_drop(true);
    let spawned = command.spawn();
    let mut child =
        spawned.map_err(|error| failed(program, format!("cannot start it from the PATH: {error}")))?;
    let group = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
    match tokio::time::timeout(timeout, exchange(&mut child, input)).await {
        Ok(Ok((_, output))) if output.len() as u64 > MAX_HELPER_ANSWER => {
            Err(failed(program, format!("its answer is larger than {MAX_HELPER_ANSWER} bytes")))
        }
        Ok(answer) => answer.map_err(|error| failed(program, error)),
        Err(_) => {
            if let Some(group) = group {
                let _ = kill_process_group(group, Signal::KILL);
            }
            let _ = child.wait().await;
            Err(failed(program, format!("it did not answer within {timeout:?}")))
        }
    }
}

async fn exchange(child: &mut Child, input: &[u8]) -> std::io::Result<Output> {
    if let Some(mut stdin) = child.stdin.take() {
        // A helper may end without reading; its status says more than the broken pipe.
        let _ = stdin.write_all(input).await;
    }
    let mut output = Zeroizing::new(Vec::new());
    if let Some(stdout) = child.stdout.take() {
        stdout.take(MAX_HELPER_ANSWER + 1).read_to_end(&mut output).await?;
    }
    if output.len() as u64 > MAX_HELPER_ANSWER {
        child.start_kill()?;
    }
    Ok((child.wait().await?.success(), output))
}

#[cfg(test)]
mod tests;
