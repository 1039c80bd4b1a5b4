//! A disconnect cancels the request of that connection, even if its guest computes (26H-13).

use super::idle;
use serde_json::json;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use toolyard_tests::eventually;
use toolyard_tests::stateless::{Client, Request};

async fn write(client: &Client, request: &Request) -> TcpStream {
    let mut socket = TcpStream::connect(("127.0.0.1", client.port())).await.expect("the host listens");
    socket.write_all(&request.bytes()).await.expect("the host reads");
    socket
}

#[tokio::test]
async fn h_26h_13_a_guest_that_computes_stops_when_its_client_leaves() {
    let setup = super::patient(toolyard_tests::host::Setup::new())
        .with(&[toolyard_tests::guests::plugin("probe"), toolyard_tests::guests::fixture("script")])
        .set("calls.running", "1")
        .set("admin.listen", "127.0.0.1:0");
    let host = setup.start().await;
    let client = Client::new(host.port());
    let spin = json!({"name": "spin", "arguments": {"ms": 600_000}});
    let socket = write(&client, &client.request("tools/call", spin)).await;
    // From the metrics: a call to find this out might take the slot first.
    eventually("the slot to be taken", || async { (host.runs().await == 1).then_some(()) }).await;
    drop(socket);
    idle(&client).await;
}
