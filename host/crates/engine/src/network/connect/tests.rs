use super::*;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd};
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use std::net::Ipv4Addr;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// A certificate authority with its own certificate.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: CertificateDer<'static>,
}

impl Authority {
    fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let certificate = params.self_signed(&key).expect("signed").der().clone();
        Self { issuer: Issuer::new(params, key), certificate }
    }

    fn roots(&self) -> Roots {
        let mut store = RootCertStore::empty();
        store.add(self.certificate.clone()).expect("a certificate");
        Roots::of(store)
    }

    /// Starts a server with a certificate for this name, valid until this year.
    async fn serves(&self, name: &str, until: i32) -> u16 {
        let mut params = CertificateParams::new(vec![name.to_owned()]).expect("a name");
        params.not_before = date_time_ymd(2000, 1, 1);
        params.not_after = date_time_ymd(until, 1, 1);
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("signed").der().clone();
        let key = PrivatePkcs8KeyDer::from(key.serialize_der());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("the defaults")
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key.into())
            .expect("they fit");
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("listens");
        let port = listener.local_addr().expect("bound").port();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                // Only the client's result matters.
                drop(acceptor.accept(stream).await);
            }
        });
        port
    }
}

/// The result of a connection to `port` for a host of this name.
async fn connected(host: &str, port: u16, roots: &Roots) -> Result<(), (String, String)> {
    let host = Host::parse(host).expect("a host");
    let target = Target { scheme: Scheme::Https, host, port };
    let stream = tcp(&[Ipv4Addr::LOCALHOST.into()], port, Duration::from_secs(60)).await.expect("it listens");
    match secure(stream, &target, roots).await {
        Ok(_) => Ok(()),
        Err(Insecure { error, why }) => Err((format!("{error:?}"), why)),
    }
}

#[tokio::test]
async fn the_certificate_is_for_the_name_that_was_asked_for() {
    let authority = Authority::new("Authority");
    let roots = authority.roots();
    let port = authority.serves("api.example.com", 2100).await;
    assert_eq!(connected("api.example.com", port, &roots).await, Ok(()));
    for other in ["example.com", "www.example.com", "127.0.0.1", "localhost"] {
        let (error, why) = connected(other, port, &roots).await.expect_err(other);
        assert_eq!(error, "TlsCertificateError", "{other}: {why}");
    }
    let port = authority.serves("127.0.0.1", 2100).await;
    assert_eq!(connected("127.0.0.1", port, &roots).await, Ok(()));
}

#[tokio::test]
async fn a_certificate_that_is_over_or_from_nobody_known_is_refused() {
    let authority = Authority::new("Authority");
    let port = authority.serves("api.example.com", 2001).await;
    let (error, why) = connected("api.example.com", port, &authority.roots()).await.expect_err("over");
    assert!(error == "TlsCertificateError" && why.contains("xpired"), "{error} {why}");

    let port = authority.serves("api.example.com", 2100).await;
    let stranger = Authority::new("Stranger");
    let (error, why) = connected("api.example.com", port, &stranger.roots()).await.expect_err("unknown");
    assert!(error == "TlsCertificateError" && why.contains("UnknownIssuer"), "{error} {why}");
}

#[tokio::test]
async fn what_does_not_speak_tls_is_no_secure_connection() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("listens");
    let port = listener.local_addr().expect("bound").port();
    let answering = async {
        let (mut stream, _) = listener.accept().await.expect("a client connects");
        tokio::io::AsyncWriteExt::write_all(&mut stream, b"HTTP/1.1 200 OK\r\n\r\n").await.expect("writes");
        stream
    };
    let roots = Authority::new("Authority").roots();
    let (_open, result) = tokio::join!(answering, connected("api.example.com", port, &roots));
    assert_eq!(result.expect_err("plain").0, "TlsProtocolError");
}

#[tokio::test]
async fn the_next_address_is_tried_where_one_refuses() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("listens");
    let port = listener.local_addr().expect("bound").port();
    let addresses = [Ipv4Addr::new(127, 0, 0, 2).into(), Ipv4Addr::LOCALHOST.into()];
    let minute = Duration::from_secs(60);
    assert!(tcp(&addresses, port, minute).await.is_ok());
    let refused = tcp(&addresses[..1], port, minute).await.expect_err("no server listens there");
    assert_eq!(format!("{refused:?}"), "ConnectionRefused");
}
