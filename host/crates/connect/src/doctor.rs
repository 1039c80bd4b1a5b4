//! The checks of `toolyard doctor`: functions from facts to findings.

use crate::environment::System;
use serde::Serialize;
use std::fmt::Write as _;

/// The weight of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Something does not work.
    Error,
    /// Something may not work, or not as expected.
    Warning,
}

impl Severity {
    const fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
        }
    }
}

/// A problem, and the way to solve it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The weight of the finding.
    pub severity: Severity,
    /// The file, folder or address.
    pub subject: String,
    /// A sentence that says what is wrong.
    pub problem: String,
    /// A sentence that says what to do.
    pub remedy: String,
}

/// The state of a program that a client starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProgramState {
    /// There is no such file.
    Missing,
    /// The user may not run the program.
    NotExecutable,
    /// The program can be run. `version` is what it reports, if it was asked.
    Present {
        /// Such as `0.1.0`.
        version: Option<String>,
    },
}

/// The state of a plugin folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FolderState {
    /// There is no such folder.
    Missing,
    /// The folder cannot be listed, with the error of the system.
    Unreadable(String),
    /// The folder has no components.
    Empty,
    /// The folder has components.
    Filled,
}

/// The state of the data folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DataFolder {
    /// The folder does not exist yet; the host makes it.
    Missing,
    /// Only this user may use it.
    Private,
    /// Other users may read or change it, by this mode.
    Open(u32),
    /// The folder belongs to another user, or is not a folder, or cannot be read.
    Unusable(String),
}

/// The state of the address that `toolyard serve` listens on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PortState {
    /// A server can listen there.
    Free,
    /// A process listens there.
    InUse,
    /// No server can listen there, with the error of the system.
    Refused(String),
}

/// An entry of Toolyard in a client's file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryFacts {
    /// The name of the client in `toolyard connect`.
    pub client: String,
    /// The client's file.
    pub file: String,
    /// The name of the entry.
    pub name: String,
    /// The program as written.
    pub program: String,
    /// The state of the program.
    pub program_state: ProgramState,
    /// The plugin folder as written; `None` without `--plugins`.
    pub plugins: Option<String>,
    /// The state of the plugin folder.
    pub plugins_state: FolderState,
}

/// The facts about this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// The operating system.
    pub system: System,
    /// The version of this program.
    pub version: String,
    /// The reason why the configuration of the host is not valid.
    pub configuration: Option<String>,
    /// Files of clients that cannot be read, with the reason.
    pub unreadable: Vec<(String, String)>,
    /// The entries in clients' files.
    pub entries: Vec<EntryFacts>,
    /// The plugin folder of the configuration.
    pub plugins: Option<(String, FolderState)>,
    /// The data folder of the configuration.
    pub data: Option<(String, DataFolder)>,
    /// The address of the configuration.
    pub listen: Option<(String, PortState)>,
}

/// All findings, the errors first.
pub fn check(facts: &Facts) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Some(reason) = &facts.configuration {
        let remedy = "Correct the configuration; `toolyard tools` shows whether it is valid.";
        findings.push(finding(
            Severity::Error,
            "configuration",
            format!("It is not valid: {reason}."),
            remedy,
        ));
    }
    for (file, reason) in &facts.unreadable {
        let remedy = "Correct the file; its client may ignore it as it is.";
        findings.push(finding(Severity::Error, file, format!("The file cannot be read: {reason}."), remedy));
    }
    for entry in &facts.entries {
        findings.extend(check_program(entry, facts.system, &facts.version));
        findings.extend(check_entry_folder(entry, facts.system));
    }
    if let Some((folder, state)) = &facts.plugins {
        findings.extend(check_plugins(folder, state, "Make the folder, or name another by --plugins."));
    }
    findings.extend(facts.data.iter().filter_map(|(folder, state)| check_data(folder, state)));
    findings.extend(facts.listen.iter().filter_map(|(address, state)| check_port(address, state)));
    findings.sort_by_key(|finding| finding.severity);
    findings
}

fn finding(severity: Severity, subject: &str, problem: String, remedy: impl Into<String>) -> Finding {
    Finding { severity, subject: subject.to_owned(), problem, remedy: remedy.into() }
}

