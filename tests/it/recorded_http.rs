//! HTTP exchanges in cases: `toolyard call --record` writes them, and `toolyard test` answers from them without
//! the network.

use crate::command_line::{err, out};
use serde_json::{Value, json};
use std::process::Output;
use toolyard_tests::{Project, Site, guests};

/// As long as the mark that replaces it, because the guest shows the length of an answer that has it.
const SECRET: &str = "s-3cr3t-enough-1";

/// A project of `net_try` that may reach this site.
fn project(site: &Site) -> Project {
    let project = Project::of(&guests::fixture("net_try"));
    let host = format!("localhost:{}", site.port());
    project.write(
        "plugin/sample.toml",
        &format!(
            "[http]\nallow = [\"{host}\"]\n[http.inject.\"{host}\"]\nauthorization = \"Bearer {{API_KEY}}\"\n\
             [secrets]\nAPI_KEY = {{ env = \"RECORDED_HTTP_KEY\" }}\n"
        ),
    );
    std::fs::create_dir_all(project.at("cases")).expect("a folder");
    project
}

/// Records a call of `request` as the case of this name.
async fn record(project: &Project, name: &str, order: &Value, more: &[&str]) -> Output {
    let (order, file) = (order.to_string(), format!("cases/{name}.case.toml"));
    let args = ["call", "request", &order, "--plugins", "plugin", "--record", &file];
    let mut command = project.command(&[&args[..], more].concat());
    command.env("RECORDED_HTTP_KEY", SECRET).output().await.expect("the command runs")
}

/// The project as it was built, tested without the secret.
async fn tested(project: &Project, more: &[&str]) -> (Option<i32>, Value, String) {
    let tested = project.run(&[&["test", "--no-build", "--json"][..], more].concat()).await;
    let report = serde_json::from_str(&out(&tested)).unwrap_or_default();
    (tested.status.code(), report, err(&tested))
}

/// The mismatches of the only case that failed.
fn why(report: &Value) -> Value {
    let cases = report["cases"].as_array().expect("cases");
    let failed: Vec<&Value> = cases.iter().filter(|case| case["ok"] == false).collect();
    assert_eq!(failed.len(), 1, "{report:#}");
    failed[0]["why"].clone()
}

#[tokio::test]
async fn a_recorded_call_passes_without_its_server_and_fails_if_the_answer_is_another() {
    let site = Site::start().await;
    let project = project(&site);
    project.run(&["build"]).await;
    let post = json!({"method": "POST", "url": site.url("/echo"), "body": "{\"n\":1}"});
    for (name, order, more) in [
        ("json", json!({"url": site.url("/json")}), &[][..]),
        ("twice", json!({"url": site.url("/binary"), "times": 2}), &["--task"]),
        ("post", post, &[]),
    ] {
        let recorded = record(&project, name, &order, more).await;
        assert_eq!(recorded.status.code(), Some(0), "{}{}", out(&recorded), err(&recorded));
    }
    let seen = site.seen();
    assert!(seen.len() == 4 && seen.iter().all(|head| head.contains(SECRET)), "{seen:?}");
    site.stop().await;
    let text = project.read("cases/json.case.toml");
    assert!(text.contains("[[http]]") && text.contains("a = ["), "{text}");
    assert!(text.contains(&format!("request = \"GET {}\"", site.url("/json"))), "{text}");
    let twice = project.read("cases/twice.case.toml");
    assert_eq!(twice.matches("body-base64 = \"AP8A\"").count(), 2, "{twice}");
    let posted = project.read("cases/post.case.toml");
    assert!(posted.contains("[http.request-json]") && posted.contains("[secret API_KEY]"), "{posted}");
    assert!(!posted.contains(SECRET), "{posted}");
    for jobs in ["1", "3"] {
        let (code, report, said) = tested(&project, &["--jobs", jobs]).await;
        assert_eq!((code, &report["passed"]), (Some(0), &json!(3)), "{report:#}{said}");
    }
    let changed = text.replace("2,", "3,");
    assert_ne!(text, changed);
    project.write("cases/json.case.toml", &changed);
    let (code, report, _) = tested(&project, &[]).await;
    assert_eq!(code, Some(1));
    let why = why(&report);
    let (expected, actual) = (why[0]["expected"].as_str(), why[0]["actual"].as_str());
    assert_eq!(why[0]["key"], "text", "{why}");
    assert!(expected.is_some_and(|text| text.contains("[1,2]")), "{why}");
    assert!(actual.is_some_and(|text| text.contains("[1,3]")), "{why}");
}

#[tokio::test]
async fn a_test_has_no_network_unless_it_is_given() {
    let site = Site::start().await;
    let project = project(&site);
    project.run(&["build"]).await;
    let url = site.url("/json");
    let case =
        format!("tool = \"request\"\narguments = {{ url = \"{url}\" }}\n[expect]\ntext-contains = \"\"\n");
    project.write("cases/missing.case.toml", &case);
    let (code, report, said) = tested(&project, &[]).await;
    assert_eq!(code, Some(1), "{said}");
    let missing = why(&report);
    let what = missing[0]["what"].as_str().expect("a sentence");
    assert_eq!((missing.as_array().map(Vec::len), &missing[0]["key"]), (Some(1), &json!("http")));
    assert!(what.contains(&format!("GET {url}")) && what.contains("call request … --record"), "{what}");
    let (code, report, said) = tested(&project, &["--network"]).await;
    assert_eq!((code, site.seen().len()), (Some(0), 1), "{report:#}{said}");
}

#[tokio::test]
async fn cases_that_run_at_once_do_not_take_each_others_entries() {
    let site = Site::start().await;
    let project = project(&site);
    project.run(&["build"]).await;
    let url = site.url("/");
    for number in 0..16 {
        let task = number % 2 == 0;
        let case = format!(
            "tool = \"request\"\ntask = {task}\narguments = {{ url = \"{url}\", times = 2 }}\n\
             [[http]]\nrequest = \"GET {url}\"\nstatus = 200\nbody = \"first\"\n\
             [[http]]\nrequest = \"GET {url}\"\nstatus = 200\nbody = \"case {number} of many\"\n\
             [expect]\ntext-contains = \"case {number} of many\"\n"
        );
        project.write(&format!("cases/{number}.case.toml"), &case);
    }
    let (code, report, said) = tested(&project, &["--jobs", "16"]).await;
    assert_eq!((code, &report["passed"]), (Some(0), &json!(16)), "{report:#}{said}");
    assert_eq!(site.seen(), [""; 0]);
}
