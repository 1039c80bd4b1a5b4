//! Gathers the facts for `toolyard doctor`. It decides nothing.

use crate::apply::{ApplyError, read};
use crate::client::{CLIENTS, Client};
use crate::doctor::{DataFolder, EntryFacts, Facts, FolderState, PortState, ProgramState};
use crate::entry::{is_run, starts_toolyard};
use crate::environment::{Environment, is_executable};
use crate::value::Value;
use rustix::process::geteuid;
use std::ffi::OsStr;
use std::io::{ErrorKind, Read as _};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// The time that a program has to report its version.
const VERSION_TIME: Duration = Duration::from_secs(5);
/// The most bytes of that report.
const MAX_VERSION: u64 = 200;
/// The mode bits that give other users access.
const OTHERS: u32 = 0o077;

/// The host's own part of the facts, from its configuration.
#[derive(Debug, Clone, Copy)]
pub struct HostFacts<'a> {
    /// The plugin folder.
    pub plugins: &'a Path,
    /// The data folder.
    pub data: &'a Path,
    /// The address of `toolyard serve`.
    pub listen: SocketAddr,
    /// Whether the operator accepts that others may use the data folder (`data.others-may-write`).
    pub may_data_be_open: bool,
}

/// Looks at this machine. `host` is the configuration, or the reason why it is not valid.
pub fn gather(environment: &Environment, version: &str, host: Result<HostFacts<'_>, String>) -> Facts {
    let shown =
        |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned()).display().to_string();
    let own = host.as_ref().ok();
    let mut facts = Facts {
        system: environment.system,
        version: version.to_owned(),
        unreadable: Vec::new(),
        entries: Vec::new(),
        plugins: own.map(|own| (shown(own.plugins), folder_state(own.plugins))),
        data: own.map(|own| (shown(own.data), data_folder(own.data, own.may_data_be_open))),
        listen: own.map(|own| (own.listen.to_string(), port_state(own.listen))),
        configuration: host.err(),
    };
    for client in &CLIENTS {
        let [user, project] = [false, true].map(|is_project| client.file(environment, is_project).ok());
        // In the home folder both are one file.
        for (file, is_project) in [(&user, false), (&project, true)] {
            if let Some(file) = file.as_deref().filter(|_| !is_project || user != project) {
                add_entries(&mut facts, client, environment, file, is_project);
            }
        }
    }
    facts
}

fn is_foreign(file: &Path) -> bool {
    file.metadata().map_or(true, |found| found.uid() != geteuid().as_raw())
}

fn add_entries(facts: &mut Facts, client: &Client, environment: &Environment, file: &Path, is_project: bool) {
    let shown = file.display().to_string();
    let content = match read(file) {
        Ok(None) => return,
        Ok(Some(bytes)) => String::from_utf8(bytes).map_err(|_| "it is not UTF-8".to_owned()),
        // As the user of a service, this program sees the files of root, whose clients are not its own.
        Err(ApplyError::Read { error, .. })
            if error.kind() == ErrorKind::PermissionDenied && is_foreign(file) =>
        {
            return;
        }
        Err(error) => Err(error.to_string()),
    };
    let parsed = content.and_then(|text| client.format.parse(text.trim_start_matches('\u{feff}')));
    let content = match parsed {
        Ok(content) => content,
        Err(reason) => return facts.unreadable.push((shown, reason)),
    };
    for (name, entry) in content.get(client.section).map(Value::entries).unwrap_or_default() {
        let Some(program) = entry.text("command").filter(|_| starts_toolyard(entry)) else { continue };
        let args = entry.list("args");
        let plugins = plugin_folder(&args);
        facts.entries.push(EntryFacts {
            client: client.name.to_owned(),
            file: shown.clone(),
            name: name.clone(),
            program: program.to_owned(),
            // The author of a project does not decide which programs this command runs.
            program_state: match is_run(entry) {
                true => ProgramState::Present { version: None },
                false => program_state(environment, program, !is_project),
            },
            plugins: plugins.map(str::to_owned),
            plugins_state: plugins.map_or(FolderState::Filled, |folder| folder_state(Path::new(folder))),
        });
    }
}

/// The value of `--plugins`.
fn plugin_folder<'a>(args: &[&'a str]) -> Option<&'a str> {
    args.iter().enumerate().find_map(|(index, arg)| match *arg {
        "--plugins" => args.get(index + 1).copied(),
        arg => arg.strip_prefix("--plugins="),
    })
}

fn program_state(environment: &Environment, program: &str, may_run: bool) -> ProgramState {
    let path = Path::new(program);
    if !environment.system.is_absolute(program) || !path.exists() {
        return ProgramState::Missing;
    }
    match is_executable(path) {
        false => ProgramState::NotExecutable,
        true => ProgramState::Present { version: may_run.then(|| reported_version(path)).flatten() },
    }
}

/// The version that a program reports as `toolyard VERSION`.
fn reported_version(program: &Path) -> Option<String> {
    let mut command = Command::new(program);
    command.arg("--version").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut process = command.spawn().ok()?;
    let mut stdout = process.stdout.take()?.take(MAX_VERSION);
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut text = String::new();
        // Without a reader, the program took too long.
        let _ = stdout.read_to_string(&mut text).is_ok_and(|_| sender.send(text).is_ok());
    });
    let text = receiver.recv_timeout(VERSION_TIME);
    // It may have ended already.
    let _ = process.kill();
    let _ = process.wait();
    text.ok()?.trim().strip_prefix("toolyard ").map(str::to_owned)
}

fn folder_state(folder: &Path) -> FolderState {
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return FolderState::Missing,
        Err(error) => return FolderState::Unreadable(error.to_string()),
        Ok(entries) => entries,
    };
    let is_component = |path: &Path| path.extension() == Some(OsStr::new("wasm"));
    match entries.flatten().any(|entry| is_component(&entry.path())) {
        true => FolderState::Filled,
        false => FolderState::Empty,
    }
}

fn data_folder(folder: &Path, may_be_open: bool) -> DataFolder {
    let found = match std::fs::metadata(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return DataFolder::Missing,
        Err(error) => return DataFolder::Unusable(error.to_string()),
        Ok(found) => found,
    };
    if !found.is_dir() {
        return DataFolder::Unusable("it is not a folder".to_owned());
    }
    if found.uid() != geteuid().as_raw() {
        return DataFolder::Unusable("it belongs to another user".to_owned());
    }
    match found.mode() & OTHERS {
        0 => DataFolder::Private,
        _ if may_be_open => DataFolder::Private,
        _ => DataFolder::Open(found.mode() & 0o777),
    }
}

fn port_state(address: SocketAddr) -> PortState {
    match TcpListener::bind(address) {
        Ok(_) => PortState::Free,
        Err(error) if error.kind() == ErrorKind::AddrInUse => PortState::InUse,
        Err(error) => PortState::Refused(error.to_string()),
    }
}
