//! Outgoing HTTP of a guest to a real site: granted requests pass, and the errors of others name the missing
//! grant or the limit.

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::PrivatePkcs8KeyDer;
use toolyard_tests::site::listen;
use toolyard_tests::{Host, Session, Setup, Site, text, until};

/// A site, and a host with a guest that sends whatever request it is given.
struct Net {
    site: Site,
    host: Host,
    session: Session,
}

impl Net {
    /// `SITE` in the manifest stands for the port of the site.
    async fn with(manifest: &str) -> Self {
        let site = Site::start().await;
        let manifest = manifest.replace("SITE", &site.port().to_string());
        let (host, session) = Setup::fixture("net_try", &manifest).open().await;
        Self { site, host, session }
    }

    async fn granted() -> Self {
        Self::with("[http]\nallow = [\"localhost:SITE\"]").await
    }

    /// The outcome of a request: the guest's report, and the rest of the result.
    async fn send(&self, order: Value) -> (Value, String) {
        let result = self.session.call("request", order).await;
        let said = serde_json::from_str(text(&result)).unwrap_or_else(|_| Value::from(text(&result)));
        (said, result["content"].to_string())
    }

    async fn get(&self, path: &str) -> (Value, String) {
        self.send(json!({ "url": self.site.url(path) })).await
    }

    /// Sends a request that must fail with this error. The result and the log contain all of `says`.
    async fn fails(&self, order: Value, error: &str, says: &[&str]) {
        let (said, all) = self.send(order.clone()).await;
        let found = said["error"].as_str().unwrap_or_else(|| panic!("{order}: {all}"));
        assert!(found.contains(error), "{order}: {found}");
        for word in says {
            assert!(all.contains(word), "{order}: {all}");
            if *word != error {
                assert!(self.host.log().contains(word), "{word}: {}", self.host.log());
            }
        }
    }
}

#[tokio::test]
async fn nothing_is_smuggled_in_heads() {
    let net = Net::granted().await;
    let url = net.site.url("/");
    let fails = async |order: Value, may_trap: bool| {
        let (said, all) = net.send(order.clone()).await;
        assert!(said["error"].is_string() || (may_trap && all.contains("trapped")), "{order}: {all}");
    };
    for headers in [
        json!([["x", "a\r\nx-other: b"]]),
        json!([["host", "other.example"]]),
        json!([["content-length", "5"], ["content-length", "6"]]),
    ] {
        fails(json!({ "url": url, "headers": headers }), true).await;
    }
    for path in ["/a b", "/a\r\nx: y"] {
        fails(json!({ "url": net.site.url(path) }), false).await;
    }
    for method in ["CONNECT", "GET /x HTTP/1.1\r\n\r\nGET"] {
        fails(json!({ "url": url, "method": method }), false).await;
    }
    assert!(net.site.seen().is_empty(), "{:?}", net.site.seen());
}

#[tokio::test]
async fn a_run_keeps_nothing_of_the_requests_that_have_ended_and_its_connections_end_with_it() {
    let limits = "[limits]\nhttp-requests = 300\nhandles = 64";
    let net = Net::with(&format!("[http]\nallow = [\"localhost:SITE\"]\n{limits}")).await;
    let (said, all) = net.send(json!({ "url": net.site.url("/json"), "times": 300 })).await;
    assert_eq!(said["status"], 200, "{all}");
    let id = net.session.create("request", json!({ "url": net.site.url("/silent") })).await;
    until("the request to arrive", || async { net.site.seen().len() == 301 }).await;
    net.session.result("tasks/cancel", json!({ "taskId": id })).await;
    until("the connection to be closed", || async { net.site.open() == 0 }).await;
}

#[tokio::test]
async fn an_exchange_is_bounded_and_a_server_that_misbehaves_is_an_error_and_no_more() {
    let limits = "[limits]\nhttp-response = \"64KiB\"\nhttp-time = \"1s\"";
    let net = Net::with(&format!("[http]\nallow = [\"localhost:SITE\"]\n{limits}")).await;
    assert_eq!(net.get("/bytes?65536").await.0["bytes"], 65_536);
    let (large, slow) = (&["64.0 KiB", "`limits.http-response`"][..], &["1s", "`limits.http-time`"][..]);
    for (path, error, says) in [
        ("/bytes?65537", "exceeds limit: 65536", large),
        ("/endless", "exceeds limit: 65536", large),
        ("/silent", "`limits.http-time`", slow),
        ("/stalled", "`limits.http-time`", slow),
        ("/garbage", "HttpProtocolError", &[]),
        ("/reset", "after 4 bytes", &[]),
        ("/head?200000", "HttpResponseHeaderSectionSize", &[]),
    ] {
        net.fails(json!({ "url": net.site.url(path) }), error, says).await;
    }
    for (path, error) in [("/silent", "ConnectionReadTimeout"), ("/stalled", "connection read timeout")] {
        net.fails(json!({ "url": net.site.url(path), "patience": 100 }), error, &[]).await;
    }
    until("the connections to be closed", || async { net.site.open() == 0 }).await;
}

/// A certificate authority: its key for signing, and its certificate as PEM.
pub fn authority(name: &str) -> (Issuer<'static, KeyPair>, String) {
    let mut params = CertificateParams::new(Vec::new()).expect("no names");
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().expect("a key");
    let pem = params.self_signed(&key).expect("signed").pem();
    (Issuer::new(params, key), pem)
}

/// A TLS site with a certificate of this authority for this name, which answers each request with this body.
pub async fn secure_site(issuer: &Issuer<'static, KeyPair>, name: &str, body: &'static [u8]) -> u16 {
    let key = KeyPair::generate().expect("a key");
    let params = CertificateParams::new(vec![name.to_owned()]).expect("a name");
    let certificate = params.signed_by(&key, issuer).expect("signed").der().clone();
    let key = PrivatePkcs8KeyDer::from(key.serialize_der());
    let config =
        ServerConfig::builder().with_no_client_auth().with_single_cert(vec![certificate], key.into());
    let acceptor = TlsAcceptor::from(Arc::new(config.expect("they fit")));
    let answer = move |stream: TcpStream| {
        let acceptor = acceptor.clone();
        async move {
            // A client that does not trust the certificate disconnects.
            let Ok(mut stream) = acceptor.accept(stream).await else { return };
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                let Ok(byte) = stream.read_u8().await else { break };
                head.push(byte);
            }
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
            drop(stream.write_all(head.as_bytes()).await);
            drop(stream.write_all(body).await);
            drop(stream.shutdown().await);
        }
    };
    listen(answer).await.0
}

#[tokio::test]
async fn certificates_are_checked_against_those_that_the_machine_trusts() {
    let (known, pem) = authority("Known");
    let (stranger, _) = authority("Stranger");
    let good = secure_site(&known, "localhost", b"secure").await;
    let unknown = secure_site(&stranger, "localhost", b"secure").await;
    let folder = tempfile::tempdir().expect("a folder");
    let trusted = folder.path().join("trusted.pem");
    std::fs::write(&trusted, pem).expect("writes");
    let allow = [good, unknown].map(|port| format!("localhost:{port}"));
    let setup = Setup::fixture("net_try", &format!("[http]\nallow = {allow:?}"));
    let (_host, session) = setup.variable("SSL_CERT_FILE", trusted.to_str().expect("plain")).open().await;
    for (port, says) in [(good, "secure"), (unknown, "UnknownIssuer")] {
        let result = session.call("request", json!({ "url": format!("https://localhost:{port}/") })).await;
        assert!(result["content"].to_string().contains(says), "{says}: {result}");
    }
}
