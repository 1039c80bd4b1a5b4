//! The findings of `toolyard doctor`, from facts and from this machine.

use std::fs::{Permissions, create_dir_all, set_permissions, write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use toolyard_connect::{
    DataFolder, EntryFacts, Environment, Facts, FolderState, HostFacts, PortState, ProgramState, Severity,
    System, check, gather, to_json, to_text,
};

/// Facts without a problem.
fn facts() -> Facts {
    let entry = EntryFacts {
        client: "cursor".to_owned(),
        file: "/home/ada/.cursor/mcp.json".to_owned(),
        name: "toolyard".to_owned(),
        program: "/bin/toolyard".to_owned(),
        program_state: ProgramState::Present { version: Some("0.1.0".to_owned()) },
        plugins: Some("/tools".to_owned()),
        plugins_state: FolderState::Filled,
    };
    Facts {
        system: System::Linux,
        version: "0.1.0".to_owned(),
        configuration: None,
        unreadable: Vec::new(),
        entries: vec![entry],
        plugins: Some(("/tools".to_owned(), FolderState::Filled)),
        data: Some(("/data".to_owned(), DataFolder::Private)),
        listen: Some(("127.0.0.1:7420".to_owned(), PortState::Free)),
    }
}

#[test]
fn each_problem_is_one_finding_that_says_what_to_do() {
    let with = |change: &dyn Fn(&mut EntryFacts)| {
        let mut facts = facts();
        change(&mut facts.entries[0]);
        facts
    };
    let plugins = |state| Facts { plugins: Some(("/tools".to_owned(), state)), ..facts() };
    let data = |state| Facts { data: Some(("/data".to_owned(), state)), ..facts() };
    let listen = |state| Facts { listen: Some(("127.0.0.1:7420".to_owned(), state)), ..facts() };
    let reason = || "permission denied".to_owned();
    let version = |version: &str| ProgramState::Present { version: Some(version.to_owned()) };
    for (facts, severity, text) in [
        (with(&|entry| entry.program_state = ProgramState::Missing), Severity::Error, "does not exist"),
        (with(&|entry| entry.program_state = ProgramState::NotExecutable), Severity::Error, "chmod u+x"),
        (with(&|entry| entry.program = "toolyard".to_owned()), Severity::Error, "relative"),
        (with(&|entry| entry.program_state = version("0.0.9")), Severity::Warning, "version 0.0.9"),
        (with(&|entry| entry.plugins = Some("./tools".to_owned())), Severity::Error, "relative"),
        (with(&|entry| entry.plugins_state = FolderState::Missing), Severity::Error, "connect cursor --plug"),
        (with(&|entry| entry.plugins_state = FolderState::Empty), Severity::Warning, "no tools"),
        (plugins(FolderState::Missing), Severity::Error, "does not exist"),
        (plugins(FolderState::Unreadable(reason())), Severity::Error, "permission denied"),
        (plugins(FolderState::Empty), Severity::Warning, "no tools"),
        (data(DataFolder::Open(0o755)), Severity::Warning, "can read the data folder: its mode is 755"),
        (data(DataFolder::Open(0o770)), Severity::Error, "chmod 700 /data"),
        (data(DataFolder::Unusable(reason())), Severity::Error, "--data"),
        (listen(PortState::InUse), Severity::Warning, "--listen"),
        (listen(PortState::Refused(reason())), Severity::Error, "permission denied"),
        (Facts { configuration: Some(reason()), ..facts() }, Severity::Error, "toolyard tools"),
        (Facts { unreadable: vec![(reason(), reason())], ..facts() }, Severity::Error, "Correct the file"),
    ] {
        let findings = check(&facts);
        assert_eq!(findings.len(), 1, "{text}: {findings:?}");
        let shown = to_text(&findings);
        assert!(findings[0].severity == severity && shown.contains(text), "{text}: {shown}");
        assert_eq!(to_json(&findings)["ok"], severity != Severity::Error, "{text}");
    }
}

#[test]
fn facts_without_a_problem_give_no_finding() {
    let mut absent = Facts { data: Some(("/data".to_owned(), DataFolder::Missing)), ..facts() };
    absent.entries[0].program_state = ProgramState::Present { version: None };
    absent.entries[0].plugins = None;
    for facts in [facts(), absent, Facts { plugins: None, data: None, listen: None, ..facts() }] {
        assert_eq!(to_text(&check(&facts)), "No problems were found.\n");
    }
}

#[test]
fn the_facts_are_those_of_this_machine() {
    let _programs = crate::programs();
    let home = tempfile::tempdir().expect("a folder");
    let path = |name: &str| home.path().join(name);
    let program = path("toolyard");
    crate::write_program(&program, "echo toolyard 0.0.9");
    for folder in [".cursor", ".gemini", "work", "tools", "data"] {
        create_dir_all(path(folder)).expect("made");
    }
    set_permissions(path("data"), Permissions::from_mode(0o750)).expect("set");
    let shown = program.display();
    let entry =
        format!(r#"{{"mcpServers":{{"x":{{"command":"{shown}","args":["stdio","--plugins","./tools"]}}}}}}"#);
    write(path(".cursor/mcp.json"), &entry).expect("written");
    // A project's file is not trusted, so its program is not run.
    write(path("work/.mcp.json"), &entry).expect("written");
    write(path(".gemini/settings.json"), "{").expect("written");
    let environment = Environment::find(|_| None, home.path(), &path("work")).expect("an environment");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let host = HostFacts {
        plugins: &path("tools"),
        data: &path("data"),
        listen: listener.local_addr().expect("an address"),
        may_data_be_open: false,
    };
    let facts = gather(&environment, "0.1.0", Ok(host));
    let versions: Vec<_> =
        facts.entries.iter().map(|entry| (entry.client.as_str(), &entry.program_state)).collect();
    let present = |version: Option<&str>| ProgramState::Present { version: version.map(str::to_owned) };
    assert_eq!(versions, [("claude-code", &present(None)), ("cursor", &present(Some("0.0.9")))]);
    assert_eq!(facts.entries[0].plugins.as_deref(), Some("./tools"));
    assert_eq!(facts.unreadable.len(), 1, "{:?}", facts.unreadable);
    assert_eq!(facts.plugins.map(|(_, state)| state), Some(FolderState::Empty));
    assert_eq!(facts.data.map(|(_, state)| state), Some(DataFolder::Open(0o750)));
    assert_eq!(facts.listen.map(|(_, state)| state), Some(PortState::InUse));
    let at_home = Environment { project: environment.home.clone(), ..environment.clone() };
    let facts = gather(&at_home, "0.1.0", Ok(host));
    assert_eq!((facts.entries.len(), facts.unreadable.len()), (1, 1), "a file counts once");
    let accepted = HostFacts { may_data_be_open: true, plugins: &path("none"), ..host };
    let facts = gather(&environment, "0.1.0", Ok(accepted));
    assert_eq!(facts.plugins.map(|(_, state)| state), Some(FolderState::Missing));
    assert_eq!(facts.data.map(|(_, state)| state), Some(DataFolder::Private));
    let facts = gather(&environment, "0.1.0", Err("`listen`: expected ADDRESS:PORT".to_owned()));
    assert_eq!(facts.configuration.as_deref(), Some("`listen`: expected ADDRESS:PORT"));
}
