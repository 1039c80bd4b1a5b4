//! The official Rust client, which is the one that supports the tasks of 2026-07-28. It discovers, it
//! initializes, and it finds out by itself which of the two the host supports.

use crate::clients::second::setup;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, CancelTaskParams, ClientConfig,
    ElicitRequestParams, ElicitResult, ElicitationAction, ErrorData, GetTaskParams, GetTaskResult,
    InputRequest, JsonObject, ProtocolVersion, ServerNotification, SubscriptionFilter, Task, TaskPayload,
    UpdateTaskParams,
};
use rmcp::service::{
    ClientLifecycleMode, ClientServiceExt as _, RequestContext, RoleClient, RunningService, ServiceError,
};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::{ClientHandler, ServiceExt as _};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use toolyard_tests::host::install;
use toolyard_tests::tap::Proxy;
use toolyard_tests::{Host, PATIENCE, eventually, guests};

/// A person who accepts every question, and remembers the questions.
#[derive(Clone, Default)]
struct Person {
    knows_tasks: bool,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Person {
    fn who_knows_tasks() -> Self {
        Self { knows_tasks: true, ..Self::default() }
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().expect("no code panics while it holds the lock").clone()
    }

    fn answer(&self, question: &ElicitRequestParams) -> ElicitResult {
        let ElicitRequestParams::FormElicitationParams { message, requested_schema, .. } = question else {
            return ElicitResult::new(ElicitationAction::Decline);
        };
        self.asked.lock().expect("no code panics while it holds the lock").push(message.clone());
        let schema = serde_json::to_value(requested_schema).expect("a schema is JSON");
        let answer = match schema["properties"]["answer"]["type"].as_str() {
            Some("boolean") => json!(true),
            _ => json!("forty-two"),
        };
        ElicitResult::new(ElicitationAction::Accept).with_content(json!({ "answer": answer }))
    }
}

impl ClientHandler for Person {
    fn get_info(&self) -> ClientConfig {
        let mut capabilities = json!({ "elicitation": { "form": {} } });
        if self.knows_tasks {
            capabilities["extensions"] = json!({ "io.modelcontextprotocol/tasks": {} });
        }
        let info = json!({"protocolVersion": "2025-11-25", "capabilities": capabilities,
            "clientInfo": {"name": "toolyard-tests-rmcp", "version": "1"}});
        serde_json::from_value(info).expect("as the schema has it")
    }

