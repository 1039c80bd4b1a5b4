//! Third-party components from packages of public registries (`tests/published/packages`). They are
//! unmodified, and their functions are tools that answer.

use crate::command_line::out;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Value, json};
use std::path::PathBuf;
use toolyard_tests::{Session, Setup, guests, schema};

/// The component, if its package was fetched. The package is optional on a developer's machine and required
/// in CI.
fn component(name: &str) -> Option<PathBuf> {
    let path = guests::root().join(format!("target/published/{name}.wasm"));
    let is_there = path.exists();
    if !is_there {
        schema::skipped(&format!("the published component {name} is not there: run `make published`"));
    }
    is_there.then_some(path)
}

/// Calls a tool; its result matches the tool's output schema.
async fn call(session: &Session, name: &str, arguments: Value) -> Value {
    let result = session.call(name, arguments).await;
    assert_eq!(result["isError"], false, "{name}: {result}");
    let listed = session.result("tools/list", json!({})).await;
    let mut tools = listed["tools"].as_array().expect("tools").iter();
    let tool = tools.find(|tool| tool["name"] == name).expect("listed");
    assert!(jsonschema::is_valid(&tool["outputSchema"], &result["structuredContent"]), "TL-5: {result}");
    result["structuredContent"].clone()
}

#[tokio::test]
#[ignore = "nightly: packages"]
async fn a_component_that_imports_an_interface_of_types_alone_answers_calls_and_runs_as_a_task() {
    let Some(node) = component("node-0-6") else { return };
    let (_host, session) = Setup::new().with(&[node]).open().await;
    assert_eq!(session.tool_names().await, ["node_describe", "node_invoke"]);
    let described = call(&session, "node_describe", json!({})).await;
    assert_eq!((&described["name"], &described["version"]), (&json!("contract-fixture"), &json!("0.1.0")));
    assert_eq!(described["ops"][0]["output"]["content-type"], "application/cbor");
    let context = json!({"tenant-id": "a", "env-id": "dev", "trace-id": "t", "correlation-id": "c",
        "deadline-ms": 1, "attempt": 1, "i18n-id": "en"});
    // A map of `input` to `hello`, in CBOR.
    let payload = BASE64.encode(b"\xa1\x65input\x65hello");
    let arguments = json!({"op": "handle_message", "envelope": {
        "ctx": context, "flow-id": "f", "step-id": "s", "component-id": "c", "attempt": 1, "payload-cbor": payload,
    }});
    let says = "contract-fixture::handle_message => hello";
    let check = |answer: &Value| {
        assert_eq!(answer["ok"], true, "{answer}");
        let output = BASE64.decode(answer["output-cbor"].as_str().expect("a text")).expect("which is base64");
        assert!(output.ends_with(says.as_bytes()), "{answer}");
    };
    check(&call(&session, "node_invoke", arguments.clone()).await);
    let id = session.complete("node_invoke", arguments).await;
    check(&session.result("tasks/result", json!({"taskId": id})).await["structuredContent"]);
}

/// Both export the same interface, so the minimal manifest is a prefix for each. Methods of their resources
/// are not tools.
#[tokio::test]
#[ignore = "nightly: packages"]
async fn components_of_two_python_packages_answer_calls_side_by_side() {
    let (Some(zlib), Some(round)) = (component("zlib"), component("round")) else { return };
    let setup = Setup::new().with(&[zlib, round]);
    let setup = setup.manifest("zlib", "prefix = \"zlib\"").manifest("round", "prefix = \"round\"");
    let (host, session) = setup.open().await;
    let names = ["codec-config-schema", "codec-id"];
    let of = |prefix: &str| names.map(|name| format!("{prefix}_codec_{name}"));
    assert_eq!(session.tool_names().await, [of("round"), of("zlib")].concat());
    for (prefix, id, title, parameter) in
        [("zlib", "zlib.rs", "ZlibCodec", "level"), ("round", "round.rs", "RoundCodec", "precision")]
    {
        assert_eq!(call(&session, &format!("{prefix}_codec_codec-id"), json!({})).await["result"], id);
        let said = call(&session, &format!("{prefix}_codec_codec-config-schema"), json!({})).await;
        let schema: Value = serde_json::from_str(said["result"].as_str().expect("a text")).expect("JSON");
        assert_eq!(schema["title"], title);
        assert_eq!(schema["required"], json!([parameter]));
    }
    let said = out(&host.command(&["check", "plugins/zlib.wasm"]).await);
    assert!(said.contains("[method]codec.encode: it belongs to a resource"), "{said}");
}

/// Only a separate program has fail points: the shipped one has no trace of them.
#[test]
#[ignore = "nightly: packages"]
fn what_is_shipped_has_no_fail_points() {
    let holds = |program: std::path::PathBuf, name: &str| {
        let bytes = std::fs::read(program).expect("a program");
        bytes.windows(name.len()).any(|window| window == name.as_bytes())
    };
    for name in ["TOOLYARD_FAILPOINT", "drain.begun", "there is no fail point"] {
        assert!(holds(guests::binary_with_fail_points(), name), "{name}: this is how they look");
        assert!(!holds(guests::binary(), name), "{name}");
    }
}
