//! 2026-07-28 over stdio, on real pipes, with tools written in Rust: with a session on the same pipe, and
//! without one.

use crate::kit::pipe::{Client, client};
use crate::kit::request::{able, request};
use crate::kit::server::{catalog, quick, server, waiting};
use serde_json::{Value, json};
use std::future::ready;
use std::io::{Error, Write};
use std::sync::Arc;
use toolyard_dispatch::TaskSupport;
use toolyard_protocol::stateless::META_SUBSCRIPTION;
use toolyard_transport::Server;
use toolyard_transport::stdio;

fn serve(server: Arc<Server>) -> Client {
    client(|input, output, stop| stdio::serve(server, input, output, stop, ready(())))
}

fn cancelled(id: Value) -> Value {
    json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}})
}

#[tokio::test]
async fn t_26b_5_26b_6_26d_9_each_line_is_of_the_generation_that_it_says() {
    let mut client = serve(server(vec![quick()]));
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    assert_eq!(client.answer(&ping).await["error"]["code"], -32600, "the first request must be initialize");
    let discover = |id: &str| request(json!(id), "server/discover", json!({}), &json!({}));
    let found = client.answer(&discover("before")).await;
    assert_eq!((&found["id"], &found["result"]["resultType"]), (&json!("before"), &json!("complete")));
    let mut unserved = discover("u");
    unserved["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = "1900-01-01".into();
    assert_eq!(client.answer(&unserved).await["error"]["code"], -32022);
    let enveloped = request(json!("i"), "initialize", json!({}), &json!({}));
    assert_eq!(client.answer(&enveloped).await["error"]["code"], -32601);
    assert_eq!(client.answer(&json!([discover("b")])).await["error"]["code"], -32600, "26J: no batches");
    let initialize = json!({"jsonrpc": "2.0", "id": 2, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"},
    }});
    let agreed = client.answer(&initialize).await;
    assert_eq!(agreed["result"]["protocolVersion"], "2025-11-25", "26B-4");
    let listed = client.answer(&json!({"jsonrpc": "2.0", "id": 3, "method": "tools/list"})).await;
    assert!(listed["result"].get("resultType").is_none(), "26B-8: {listed}");
    let listed = client.answer(&request(json!(3), "tools/list", json!({}), &json!({}))).await;
    assert_eq!(listed["result"]["resultType"], "complete");
    assert!(listed["result"]["tools"][0].get("execution").is_none(), "26TL-1");
    let unknown = client.answer(&json!({"jsonrpc": "2.0", "id": 4, "method": "server/discover"})).await;
    assert_eq!(unknown["error"]["code"], -32601, "26B-3");
    assert!(client.finish().await.is_empty());
}

#[tokio::test]
async fn t_26s_2_26j_3_26c_1_what_is_cancelled_is_not_answered_and_its_id_is_free() {
    let (waiting, go, mut tells) = waiting(TaskSupport::Optional);
    let mut client = serve(server(vec![waiting]));
    let call = request(json!(1), "tools/call", json!({"name": "waiting"}), &able());
    client.send(&call);
    assert_eq!(tells.recv().await, Some("begun"));
    let again = client.answer(&call).await;
    assert_eq!((&again["id"], &again["error"]["code"]), (&json!(1), &json!(-32600)));
    // Ids that name no running request.
    for other in [json!("1"), json!(null), json!(99)] {
        client.send(&cancelled(other));
    }
    let next = client.answer(&request(json!(3), "server/discover", json!({}), &json!({}))).await;
    assert_eq!((&next["id"], tells.try_recv().is_err()), (&json!(3), true), "it goes on");
    client.send(&cancelled(json!(1)));
    assert_eq!(tells.recv().await, Some("gone"));
    let next = client.answer(&request(json!(2), "server/discover", json!({}), &json!({}))).await;
    assert_eq!(next["id"], 2, "nothing was sent for the other");
    go.notify_one();
    // The unsent answer may still be in progress, and holds the id until it is dropped.
    let mut answer = client.answer(&call).await;
    while answer["error"]["code"] == -32600 {
        answer = client.answer(&call).await;
    }
    assert_eq!((&answer["id"], &answer["result"]["content"][0]["text"]), (&json!(1), &json!("x")));
    assert!(client.finish().await.is_empty());
}

#[tokio::test]
async fn t_26sub_4_26sub_5_26s_4_subscriptions_share_the_pipe_and_end_one_by_one() {
    let server = server(vec![quick()]);
    let dispatch = server.dispatch.clone();
    let mut client = serve(server);
    let wanted = json!({"notifications": {"toolsListChanged": true}});
    for id in [json!("a"), json!(2)] {
        let listen = request(id.clone(), "subscriptions/listen", wanted.clone(), &json!({}));
        client.send(&listen);
        let acknowledged = client.next().await.expect("an acknowledgement");
        assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged");
        assert_eq!(acknowledged["params"]["_meta"][META_SUBSCRIPTION], id);
    }
    dispatch.catalog().publish(catalog(Vec::new()));
    let mut told = Vec::new();
    for _ in 0..2 {
        let news = client.next().await.expect("news");
        assert_eq!(news["method"], "notifications/tools/list_changed");
        told.push(news["params"]["_meta"][META_SUBSCRIPTION].clone());
    }
    assert!(told.contains(&json!("a")) && told.contains(&json!(2)), "{told:?}");
    client.send(&cancelled(json!("a")));
    let next = client.answer(&request(json!("d"), "server/discover", json!({}), &json!({}))).await;
    assert_eq!(next["id"], "d", "a cancelled subscription ends without a word");
    let rest = client.finish().await;
    assert_eq!(rest.len(), 1, "{rest:?}");
    assert_eq!((&rest[0]["id"], &rest[0]["result"]["resultType"]), (&json!(2), &json!("complete")));
}

/// An output that breaks at the line that reports a task.
struct Breaks;

impl Write for Breaks {
    fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
        if String::from_utf8_lossy(line).contains(r#""resultType":"task""#) {
            return Err(Error::from(std::io::ErrorKind::BrokenPipe));
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn a_task_that_its_client_cannot_be_told_of_is_cancelled() {
    let (waiting, _go, mut tells) = waiting(TaskSupport::Required);
    let server = server(vec![waiting]);
    let mut client = client(|input, _, stop| stdio::serve(server, input, Breaks, stop, ready(())));
    client.send(&request(json!(1), "tools/call", json!({"name": "waiting"}), &able()));
    assert_eq!(tells.recv().await, Some("begun"));
    assert_eq!(tells.recv().await, Some("gone"), "26T-10: no client could ever ask for it");
    assert!(client.finish().await.is_empty());
}

#[tokio::test]
async fn a_task_that_its_client_was_told_of_goes_on_when_the_input_ends() {
    let (waiting, go, mut tells) = waiting(TaskSupport::Required);
    let mut client = serve(server(vec![waiting]));
    let call = request(json!(1), "tools/call", json!({"name": "waiting"}), &able());
    assert_eq!(client.answer(&call).await["result"]["resultType"], "task");
    assert_eq!(tells.recv().await, Some("begun"));
    assert!(client.finish().await.is_empty());
    assert!(tells.try_recv().is_err(), "26H-13: it is not the request that was cancelled");
    go.notify_one();
    assert_eq!(tells.recv().await, Some("gone"));
}