    async fn create_elicitation(
        &self,
        question: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        Ok(self.answer(&question))
    }
}

type Client = RunningService<RoleClient, Person>;

/// A host over HTTP, with a tap in front of it.
async fn over_http() -> (Host, Proxy) {
    let host = setup().start().await;
    let proxy = Proxy::before(host.port()).await;
    (host, proxy)
}

fn call(name: &'static str, arguments: Value) -> CallToolRequestParams {
    let Value::Object(arguments) = arguments else { panic!("arguments are an object") };
    CallToolRequestParams::new(name).with_arguments(arguments)
}

fn text(result: &impl serde::Serialize) -> String {
    let result = serde_json::to_value(result).expect("a result is JSON");
    result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{result}")).to_owned()
}

/// The result of a call that the client makes with all of its automatic steps.
async fn called(client: &Client, name: &'static str, arguments: Value) -> CallToolResult {
    client.call_tool(call(name, arguments)).await.expect("a result")
}

/// The error code of a rejected request.
fn code<T: std::fmt::Debug>(outcome: Result<T, ServiceError>) -> i32 {
    match outcome {
        Err(ServiceError::McpError(error)) => error.code.0,
        other => panic!("{other:?}"),
    }
}

async fn created(client: &Client, name: &'static str, arguments: Value) -> Task {
    match client.call_tool_once(call(name, arguments)).await.expect("it is answered") {
        CallToolResponse::Task(created) => created.task,
        other => panic!("{name} is a task: {other:?}"),
    }
}

async fn get(client: &Client, id: &str) -> GetTaskResult {
    client.get_task(GetTaskParams::new(id)).await.expect("it is answered")
}

/// The task, once its status is not "working" any more.
async fn settled(client: &Client, id: &str) -> TaskPayload {
    eventually("the end of the task, or a question", || async {
        let payload = get(client, id).await.task.payload;
        (!matches!(payload, TaskPayload::Working)).then_some(payload)
    })
    .await
}

async fn completed(client: &Client, id: &str) -> JsonObject {
    match settled(client, id).await {
        TaskPayload::Completed { result } => result,
        other => panic!("it completes: {other:?}"),
    }
}

fn names(tools: &[rmcp::model::Tool]) -> Vec<&str> {
    tools.iter().map(|tool| tool.name.as_ref()).collect()
}

/// The behaviour for every client, in this revision, with tasks or without.
async fn calls_in_line(client: &Client, person: &Person, revision: &str) {
    let server = client.peer_info().expect("it has discovered or initialized");
    assert_eq!(server.protocol_version.as_str(), revision);
    assert_eq!(server.server_info.as_ref().map(|server| server.name.as_str()), Some("toolyard"), "26J-5");

    let tools = client.list_all_tools().await.expect("a list");
    assert!(names(&tools).contains(&"echo"), "{tools:?}");

    let echo = called(client, "echo", json!({ "text": "Grüße, 世界" })).await;
    assert_eq!(text(&echo), "Grüße, 世界");

    // 26M: the client answers the question of the first round trip, and calls again.
    let asked = called(client, "ask", json!({ "question": "Six times nine?" })).await;
    assert_eq!(text(&asked), "forty-two");
    assert_eq!(person.asked(), ["Six times nine?"], "it was asked once");

    let unknown = client.call_tool_once(call("no-such-tool", json!({}))).await;
    assert_eq!(code(unknown), -32602);
}

/// 26T: the steps of a client that supports tasks.
async fn tasks(client: &Client, person: &Person) {
    let task = created(client, "batch", json!({ "steps": 3, "ms": 5 })).await;
    let result = completed(client, &task.task_id).await;
    assert_eq!(text(&result), "counted 3");

    let task = created(client, "confirm", json!({ "question": "Sure?" })).await;
    let TaskPayload::InputRequired { input_requests } = settled(client, &task.task_id).await else {
        panic!("it asks")
    };
    let answers = input_requests.iter().map(|(key, request)| match request {
        InputRequest::Elicitation(question) => {
            let answer = serde_json::to_value(person.answer(&question.params)).expect("an answer is JSON");
            (key.clone(), answer)
        }
        other => panic!("{other:?}"),
    });
    let update = UpdateTaskParams::new(&task.task_id, answers.collect());
    client.update_task(update.clone()).await.expect("an acknowledgement");
    // 26T-17: the host ignores keys that no question waits for.
    client.update_task(update).await.expect("an acknowledgement");
    let result = completed(client, &task.task_id).await;
    assert_eq!(text(&result), "yes");
    assert_eq!(person.asked().last().map(String::as_str), Some("Sure?"));

    // The guest computes without pause, and its call becomes a task meanwhile.
    let task = created(client, "spin", json!({ "ms": 600_000 })).await;
    for _ in 0..2 {
        // 26T-20: also when the task has ended.
        client.cancel_task(CancelTaskParams::new(&task.task_id)).await.expect("an acknowledgement");
    }
    assert_eq!(settled(client, &task.task_id).await, TaskPayload::Cancelled);

    // 26T-13: a failure that the tool reports is a result.
    let task = created(client, "fail", json!({ "message": "out of paper" })).await;
    let result = completed(client, &task.task_id).await;
    assert_eq!((&result["isError"], text(&result).as_str()), (&json!(true), "out of paper"));

    let wrong = json!({ "code": 7, "message": "the request makes no sense" });
    let task = created(client, "protocol_error", wrong.clone()).await;
    let TaskPayload::Failed { error } = settled(client, &task.task_id).await else { panic!("it fails") };
    assert_eq!(Value::Object(error), wrong);

    let unknown = client.get_task(GetTaskParams::new("6b1f0d7e-0000-4000-8000-000000000000")).await;
    assert_eq!(code(unknown), -32602, "26T-15");
}

/// Ends a client over HTTP; the tap in front of its host found no fault.
async fn ends_clean(client: Client, proxy: &Proxy) {
    client.cancel().await.expect("it ends");
    proxy.tap().expect_clean();
}

#[tokio::test]
async fn rmcp_discovers_calls_minds_tasks_and_listens_over_http() {
    let (host, proxy) = over_http().await;
    let person = Person::who_knows_tasks();
    let transport = StreamableHttpClientTransport::from_uri(proxy.url());
    let discover = ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] };
    let client = person.clone().serve_with_lifecycle(transport, discover).await.expect("it connects");
    calls_in_line(&client, &person, "2026-07-28").await;
    assert!(client.peer_info().is_some_and(|server| server.capabilities.supports_tasks()), "26D-2");
    tasks(&client, &person).await;
    let filter = SubscriptionFilter::builder().tools_list_changed().build();
    let mut subscription = client.listen(filter.clone()).await.expect("a subscription");
    assert_eq!(subscription.acknowledged(), &filter, "26SUB-2");
    install(&guests::fixture("add"), &host.plugins());
    let heard = tokio::time::timeout(PATIENCE, subscription.next()).await.expect("a notification arrives");
    assert!(matches!(heard, Ok(Some(ServerNotification::ToolListChangedNotification(_)))), "{heard:?}");
    subscription.cancel().await.expect("it is ended");
    ends_clean(client, &proxy).await;
}

