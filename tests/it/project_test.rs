//! `toolyard build` and `toolyard test`: build a project, and run its cases against the result. `toolyard wit` writes
//! the contract.

use crate::command_line::out;
use toolyard_tests::{Project, ends, guests, succeeds};

const GOOD: &str = r#"
tool = "ask"
description = "asks for a name"
[arguments]
question = "who?"
[answers.answer]
action = "accept"
content = { answer = "Ada" }
[expect]
text = "Ada"
"#;

fn with_cases(cases: &[(&str, &str)]) -> Project {
    let project = Project::of(&guests::plugin("probe"));
    for (name, text) in cases {
        project.write(&format!("cases/{name}.case.toml"), text);
    }
    project
}

#[tokio::test]
async fn build_makes_the_component_and_says_what_it_offers() {
    let project = Project::of(&guests::plugin("probe"));
    let said = succeeds(&project.run(&["build"]).await);
    assert!(said.starts_with("plugin/sample.wasm (") && said.contains("echo"), "{said}");
    assert_eq!(said.lines().count(), 1);
    assert!(project.at("plugin/sample.wasm").is_file());
    project.builds_by("echo no semicolon; exit 3");
    let said = ends(&project.run(&["build"]).await, 1, "no semicolon");
    assert!(said.contains("exit status: 3"), "{said}");
    project.builds_by("echo no component > made.wasm");
    ends(&project.run(&["build"]).await, 1, "plugin/sample.wasm is not a plugin");
}

#[tokio::test]
async fn cases_pass_plainly_and_as_tasks() {
    let plain = "tool = 'count'\narguments = {steps = 30, ms = 0}\n[expect]\nprogress = 30\ntext-contains = 'counted'";
    let task = GOOD.replace("[arguments]", "task = true\n[arguments]");
    let error =
        "tool = 'protocol_error'\narguments = {code = -5, message = 'odd'}\n[expect]\nerror = {code = -5}";
    let misfit = "tool = 'count'\n[expect]\nis-error = true\ntext-contains = 'steps'";
    let unknown = "tool = 'nothing'\n[expect]\nerror = {code = -32602, message-contains = 'nothing'}";
    let project = with_cases(&[("plain", plain), ("asks", GOOD), ("deep/task", &task), ("error", error)]);
    project.write("cases/misfit.case.toml", misfit);
    project.write("cases/unknown.case.toml", unknown);
    for jobs in ["1", "4"] {
        let text = succeeds(&project.run(&["test", "--jobs", jobs]).await);
        let names: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("ok")).collect();
        assert_eq!(names.len(), 6, "{text}");
        assert!(names[0].contains("cases/asks"), "sorted: {text}");
        assert!(text.contains("6 passed, 0 failed"), "{text}");
    }
    let some = succeeds(&project.run(&["test", ".", "task", "plain"]).await);
    assert!(some.contains("2 passed"), "{some}");
}

#[tokio::test]
async fn update_writes_what_came_where_a_case_fails() {
    let wrong =
        GOOD.replace("text = \"Ada\"", "text = \"Eve\" # why").replace("[arguments]", "# kept\n[arguments]");
    let project = with_cases(&[("good", GOOD), ("wrong", &wrong)]);
    let updated = succeeds(&project.run(&["test", "--update"]).await);
    assert!(updated.contains("updated cases/wrong"), "{updated}");
    assert_eq!(project.read("cases/good.case.toml"), GOOD, "what passes is left alone");
    let text = project.read("cases/wrong.case.toml");
    assert!(text.contains("# kept") && text.contains("text = \"Ada\""), "{text}");
    succeeds(&project.run(&["test"]).await);
}

#[tokio::test]
async fn what_cannot_be_run_is_wrong_usage_and_a_refused_plugin_a_failure() {
    let project = with_cases(&[("good", GOOD), ("broken", "tool = 'ask'\n[expcet]\ntext = 'a'")]);
    let broken = ends(&project.run(&["test"]).await, 2, "unknown key `expcet`; did you mean `expect`?");
    assert!(broken.contains("cases/broken.case.toml"), "{broken}");
    ends(&project.run(&["test", ".", "no such case"]).await, 2, "no such case");
    ends(&project.run(&["test", "nowhere"]).await, 2, "");
    project.write("plugin/sample.toml", "[limits]\nmemroy = \"1MiB\"");
    let refused = project.run(&["test", ".", "good"]).await;
    ends(&refused, 1, "");
    let said = out(&refused);
    assert!(said.contains("sample.wasm is not loaded") && said.contains("memory"), "{said}");
}

#[tokio::test]
async fn a_plugin_folder_is_tested_as_it_is_and_a_project_as_it_was_built() {
    let project = with_cases(&[("good", GOOD)]);
    // There is nothing yet.
    ends(&project.run(&["test", "--no-build"]).await, 1, "");
    project.run(&["build"]).await;
    project.builds_by("false");
    // What cannot be built is not tested.
    ends(&project.run(&["test"]).await, 1, "");
    succeeds(&project.run(&["test", "--no-build"]).await);
    std::fs::copy(project.at("cases/good.case.toml"), project.at("plugin/good.case.toml")).expect("copied");
    succeeds(&project.run(&["test", "plugin"]).await);
}

#[tokio::test]
async fn the_contract_is_written_and_nothing_else_written_over() {
    let project = Project::of(&guests::fixture("stdout"));
    for _ in 0..2 {
        succeeds(&project.run(&["wit", "wit"]).await);
    }
    for name in ["host.wit", "worlds.wit"] {
        let ours = std::fs::read_to_string(guests::root().join("wit").join(name)).expect("the contract");
        assert_eq!(project.read(&format!("wit/{name}")), ours, "{name}");
    }
    project.write("wit/host.wit", "mine");
    ends(&project.run(&["wit", "wit"]).await, 2, "host.wit");
    succeeds(&project.run(&["wit", "wit", "--force"]).await);
    succeeds(&project.run(&["wit", "gen", "--lang", "c"]).await);
    let header = project.read("gen/tools_wasi_plugin.h");
    assert!(header.contains("exports_toolyard_plugin_tools_call"), "{header}");
}
