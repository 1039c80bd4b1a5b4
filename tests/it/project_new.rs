//! `toolyard new` and `toolyard wit`: the files that they write, and that they never overwrite a file.

use crate::command_line::err;
use std::path::Path;
use std::process::Output;
use toolyard_tests::guests;

async fn run(folder: &Path, args: &[&str]) -> Output {
    let mut command = tokio::process::Command::new(guests::binary());
    command.args(args).current_dir(folder).output().await.expect("the command runs")
}

#[tokio::test]
async fn the_contract_is_written_and_nothing_else_written_over() {
    let folder = tempfile::tempdir().expect("a folder");
    for _ in 0..2 {
        assert_eq!(run(folder.path(), &["wit", "wit"]).await.status.code(), Some(0));
    }
    for name in ["host.wit", "worlds.wit"] {
        let ours = std::fs::read(guests::root().join("wit").join(name)).expect("the contract");
        assert_eq!(std::fs::read(folder.path().join("wit").join(name)).expect("written"), ours, "{name}");
    }
    std::fs::write(folder.path().join("wit/host.wit"), "mine").expect("written");
    let refused = run(folder.path(), &["wit", "wit"]).await;
    assert!(refused.status.code() == Some(2) && err(&refused).contains("host.wit"), "{}", err(&refused));
    assert_eq!(run(folder.path(), &["wit", "wit", "--force"]).await.status.code(), Some(0));
    assert_eq!(run(folder.path(), &["wit", "gen", "--lang", "c"]).await.status.code(), Some(0));
    let header = std::fs::read_to_string(folder.path().join("gen/tools_wasi_plugin.h")).expect("a header");
    assert!(header.contains("exports_toolyard_plugin_tools_call"), "{header}");
}