#[tokio::test]
async fn rmcp_that_does_not_know_tasks_gets_results_or_is_told_that_it_has_to() {
    let (_host, proxy) = over_http().await;
    let person = Person::default();
    let transport = StreamableHttpClientTransport::from_uri(proxy.url());
    // Left to itself, the client discovers.
    let preferred_versions = vec![ProtocolVersion::V_2026_07_28];
    let auto = ClientLifecycleMode::Auto { preferred_versions, legacy_version: None };
    let client = person.clone().serve_with_lifecycle(transport, auto).await.expect("it connects");
    calls_in_line(&client, &person, "2026-07-28").await;
    // 26T-4: the call does not become a task.
    let waited = called(&client, "wait", json!({ "ms": 5 })).await;
    assert_eq!(text(&waited), "waited 5 ms");
    let confirmed = called(&client, "confirm", json!({ "question": "Sure?" })).await;
    assert_eq!(text(&confirmed), "yes");
    assert_eq!(code(client.call_tool_once(call("batch", json!({ "steps": 1, "ms": 0 }))).await), -32021);
    // 26T-6
    let get = client.get_task(GetTaskParams::new("6b1f0d7e-0000-4000-8000-000000000000")).await;
    assert_eq!(code(get), -32021);
    ends_clean(client, &proxy).await;
}

/// rmcp does not support the tasks of that revision.
#[tokio::test]
async fn rmcp_initializes_and_calls_over_http() {
    let (_host, proxy) = over_http().await;
    let person = Person::who_knows_tasks();
    let transport = StreamableHttpClientTransport::from_uri(proxy.url());
    let client = person.clone().serve(transport).await.expect("it connects");
    calls_in_line(&client, &person, "2025-11-25").await;
    // 26B-4, 26B-10: declaring the extension in `initialize` enables nothing. T-4, X-1: nor is this the -32600 that T-6 allows.
    assert_eq!(code(client.call_tool_once(call("batch", json!({ "steps": 1, "ms": 0 }))).await), -32601);
    ends_clean(client, &proxy).await;
}
