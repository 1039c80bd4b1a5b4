//! A disconnect cancels the request of that connection, and never a task (26H-13, 26C-1, 26S-2).

use super::{idle, single, steps};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use toolyard_tests::http::Connection;
use toolyard_tests::stateless::{Client, Request, enveloped, everything};
use toolyard_tests::{Host, Session, Stdio, eventually};

async fn alone() -> (Host, Client) {
    let host = single().start().await;
    let client = Client::new(host.port()).declaring(everything());
    (host, client)
}

/// Steps that write to the host's log when they begin, and then wait without end.
fn endless(name: &str) -> Value {
    steps(json!([{"log": {"level": "error", "data": format!("began {name}")}}, {"sleep": 600_000}]))
}

async fn begun(host: &Host, name: &str) {
    let what = format!("began {name}");
    eventually(&what, || async { host.log().contains(&what).then_some(()) }).await;
}

async fn write(client: &Client, request: &Request) -> TcpStream {
    let mut socket = TcpStream::connect(("127.0.0.1", client.port())).await.expect("the host listens");
    socket.write_all(&request.bytes()).await.expect("the host reads");
    socket
}

#[tokio::test]
async fn h_26h_13_whoever_leaves_before_an_answer_takes_the_request_back() {
    let setup = single().set("wire.stream-after", "10min");
    let host = setup.start().await;
    let client = Client::new(host.port()).declaring(everything());
    // The answer would be a JSON object: the host has sent nothing yet.
    let socket = write(&client, &client.request("tools/call", endless("one"))).await;
    begun(&host, "one").await;
    drop(socket);
    idle(&client).await;
    // A guest that computes and does not wait.
    let setup = super::patient(toolyard_tests::host::Setup::new())
        .with(&[toolyard_tests::guests::plugin("probe"), toolyard_tests::guests::fixture("script")])
        .set("calls.running", "1")
        .set("admin.listen", "127.0.0.1:0");
    let host = setup.start().await;
    let client = Client::new(host.port());
    let spin = json!({"name": "spin", "arguments": {"ms": 600_000}});
    let socket = write(&client, &client.request("tools/call", spin)).await;
    // From the metrics: another call might come first and take the slot.
    eventually("the slot to be taken", || async { (host.runs().await == 1).then_some(()) }).await;
    drop(socket);
    idle(&client).await;
}

#[tokio::test]
async fn h_26h_13_whoever_leaves_a_stream_takes_the_request_back() {
    let (host, client) = alone().await;
    let answer = client.send(&client.request("tools/call", endless("stream"))).await;
    assert!(answer.is_events());
    begun(&host, "stream").await;
    drop(answer);
    idle(&client).await;
    // In sessions the calls go on instead (H-16).
    let session = Session::open(host.port()).await;
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": steps(json!([
        {"sleep": 300}, {"log": {"level": "error", "data": "went on to its end"}},
    ]))});
    drop(session.post(&call).await);
    eventually("the call of the session to go on", || async {
        host.log().contains("went on to its end").then_some(())
    })
    .await;
}

#[tokio::test]
async fn h_26h_13_a_task_is_not_ended_by_who_leaves() {
    let (host, client) = alone().await;
    let task = steps(json!([{"begin": null}, {"sleep": 600_000}]));
    // The host returned the task id on this stream, which breaks off after it.
    let answer = client.send(&client.request("tools/call", task)).await;
    let created = match answer.is_events() {
        true => answer.events().message().await.expect("the handle"),
        false => answer.json().await,
    };
    let id = created["result"]["taskId"].as_str().expect("a task").to_owned();
    // A poll that the client breaks off, twenty times.
    for _ in 0..20 {
        drop(write(&client, &client.request("tasks/get", json!({"taskId": id}))).await);
    }
    // The same with a listener.
    let (listening, _) = client.listen(json!({"taskIds": [id]})).await;
    drop(listening);
    assert_eq!(client.task(&id).await["status"], "working");
    // 26C-2, 26T-20: a notification with the id of the request does not cancel it either.
    let notice = client.request("notifications/cancelled", json!({"requestId": created["id"]}));
    let mut message = notice.message().clone();
    message.as_object_mut().expect("an object").remove("id");
    let headers: Vec<_> =
        notice.headers().iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let mut connection = Connection::open(host.port()).await;
    let answer = connection.send(hyper::Method::POST, "/mcp", &headers, message.to_string()).await;
    assert_eq!(answer.status, 202, "26C-1: heard, and of no use");
    assert_eq!(client.task(&id).await["status"], "working");
    client.cancel(&id).await;
    client.until(&id, "cancelled").await;
    idle(&client).await;
}

#[tokio::test]
async fn c_26c_1_s_26s_2_a_pipe_takes_a_request_back_by_name_and_nothing_more_is_said_of_it() {
    let mut stdio = Stdio::start(single());
    let capabilities = everything();
    let call = |params: Value| enveloped(params, &capabilities);
    let mut talking = steps(json!([{"progress": {"progress": 1}}, {"sleep": 600_000}]));
    talking["_meta"] = json!({"progressToken": "p"});
    let id = stdio.send("tools/call", call(talking)).await;
    let told = stdio.read().await;
    assert_eq!(told["params"]["progressToken"], "p");
    let cancel = |id: Value| json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}});
    // The host ignores ids that name no running request.
    for other in [json!("p"), json!(id.to_string()), json!(999), json!(null)] {
        stdio.line(&cancel(other).to_string()).await;
    }
    stdio.line(&cancel(json!(id)).to_string()).await;
    // The next answer is to another request: the slot is free, and the host has sent nothing for the first
    // one.
    loop {
        let next = stdio.send("tools/call", call(steps(json!([])))).await;
        let message = stdio.read().await;
        assert_eq!(message["id"], next, "{message}");
        if message["result"]["isError"] == false {
            break;
        }
    }
    // After the end of a request, its id may be used again (26J-3).
    stdio
        .line(
            &json!({"jsonrpc": "2.0", "id": id, "method": "tools/list", "params": call(json!({}))})
                .to_string(),
        )
        .await;
    assert_eq!(stdio.read().await["id"], id);
    // Such a notification does not end a task.
    let created =
        stdio.request("tools/call", call(steps(json!([{"begin": null}, {"sleep": 600_000}])))).await;
    let task = created["result"]["taskId"].clone();
    stdio.line(&cancel(created["id"].clone()).to_string()).await;
    let got = stdio.request("tasks/get", call(json!({"taskId": task}))).await;
    assert_eq!(got["result"]["status"], "working", "{got}");
}
