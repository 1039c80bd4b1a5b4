//! Raw sockets: the guest can connect to granted addresses, and to no others.

use serde_json::json;
use std::net::Ipv4Addr;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, UdpSocket};
use toolyard_tests::host::install_as;
use toolyard_tests::site::listen;
use toolyard_tests::{Host, Session, Setup, Site, guests, until};

/// Echo servers, and a host.
struct Net {
    tcp: u16,
    udp: u16,
    host: Host,
    session: Session,
}

impl Net {
    /// `TCP` and `UDP` in the manifest stand for the ports of the servers.
    async fn with(manifest: &str) -> Self {
        let echo = |mut stream: TcpStream| async move {
            let mut bytes = [0; 64];
            let read = stream.read(&mut bytes).await.unwrap_or_default();
            drop(stream.write_all(&bytes[..read]).await);
        };
        let (tcp, _) = listen(echo).await;
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
        let udp = socket.local_addr().expect("bound").port();
        tokio::spawn(async move {
            let mut bytes = [0; 64];
            while let Ok((read, from)) = socket.recv_from(&mut bytes).await {
                drop(socket.send_to(&bytes[..read], from).await);
            }
        });
        let manifest = manifest.replace("TCP", &tcp.to_string()).replace("UDP", &udp.to_string());
        let (host, session) = Setup::fixture("net_try", &manifest).open().await;
        Self { tcp, udp, host, session }
    }

    async fn attempt(&self, tool: &str, peer: &str) -> String {
        let arguments = json!({ "peer": peer, "send": "hello", "name": peer });
        self.session.call(tool, arguments).await["content"].to_string()
    }

    async fn denied(&self, tool: &str, peer: &str) -> String {
        let seen = self.attempt(tool, peer).await;
        assert!(seen.contains("denied"), "{tool} {peer}: {seen}");
        seen
    }

    async fn allowed(&self, tool: &str, peer: &str) {
        let seen = self.attempt(tool, peer).await;
        assert!(seen.contains("ALLOWED hello"), "{tool} {peer}: {seen}");
    }
}

#[tokio::test]
async fn an_address_is_granted_at_its_port_and_by_its_protocol() {
    let net = Net::with("[sockets]\ntcp = [\"127.0.0.1:TCP\"]\nudp = [\"127.0.0.0/8:UDP\"]").await;
    net.allowed("tcp", &format!("127.0.0.1:{}", net.tcp)).await;
    net.allowed("udp", &format!("127.0.0.1:{}", net.udp)).await;
    net.denied("tcp", &format!("127.0.0.1:{}", net.udp)).await;
    net.denied("udp", &format!("127.0.0.1:{}", net.tcp)).await;
    net.denied("tcp", "169.254.169.254:80").await;
    // No plugin may listen, and only granted names are looked up.
    net.denied("listen", "127.0.0.1:0").await;
    net.denied("listen", "[::]:0").await;
    net.denied("tcp", &format!("127.0.0.1:{}", net.host.port())).await;
    let log = net.host.log();
    assert!(log.contains("`sockets.tcp` of net_try.toml would have to name it"), "{log}");
}

/// A plugin in Python looks up each peer, even an address. Names are looked up only for those who may reach
/// them: by requests here, and by sockets in another plugin.
#[tokio::test]
async fn a_grant_of_addresses_leaves_look_ups_as_they_are() {
    let site = Site::start().await;
    let manifest =
        format!("[http]\nallow = [\"localhost:{}\"]\n[sockets]\ntcp = [\"127.0.0.1:TCP\"]", site.port());
    let net = Net::with(&manifest).await;
    net.allowed("tcp", &format!("127.0.0.1:{}", net.tcp)).await;
    for address in ["127.0.0.1", "::1"] {
        let seen = net.attempt("resolve", address).await;
        assert!(seen.contains("ALLOWED 1"), "{address}: {seen}");
    }
    let grant = "an entry of `sockets` of net_try.toml would have to name it";
    for (tool, peer) in [("resolve", "localhost"), ("tcp", &format!("localhost:{}", net.tcp))] {
        let seen = net.denied(tool, peer).await;
        assert!(seen.contains(&format!("the name localhost is not looked up; {grant}")), "{seen}");
    }
    let answer = net.session.call("request", json!({ "url": site.url("/json") })).await;
    assert!(answer["content"].to_string().contains("200"), "{answer}");
    let other = format!("prefix = \"other\"\n[sockets]\ntcp = [\"localhost:{}\"]", net.tcp);
    std::fs::write(net.host.plugins().join("other.toml"), other).expect("a manifest");
    install_as(&guests::fixture("net_try"), &net.host.plugins(), "other.wasm");
    let call = json!({ "name": "other_resolve", "arguments": { "name": "localhost" } });
    until("the other plugin", || async {
        net.session.request("tools/call", call.clone()).await.to_string().contains("ALLOWED")
    })
    .await;
    net.allowed("other_tcp", &format!("localhost:{}", net.tcp)).await;
}
