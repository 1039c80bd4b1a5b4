//! Clients that let the host hold as much as possible for them at once: answers that they do not read, and requests
//! that wait. Another principal is served meanwhile.

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpSocket, TcpStream};
use toolyard_tests::host::Setup;
use toolyard_tests::tokens::{stanza, token};
use toolyard_tests::{Host, Session, eventually};

const MIB: u64 = 1 << 20;

/// A host with two principals: one attacks, the other wants to be served.
async fn stage(setup: Setup) -> (Host, Session, Session) {
    let host = setup.config(&[stanza("mallory", &[]), stanza("bob", &[])].concat()).start().await;
    let mallory = Session::open_with(host.port(), &token("mallory")).await;
    let bob = Session::open_with(host.port(), &token("bob")).await;
    (host, mallory, bob)
}

/// Asks for the result of a task on a connection of its own, with a small buffer, and reads nothing of the answer.
async fn ask(session: &Session, port: u16, task: &str) -> TcpStream {
    let message = json!({
        "jsonrpc": "2.0", "id": session.next_id(), "method": "tasks/result", "params": {"taskId": task},
    })
    .to_string();
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_recv_buffer_size(4096).expect("a small buffer");
    let mut stream = socket.connect(([127, 0, 0, 1], port).into()).await.expect("connects");
    let mut head = format!("POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n", message.len());
    for (name, value) in session.headers() {
        head += &format!("{name}: {value}\r\n");
    }
    stream.write_all(format!("{head}\r\n{message}").as_bytes()).await.expect("sends");
    stream
}

/// Waits until the host refuses this principal another result, and returns the limit.
async fn refused(session: &Session, task: &str) -> Value {
    eventually("a refusal", || async {
        let asked = session.try_request(session.next_id(), "tasks/result", json!({"taskId": task}));
        let answer = tokio::time::timeout(std::time::Duration::from_secs(1), asked).await.ok()??;
        answer["error"]["data"].get("limit").cloned()
    })
    .await
}

#[tokio::test]
async fn answers_that_nobody_reads_are_bounded() {
    let setup = Setup::probe().manifest("probe", "[tools.echo]\ntask-support = \"optional\"\n");
    let (host, mallory, bob) = stage(setup).await;
    let id = mallory.create("echo", json!({"text": "x".repeat(7 << 20)})).await;
    mallory.until(&id, "completed").await;
    let before = host.usage().resident;
    let mut unread = Vec::new();
    for _ in 0..60 {
        unread.push(ask(&mallory, host.port(), &id).await);
        bob.call("echo", json!({"text": "hello"})).await;
    }
    assert_eq!(refused(&mallory, &id).await, "wire.body-bytes-per-principal");
    let gained = host.usage().resident.saturating_sub(before);
    // Without the bound it is 900.
    assert!(gained < 450 * MIB, "H3: {} MiB are held", gained / MIB);
    drop(unread);
    eventually("the result", || async {
        let answer = mallory.request("tasks/result", json!({"taskId": id})).await;
        answer["result"].is_object().then_some(())
    })
    .await;
}

#[tokio::test]
async fn requests_without_a_reader_are_bounded() {
    let (host, mallory, bob) = stage(Setup::probe().set("wire.requests-per-session", "16")).await;
    let waits = json!({"ms": 60_000});
    let (id, of_bob) = (mallory.create("wait", waits.clone()).await, bob.create("wait", waits).await);
    let mut waiting = Vec::new();
    for _ in 0..3 {
        let session = Session::open_with(host.port(), &token("mallory")).await;
        for _ in 0..12 {
            waiting.push(ask(&session, host.port(), &id).await);
        }
    }
    // Without a connection they wait on, as for a client that comes back.
    drop(waiting);
    assert_eq!(refused(&mallory, &id).await, "wire.requests-per-session");
    let _served = ask(&bob, host.port(), &of_bob).await;
    assert_eq!(bob.task(&of_bob).await["status"], "working");
    // Its tasks go on, and it may ask how they stand.
    assert_eq!(mallory.task(&id).await["status"], "working");
    for (session, id) in [(&mallory, &id), (&bob, &of_bob)] {
        session.result("tasks/cancel", json!({"taskId": id})).await;
    }
}
