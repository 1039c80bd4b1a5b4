//! The plugin for the official conformance suites returns exactly the results that they expect.

use crate::kit::{Recorder, call, engine, error, ok, only, read, retrieve, run, settings, tool};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use toolyard_task::provider::{ProviderAnswer, Retrieval};
use toolyard_task::tool::{CallInfo, OfferChange, Report};
use toolyard_task::wire::{LogLevel, RawJson, TaskSupport};
use toolyard_task::{Catalog, RunEnd};

async fn conformance() -> Arc<Catalog> {
    only(&engine(&settings()), "conformance", "").await
}

async fn content(catalog: &Catalog, name: &str) -> Value {
    match call(catalog, name, "{}").await {
        RunEnd::Result { is_error: false, result, .. } => {
            result.decode::<Value>().expect("JSON")["content"].clone()
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn tools_that_answer_by_themselves() {
    let catalog = conformance().await;
    for tool in catalog.tools() {
        let spec = tool.spec();
        let support = match spec.name() {
            "failing_job" | "protocol_error_job" => TaskSupport::Required,
            "slow_compute" | "confirm_delete" | "multi_input" | "test_tool_with_task" => {
                TaskSupport::Optional
            }
            _ => TaskSupport::Forbidden,
        };
        assert_eq!(spec.task_support, support, "{}", spec.name());
        assert!(spec.description.description.is_some() && spec.name().len() <= 64);
    }
    assert_eq!(catalog.len(), 35);
    assert_eq!(ok(&call(&catalog, "greet", r#"{"name":"World"}"#).await), "Hello, World!");
    let text = ok(&call(&catalog, "test_simple_text", "{}").await);
    assert_eq!(text, "This is a simple text response for testing.");
    let text = error(&call(&catalog, "test_error_handling", "{}").await);
    assert_eq!(text, "This tool intentionally returns an error for testing");
    assert_eq!(content(&catalog, "test_image_content").await[0]["mimeType"], "image/png");
    assert_eq!(content(&catalog, "test_audio_content").await[0]["mimeType"], "audio/wav");
    assert_eq!(
        content(&catalog, "test_embedded_resource").await,
        json!([{"type": "resource", "resource": {"uri": "test://embedded-resource", "mimeType": "text/plain",
            "text": "This is an embedded resource content."}}])
    );
    let mixed = content(&catalog, "test_multiple_content_types").await;
    assert_eq!(mixed[0]["text"], "Multiple content types test:");
    assert_eq!(mixed[1]["type"], "image");
    assert_eq!(mixed[2]["resource"]["text"], "{\"test\":\"data\",\"value\":123}");
    let schema = &tool(&catalog, "json_schema_2020_12_tool").spec().description.input_schema.clone();
    for word in ["$schema", "$defs", "$anchor", "$ref", "allOf", "anyOf", "\"if\"", "then", "else"] {
        assert!(schema.as_str().contains(word), "{word}");
    }
}

#[tokio::test]
async fn tools_that_report() {
    let catalog = conformance().await;
    let reports = async |name: &str| {
        let recorder = Arc::new(Recorder::default());
        ok(&run(tool(&catalog, name), "{}", recorder.clone()).await);
        std::mem::take(&mut *recorder.reports.lock().expect("free"))
    };
    let reached: Vec<(f64, Option<f64>)> = reports("test_tool_with_progress")
        .await
        .into_iter()
        .map(|report| match report {
            Report::Progress(progress) => (progress.progress, progress.total),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(reached, [(0.0, Some(100.0)), (50.0, Some(100.0)), (100.0, Some(100.0))]);
    let logged: Vec<String> = reports("test_tool_with_logging")
        .await
        .into_iter()
        .map(|report| match report {
            Report::Log { level: LogLevel::Info, data, .. } => data.decode().expect("text"),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(logged, ["Tool execution started", "Tool processing data", "Tool execution completed"]);
    assert!(matches!(reports("test_reconnection").await[..], [Report::ReleaseStream { .. }]));
    assert!(matches!(reports("test_logging_tool").await[..], [Report::Log { .. }]));
    assert_eq!(reports("test_trigger_tool_change").await, [Report::Changed(OfferChange::Tools)]);
    assert_eq!(reports("test_trigger_prompt_change").await, [Report::Changed(OfferChange::Prompts)]);
}

#[tokio::test]
async fn tools_that_ask() {
    let catalog = conformance().await;
    let answered = async |name: &str, arguments: &str, answer: Value| {
        let recorder = Arc::new(Recorder { answer: Some(answer.to_string()), ..Recorder::default() });
        let said = ok(&run(tool(&catalog, name), arguments, recorder.clone()).await);
        let asked = recorder.asked.lock().expect("free").remove(0);
        (said, asked.method, asked.params.decode::<Value>().expect("JSON"))
    };
    let answer = json!({"role": "assistant", "model": "m", "content": {"type": "text", "text": "hi"}});
    let (said, method, params) = answered("test_sampling", "{\"prompt\":\"p\"}", answer).await;
    assert_eq!((said.as_str(), method.as_str()), ("LLM response: hi", "sampling/createMessage"));
    assert_eq!((&params["maxTokens"], &params["messages"][0]["content"]["text"]), (&json!(100), &json!("p")));

    let answer = json!({"action": "accept", "content": {"username": "u", "email": "e"}});
    let (said, method, params) = answered("test_elicitation", "{\"message\":\"m\"}", answer).await;
    assert!(said.starts_with("User response: action=accept, content={"), "{said}");
    assert_eq!((method.as_str(), &params["message"]), ("elicitation/create", &json!("m")));
    assert_eq!(params["requestedSchema"]["required"], json!(["username", "email"]));

    let decline = || json!({"action": "decline"});
    let (said, _, params) = answered("test_elicitation_sep1034_defaults", "{}", decline()).await;
    assert_eq!(said, "Elicitation completed: action=decline, content={}");
    let properties = &params["requestedSchema"]["properties"];
    let defaults =
        ["name", "age", "score", "status", "verified"].map(|name| properties[name]["default"].clone());
    assert_eq!(json!(defaults), json!(["John Doe", 30, 95.5, "active", true]));

    let answer = json!({"action": "accept", "content": {"untitledSingle": "option1", "titledSingle": "value1",
        "legacyEnum": "opt1", "untitledMulti": ["option1"], "titledMulti": ["value1", "value2"]}});
    let (said, _, params) = answered("test_elicitation_sep1330_enums", "{}", answer).await;
    assert!(said.contains("action=accept"), "E-2, E-3: all five kinds of choice fit: {said}");
    assert_eq!(params["requestedSchema"]["properties"].as_object().map(serde_json::Map::len), Some(5));

    let said = error(&call(&catalog, "test_sampling", "{\"prompt\":\"p\"}").await);
    assert!(said.contains("not supported by this client"), "{said}");
}

/// A client that declares all these capabilities and answers every question with `answer`.
fn client(capabilities: &Value, answer: &Value) -> Arc<Recorder> {
    let info = CallInfo {
        task: None,
        attempt: 1,
        deadline: None,
        client_capabilities: RawJson::of(capabilities),
        trace: None,
    };
    Arc::new(Recorder {
        answer: Some(answer.to_string()),
        info: Some(info),
        tells_missing: true,
        ..Recorder::default()
    })
}

fn keys(client: &Recorder) -> Vec<String> {
    client.asked.lock().expect("free").iter().map(|asked| asked.key.clone()).collect()
}

#[tokio::test]
async fn _26m_4_tools_that_ask_under_the_keys_of_the_suite() {
    let catalog = conformance().await;
    let accepted = json!({"action": "accept", "content": {"name": "Ada", "ok": true, "color": "blue"}});
    let sampled = json!({"role": "assistant", "model": "m", "content": {"type": "text", "text": "Paris"}});
    let listed = json!({"roots": [{"uri": "file:///test/root"}]});
    for (name, answer, asked, says) in [
        ("test_input_required_result_elicitation", &accepted, &["user_name"][..], "Hello, Ada!"),
        ("test_input_required_result_sampling", &sampled, &["capital_question"], "Paris"),
        ("test_input_required_result_list_roots", &listed, &["client_roots"], "file:///test/root"),
        ("test_input_required_result_request_state", &accepted, &["confirm"], "state-ok"),
        ("test_input_required_result_tampered_state", &accepted, &["confirm"], "true"),
        ("test_input_required_result_multi_round", &accepted, &["step1", "step2"], "Ada likes blue"),
        ("test_streaming_elicitation", &accepted, &["user_name"], "Hello, Ada!"),
        (
            "confirm_delete",
            &json!({"action": "accept", "content": {"confirm": true}}),
            &["confirm"],
            "deleted",
        ),
        ("multi_input", &accepted, &["first", "second"], "Ada and Ada"),
    ] {
        let client = client(&json!({}), answer);
        let arguments = if name == "confirm_delete" { r#"{"filename":"f"}"# } else { "{}" };
        let said = ok(&run(tool(&catalog, name), arguments, client.clone()).await);
        assert!(said.contains(says), "{name}: {said}");
        assert_eq!(keys(&client), asked, "{name}");
    }
    // 26M-3: only the capabilities that the client declares.
    let name = "test_input_required_result_capabilities";
    let model = client(&json!({"sampling": {}}), &sampled);
    ok(&run(tool(&catalog, name), "{}", model.clone()).await);
    assert_eq!(keys(&model), ["greeting"]);
}

#[tokio::test]
async fn _26r_4_tools_that_need_what_a_client_may_lack() {
    let catalog = conformance().await;
    let accepted = json!({"action": "accept", "content": {"name": "Ada"}});
    let required =
        async |name: &str, client: Arc<Recorder>| match run(tool(&catalog, name), "{}", client).await {
            RunEnd::Error(error) => {
                let data: Value = error.data.expect("data").decode().expect("JSON");
                (error.code, data["requiredCapabilities"].clone())
            }
            other => panic!("{name}: {other:?}"),
        };
    let nothing = || client(&json!({}), &accepted);
    assert_eq!(required("test_missing_capability", nothing()).await, (-32021, json!({"sampling": {}})));
    ok(&run(tool(&catalog, "test_missing_capability"), "{}", client(&json!({"sampling": {}}), &accepted))
        .await);
    let mute = || Arc::new(Recorder { tells_missing: true, ..Recorder::default() });
    let form = json!({"elicitation": {"form": {}}});
    assert_eq!(required("test_input_required_result_elicitation", mute()).await, (-32021, form));
    let all = json!({"elicitation": {"form": {}}, "roots": {}, "sampling": {}});
    assert_eq!(required("test_input_required_result_multiple_inputs", mute()).await, (-32021, all));

    // 26T-4: the tool needs the extension, and does not ask without it.
    let tasks = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
    let without = nothing();
    assert_eq!(required("test_tool_with_task", without.clone()).await, (-32021, tasks.clone()));
    assert_eq!(keys(&without), [""; 0]);
    // The tool asks during the plain call and then begins a task. This client's call did not become
    // a task.
    let with = client(&tasks, &accepted);
    assert_eq!(required("test_tool_with_task", with.clone()).await, (-32021, tasks));
    assert_eq!(keys(&with), ["user_name"]);
    assert!(with.begun.load(Ordering::SeqCst));
}

#[tokio::test]
async fn _26t_3_jobs_say_themselves_that_they_take_long() {
    let catalog = conformance().await;
    for (arguments, begins) in [(r#"{"seconds":0,"label":"l"}"#, false), (r#"{"seconds":0.001}"#, true)] {
        let client = Arc::new(Recorder::default());
        ok(&run(tool(&catalog, "slow_compute"), arguments, client.clone()).await);
        assert_eq!(client.begun.load(Ordering::SeqCst), begins, "{arguments}");
    }
    assert!(error(&call(&catalog, "failing_job", "{}").await).contains("always"));
    match call(&catalog, "protocol_error_job", "{}").await {
        RunEnd::Error(error) => assert_eq!(error.code, -32603),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn resources_and_prompts() {
    let catalog = conformance().await;
    for (uri, expected) in [
        ("test://static-text", "This is the content of the static text resource."),
        ("test://template/123/data", r#"{"id":"123","templateTest":true,"data":"Data for ID: 123"}"#),
    ] {
        match retrieve(&catalog, read(uri)).await {
            ProviderAnswer::Contents(Some(contents)) => {
                assert_eq!(contents.decode::<Value>().expect("JSON")["contents"][0]["text"], expected);
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(retrieve(&catalog, read("test://nonexistent")).await, ProviderAnswer::Contents(None));
    for (name, arguments, texts) in [
        ("test_simple_prompt", "{}", vec!["This is a simple prompt for testing."]),
        (
            "test_prompt_with_arguments",
            r#"{"arg1":"hello","arg2":"world"}"#,
            vec!["Prompt with arguments: arg1='hello', arg2='world'"],
        ),
        (
            "test_prompt_with_embedded_resource",
            r#"{"resourceUri":"test://x"}"#,
            vec!["Embedded resource content for testing.", "Please process the embedded resource above."],
        ),
    ] {
        let request = Retrieval::Prompt { name: name.to_owned(), arguments: RawJson::trusted(arguments) };
        let ProviderAnswer::Prompt(result) = retrieve(&catalog, request).await else { panic!("{name}") };
        let result: Value = result.decode().expect("JSON");
        let said: Vec<&str> = result["messages"]
            .as_array()
            .expect("messages")
            .iter()
            .map(|message| &message["content"])
            .filter_map(|content| content["text"].as_str().or_else(|| content["resource"]["text"].as_str()))
            .collect();
        assert_eq!(said, texts, "{name}");
    }
    assert_eq!(catalog.prompts().count(), 5);
}
