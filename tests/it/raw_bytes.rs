//! Bytes that none of the other test clients sends: the host names the reason for the rejection, and goes on.

use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use toolyard_tests::{PATIENCE, Session, Setup};

/// The status line and the rest of the answer, as far as the host sends it before it closes the connection.
async fn sent(port: u16, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.expect("the host listens");
    // The host may answer and close the connection before it has read all.
    drop(stream.write_all(bytes).await);
    let mut answer = vec![0; 4096];
    let read = tokio::time::timeout(PATIENCE, stream.read(&mut answer)).await;
    let length = read.expect("an answer or the end").unwrap_or_default();
    String::from_utf8_lossy(&answer[..length]).into_owned()
}

#[tokio::test]
async fn h_7_hostile_requests_are_refused_and_harm_nobody() {
    const FIELDS: &str = "host: localhost\r\ncontent-type: application/json\r\naccept: */*\r\n";
    let setup = Setup::probe().set("wire.message", "64KiB");
    let host = setup.set("wire.body-time", "300ms").set("wire.head-time", "300ms").start().await;
    let post = |more: &str| format!("POST /mcp HTTP/1.1\r\n{FIELDS}{more}").into_bytes();
    let chunk = format!("11000\r\n{}\r\n", "x".repeat(0x11000));
    let many: String = (0..500).map(|n| format!("x{n}: y\r\n")).collect();
    for (bytes, status) in [
        (b"\x00\x01\x02 nonsense\r\n\r\n".to_vec(), "400"),
        (format!("GET /{} HTTP/1.1\r\n{FIELDS}\r\n", "a".repeat(200_000)).into_bytes(), "431"),
        (post(&format!("{many}\r\n")), "431"),
        (post("content-length: 100\r\n\r\n{"), "408"),
        (post("content-length: 99999999999\r\n\r\n{"), "413"),
        (post(&format!("transfer-encoding: chunked\r\n\r\n{chunk}0\r\n\r\n")), "413"),
        (post("content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n"), "400"),
        (post("host: localhost\r\ncontent-length: 2\r\n\r\n{}"), "403"),
        (
            format!("POST http://evil.example/mcp HTTP/1.1\r\n{FIELDS}content-length: 2\r\n\r\n{{}}")
                .into_bytes(),
            "403",
        ),
        (b"POST /mcp HTTP/1.0\r\ncontent-length: 2\r\n\r\n{}".to_vec(), "403"),
    ] {
        let answer = sent(host.port(), &bytes).await;
        let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(80)]).into_owned();
        assert_eq!(answer.split(' ').nth(1), Some(status), "{shown:?}: {answer}");
    }
    // All of it is read, or the client meets a broken pipe in place of the answer (C4).
    let large = format!("content-length: {}\r\n\r\n{}", 10 << 20, "x".repeat(10 << 20));
    let answer = sent(host.port(), &post(&large)).await;
    assert_eq!(answer.split(' ').nth(1), Some("413"), "{answer}");
    // The host closes the connection on an endless head, and on another protocol.
    assert_eq!(sent(host.port(), b"POST /mcp HTTP/1.1\r\nhost: loc").await, "");
    assert_eq!(sent(host.port(), b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await, "");
    let session = Session::open(host.port()).await;
    assert_eq!(session.request("ping", json!({})).await["result"], json!({}));
}