fn check_program(entry: &EntryFacts, system: System, version: &str) -> Option<Finding> {
    let EntryFacts { client, file, name, program, .. } = entry;
    let again = format!("Run `toolyard connect {client}` again.");
    if !system.is_absolute(program) {
        let problem = format!(
            "The entry `{name}` names the program `{program}`, which the client may not find: the path is relative."
        );
        return Some(finding(Severity::Error, file, problem, again));
    }
    match &entry.program_state {
        ProgramState::Missing => {
            let problem = format!("The entry `{name}` names the program {program}, which does not exist.");
            Some(finding(Severity::Error, file, problem, again))
        }
        ProgramState::NotExecutable => {
            let problem = format!("The entry `{name}` names the program {program}, which you may not run.");
            Some(finding(Severity::Error, file, problem, format!("Run `chmod u+x {program}`.")))
        }
        ProgramState::Present { version: Some(other) } if other != version => {
            let problem =
                format!("The entry `{name}` names {program}, version {other}; this program is {version}.");
            Some(finding(Severity::Warning, file, problem, again))
        }
        ProgramState::Present { .. } => None,
    }
}

fn check_entry_folder(entry: &EntryFacts, system: System) -> Option<Finding> {
    let EntryFacts { client, file, name, plugins, plugins_state, .. } = entry;
    let folder = plugins.as_ref()?;
    let remedy = format!("Run `toolyard connect {client} --plugins DIR` with the folder of your tools.");
    if !system.is_absolute(folder) {
        let problem = format!(
            "The entry `{name}` names the plugin folder `{folder}`, which the client may not find: the path is relative."
        );
        return Some(finding(Severity::Error, file, problem, remedy));
    }
    let found = check_plugins(folder, plugins_state, &remedy)?;
    Some(Finding {
        problem: format!("The entry `{name}` names {folder}. {}", found.problem),
        subject: file.clone(),
        ..found
    })
}

fn check_plugins(folder: &str, state: &FolderState, remedy: &str) -> Option<Finding> {
    match state {
        FolderState::Missing => {
            Some(finding(Severity::Error, folder, "The plugin folder does not exist.".to_owned(), remedy))
        }
        FolderState::Unreadable(reason) => {
            let problem = format!("The plugin folder cannot be read: {reason}.");
            Some(finding(Severity::Error, folder, problem, "Give yourself the permission to read it."))
        }
        FolderState::Empty => {
            let remedy = "Put components (files that end in .wasm) into it.";
            Some(finding(Severity::Warning, folder, "The plugin folder has no tools.".to_owned(), remedy))
        }
        FolderState::Filled => None,
    }
}

fn check_data(folder: &str, state: &DataFolder) -> Option<Finding> {
    match state {
        DataFolder::Missing | DataFolder::Private => None,
        DataFolder::Open(mode) => {
            // The host does not start with a data folder that others can change.
            let (severity, what) = match mode & 0o022 {
                0 => (Severity::Warning, "read"),
                _ => (Severity::Error, "change"),
            };
            let problem = format!("Other users can {what} the data folder: its mode is {mode:03o}.");
            Some(finding(severity, folder, problem, format!("Run `chmod 700 {folder}`.")))
        }
        DataFolder::Unusable(reason) => {
            let problem = format!("The data folder cannot be used: {reason}.");
            Some(finding(Severity::Error, folder, problem, "Name another folder by --data."))
        }
    }
}

fn check_port(address: &str, state: &PortState) -> Option<Finding> {
    match state {
        PortState::Free => None,
        PortState::InUse => {
            let problem =
                "A process listens on this address, so `toolyard serve` cannot start there.".to_owned();
            let remedy = "If that process is `toolyard serve`, all is well; else choose a port by --listen.";
            Some(finding(Severity::Warning, address, problem, remedy))
        }
        PortState::Refused(reason) => {
            let problem = format!("`toolyard serve` cannot listen on this address: {reason}.");
            Some(finding(Severity::Error, address, problem, "Choose another address by --listen."))
        }
    }
}

/// The findings for people.
pub fn to_text(findings: &[Finding]) -> String {
    if findings.is_empty() {
        return "No problems were found.\n".to_owned();
    }
    let mut out = String::new();
    for Finding { severity, subject, problem, remedy } in findings {
        // Writing to a String does not fail.
        let _ = write!(out, "{:<8} {subject}\n         {problem}\n         {remedy}\n", severity.name());
    }
    out
}

/// The findings for programs.
pub fn to_json(findings: &[Finding]) -> serde_json::Value {
    let has_errors = findings.iter().any(|finding| finding.severity == Severity::Error);
    serde_json::json!({ "ok": !has_errors, "findings": findings })
}
