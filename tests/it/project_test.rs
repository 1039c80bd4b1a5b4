//! `toolyard build` and `toolyard test`: build a project, and run its cases against the result.

use crate::command_line::{err, out};
use toolyard_tests::{Project, guests};

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
    let built = project.run(&["build"]).await;
    assert_eq!(built.status.code(), Some(0), "{}", err(&built));
    let said = out(&built);
    assert!(said.starts_with("plugin/sample.wasm (") && said.contains("echo"), "{said}");
    assert_eq!(said.lines().count(), 1);
    assert!(project.at("plugin/sample.wasm").is_file());
    project.builds_by("echo no semicolon; exit 3");
    let failed = project.run(&["build"]).await;
    assert_eq!(failed.status.code(), Some(1));
    let said = err(&failed);
    assert!(said.contains("no semicolon") && said.contains("exit status: 3"), "{said}");
    project.builds_by("echo no component > made.wasm");
    let refused = project.run(&["build"]).await;
    assert_eq!(refused.status.code(), Some(1));
    assert!(err(&refused).contains("plugin/sample.wasm is not a plugin"), "{}", err(&refused));
}

#[tokio::test]
async fn cases_pass_plainly_and_as_tasks() {
    let plain = "tool = 'count'\narguments = {steps = 30, ms = 0}\n[expect]\nprogress = 30\ntext-contains = 'counted'";
    let task = GOOD.replace("[arguments]", "task = true\n[arguments]");
    let error =
        "tool = 'protocol_error'\narguments = {code = -5, message = 'odd'}\n[expect]\nerror = {code = -5}";
    let misfit = "tool = 'count'\n[expect]\nis-error = true\ntext-contains = 'steps'";
    let unknown = "tool = 'nothing'\n[expect]\nerror = {code = -32602, message-contains = 'nothing'}";
    let cases = [
        ("plain", plain),
        ("asks", GOOD),
        ("deep/task", &task),
        ("error", error),
        ("misfit", misfit),
        ("unknown", unknown),
    ];
    let project = with_cases(&cases);
    for jobs in ["1", "4"] {
        let tested = project.run(&["test", "--jobs", jobs]).await;
        assert_eq!(tested.status.code(), Some(0), "{}{}", out(&tested), err(&tested));
        let text = out(&tested);
        let names: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("ok")).collect();
        assert_eq!(names.len(), 6, "{text}");
        assert!(names[0].contains("cases/asks"), "sorted: {text}");
        assert!(text.contains("6 passed, 0 failed"), "{text}");
    }
    let some = project.run(&["test", ".", "task", "plain"]).await;
    assert!(out(&some).contains("2 passed"), "{}", out(&some));
}

#[tokio::test]
async fn update_writes_what_came_where_a_case_fails() {
    let wrong =
        GOOD.replace("text = \"Ada\"", "text = \"Eve\" # why").replace("[arguments]", "# kept\n[arguments]");
    let project = with_cases(&[("good", GOOD), ("wrong", &wrong)]);
    let updated = project.run(&["test", "--update"]).await;
    assert_eq!(updated.status.code(), Some(0), "{}{}", out(&updated), err(&updated));
    assert!(out(&updated).contains("updated cases/wrong"), "{}", out(&updated));
    assert_eq!(project.read("cases/good.case.toml"), GOOD, "what passes is left alone");
    let text = project.read("cases/wrong.case.toml");
    assert!(text.contains("# kept") && text.contains("text = \"Ada\""), "{text}");
    assert_eq!(project.run(&["test"]).await.status.code(), Some(0));
}

#[tokio::test]
async fn what_cannot_be_run_is_wrong_usage_and_a_refused_plugin_a_failure() {
    let project = with_cases(&[("good", GOOD), ("broken", "tool = 'ask'\n[expcet]\ntext = 'a'")]);
    let broken = project.run(&["test"]).await;
    assert_eq!(broken.status.code(), Some(2));
    for word in ["cases/broken.case.toml", "unknown key `expcet`; did you mean `expect`?"] {
        assert!(err(&broken).contains(word), "{}", err(&broken));
    }
    let none = project.run(&["test", ".", "no such case"]).await;
    assert!(none.status.code() == Some(2) && err(&none).contains("no such case"), "{}", err(&none));
    assert_eq!(project.run(&["test", "nowhere"]).await.status.code(), Some(2));
    project.write("plugin/sample.toml", "[limits]\nmemroy = \"1MiB\"");
    let refused = project.run(&["test", ".", "good"]).await;
    assert_eq!(refused.status.code(), Some(1));
    let said = out(&refused);
    assert!(said.contains("sample.wasm is not loaded") && said.contains("memory"), "{said}");
}

#[tokio::test]
async fn a_plugin_folder_is_tested_as_it_is_and_a_project_as_it_was_built() {
    let project = with_cases(&[("good", GOOD)]);
    let unbuilt = project.run(&["test", "--no-build"]).await;
    assert_eq!(unbuilt.status.code(), Some(1), "there is nothing yet: {}", out(&unbuilt));
    project.run(&["build"]).await;
    project.builds_by("false");
    assert_eq!(project.run(&["test"]).await.status.code(), Some(1), "what cannot be built is not tested");
    assert_eq!(project.run(&["test", "--no-build"]).await.status.code(), Some(0));
    std::fs::copy(project.at("cases/good.case.toml"), project.at("plugin/good.case.toml")).expect("copied");
    let folder = project.run(&["test", "plugin"]).await;
    assert_eq!(folder.status.code(), Some(0), "{}{}", out(&folder), err(&folder));
}
