//! Real files and programs: modes, links, copies, and fake programs of clients.

use std::fs::{Permissions, read_to_string, symlink_metadata, write};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use toolyard_connect::{
    Action, Applied, ApplyError, Environment, Launch, Options, Plan, Server, System, apply, client, plan,
    read,
};

fn environment(home: &Path) -> Environment {
    let home = home.to_str().expect("text");
    crate::environment(System::Linux, home, &format!("{home}/work"))
}

fn options() -> Options {
    crate::options(crate::stdio())
}

fn plan_for(name: &str, environment: &Environment, options: &Options) -> Plan {
    let client = client(name).expect("a client");
    let file = client.file(environment, options.project).expect("a file");
    plan(client, environment, options, read(&file).expect("read").as_deref()).expect("a plan")
}

fn mode(path: &Path) -> u32 {
    symlink_metadata(path).expect("it exists").permissions().mode() & 0o777
}

#[test]
fn a_new_file_gets_its_folder_and_only_the_user_reads_it() {
    let home = tempfile::tempdir().expect("a folder");
    let file = home.path().join(".cursor/mcp.json");
    let plan = plan_for("cursor", &environment(home.path()), &options());
    assert!(!file.exists(), "a plan writes nothing");
    assert_eq!(apply(&plan).expect("applied"), Applied::Written { backup: None });
    assert_eq!((mode(&file), mode(file.parent().expect("a folder"))), (0o600, 0o700));
    let again = plan_for("cursor", &environment(home.path()), &options());
    assert_eq!(apply(&again).expect("applied"), Applied::Unchanged);
}

#[test]
fn a_link_stays_and_its_target_is_replaced_with_its_mode_and_copied() {
    let home = tempfile::tempdir().expect("a folder");
    let (dotfiles, folder) = (home.path().join("dotfiles"), home.path().join(".cursor"));
    let (target, link) = (dotfiles.join("cursor.json"), folder.join("mcp.json"));
    [&dotfiles, &folder].iter().for_each(|folder| std::fs::create_dir(folder).expect("made"));
    write(&target, "{}\n").expect("written");
    std::fs::set_permissions(&target, Permissions::from_mode(0o640)).expect("set");
    symlink("../dotfiles/cursor.json", &link).expect("linked");
    let backup = dotfiles.join("cursor.json.bak-toolyard");
    let plan = plan_for("cursor", &environment(home.path()), &options());
    assert_eq!(apply(&plan).expect("applied"), Applied::Written { backup: Some(backup.clone()) });
    assert!(symlink_metadata(&link).expect("a link").is_symlink());
    assert!(read_to_string(&target).expect("text").contains("/bin/toolyard"));
    assert_eq!(read_to_string(&backup).expect("text"), "{}\n");
    assert_eq!((mode(&target), mode(&backup)), (0o640, 0o640));
    let names = std::fs::read_dir(&dotfiles).expect("a folder").count();
    assert_eq!(names, 2, "no temporary file stays");
}

#[test]
fn files_that_are_no_files_or_changed_meanwhile_stay() {
    let home = tempfile::tempdir().expect("a folder");
    let file = home.path().join(".cursor/mcp.json");
    std::fs::create_dir_all(&file).expect("made");
    assert!(matches!(read(&file), Err(ApplyError::Read { .. })), "a folder");
    std::fs::remove_dir(&file).expect("removed");
    symlink("nowhere", &file).expect("linked");
    assert!(matches!(read(&file), Err(ApplyError::Read { .. })), "a link that leads nowhere");
    std::fs::remove_file(&file).expect("removed");
    write(&file, "{}").expect("written");
    let plan = plan_for("cursor", &environment(home.path()), &options());
    write(&file, "{ }").expect("written");
    assert!(matches!(apply(&plan), Err(ApplyError::Changed(_))));
    assert_eq!(read_to_string(&file).expect("text"), "{ }");
}

#[test]
fn the_clients_own_program_gets_the_entry_and_its_failure_is_shown() {
    let _programs = crate::programs();
    let home = tempfile::tempdir().expect("a folder");
    let program = home.path().join("claude");
    let seen = home.path().join("seen");
    crate::write_program(&program, &format!("printf '%s\\n' \"$@\" > '{}'", seen.display()));
    let path = |name: &str| (name == "PATH").then(|| home.path().into());
    let environment = Environment::find(path, home.path(), home.path()).expect("an environment");
    assert_eq!(environment.programs.get("claude"), Some(&program));
    let plan = plan_for("claude-code", &environment, &options());
    assert!(matches!(plan.action, Action::Run(_)), "{plan:?}");
    assert_eq!(apply(&plan).expect("applied"), Applied::Ran);
    let json = r#"{"args":["stdio"],"command":"/bin/toolyard","type":"stdio"}"#;
    let arguments = format!("mcp\nadd-json\ntoolyard\n{json}\n--scope\nuser\n");
    assert_eq!(read_to_string(&seen).expect("text"), arguments);
    assert!(!home.path().join(".claude.json").exists(), "the program alone writes");
    crate::write_program(&program, "echo 'the name is taken' >&2; exit 1");
    let failure = apply(&plan).expect_err("failed").to_string();
    assert!(failure.contains("the name is taken") && failure.contains("mcp add-json"), "{failure}");
}

#[test]
fn the_program_is_named_as_on_the_path_if_that_is_the_same() {
    let home = tempfile::tempdir().expect("a folder");
    let (bin, cellar) = (home.path().join("bin"), home.path().join("0.1.0"));
    [&bin, &cellar].iter().for_each(|folder| std::fs::create_dir(folder).expect("made"));
    let own = cellar.join("toolyard");
    crate::write_program(&own, "");
    symlink(&own, bin.join("toolyard")).expect("linked");
    let path = |name: &str| (name == "PATH").then(|| bin.clone().into_os_string());
    let environment = Environment::find(path, home.path(), home.path()).expect("an environment");
    assert_eq!(environment.stable_program(&own), bin.join("toolyard"));
    let other = Path::new("/bin/sh");
    assert_eq!(environment.stable_program(other), other);
}

#[test]
fn the_client_starts_the_host_with_absolute_paths_and_the_given_options() {
    let folder = tempfile::tempdir().expect("a folder");
    let shown = folder.path().to_str().expect("text");
    let set = ["tasks.ttl-default=2h".to_owned()];
    let launch = Launch {
        program: Path::new("/bin/toolyard"),
        plugins: folder.path(),
        config: Some(Path::new("toolyard.toml")),
        data: None,
        store: Some("sqlite"),
        log: None,
        set: &set,
        can_detach: true,
    };
    let here = std::env::current_dir().expect("a folder").join("toolyard.toml");
    let started = |launch: Launch<'_>, system| match launch.server(system).expect("a server") {
        Server::Stdio { program, args } => format!("{program} {}", args.join(" ")),
        Server::Http { .. } => panic!("stdio"),
    };
    let rest =
        format!("--plugins {shown} --config {} --store sqlite --set tasks.ttl-default=2h", here.display());
    assert_eq!(started(launch, System::Linux), format!("/bin/toolyard stdio --detach {rest}"));
    assert_eq!(started(launch, System::Windows), format!("/bin/toolyard stdio {rest}"));
    let alone = Launch { can_detach: false, ..launch };
    // A program in the cache of a runner is started by the runner.
    let npx = "/home/u/.npm/_npx/1f2a/node_modules/@toolyard/linux-x64/bin/toolyard";
    let uvx = "/home/u/.cache/uv/archive-v0/x1/lib/python3.12/site-packages/toolyard/toolyard";
    for (program, first) in
        [("/bin/toolyard", "/bin/toolyard"), (npx, "npx -y toolyard"), (uvx, "uvx toolyard")]
    {
        let started = started(Launch { program: Path::new(program), ..alone }, System::Linux);
        assert_eq!(started, format!("{first} stdio {rest}"));
    }
    let missing = folder.path().join("missing");
    for (launch, expected) in [
        (Launch { plugins: &missing, ..launch }, "does not exist"),
        (Launch { store: Some("postgres://a:secret@host/db"), ..launch }, "password"),
    ] {
        let refusal = launch.server(System::Linux).expect_err("refused");
        assert!(refusal.is_usage() && refusal.to_string().contains(expected), "{refusal}");
        assert!(!refusal.to_string().contains("secret"), "{refusal}");
    }
}
