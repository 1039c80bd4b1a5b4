//! Debian's docker-registry on a free port.

use super::{PASSWORD, USER};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// `USER:HASH`, with bcrypt's hash of [`PASSWORD`].
const HTPASSWD: &str = "ada:$2b$04$vWXN7PQAbQeDlmG1bQZWau//eptL//EwbUbsDqU2uGwUoC0wJA0Tq\n";

/// How a registry admits clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Everybody.
    Open,
    /// By a password.
    Basic,
    /// Everybody, with TLS and certificates of a private CA.
    Tls,
}

/// A running registry, which ends with this value.
#[derive(Debug)]
pub struct Server {
    child: Child,
    folder: tempfile::TempDir,
    pub host: String,
}

/// A program of tests/registry/install.sh. If it is missing, prints so and returns `None`.
///
/// # Panics
/// In CI, if it is missing.
pub fn program(name: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../target/registry/bin").join(name);
    if path.exists() {
        return Some(path);
    }
    assert!(std::env::var_os("CI").is_none(), "{name} is not there (tests/registry/install.sh)");
    eprintln!("SKIPPED: {name} is not there (tests/registry/install.sh)");
    None
}

impl Server {
    /// Starts a registry; `None` if it is not there.
    pub fn start(access: Access) -> Option<Self> {
        let program = program("docker-registry")?;
        let folder = tempfile::tempdir().expect("a folder");
        let port = free_port();
        let mut config = format!(
            "version: 0.1\nlog:\n  level: error\n  accesslog:\n    disabled: true\nstorage:\n  filesystem:\n    \
             rootdirectory: {0}/data\n  delete:\n    enabled: true\nhttp:\n  addr: 127.0.0.1:{port}\n  \
             secret: test\n  relativeurls: true\n",
            folder.path().display()
        );
        match access {
            Access::Open => {}
            Access::Basic => {
                assert_eq!((USER, PASSWORD), ("ada", "lovelace"), "the hash is of these");
                std::fs::write(folder.path().join("htpasswd"), HTPASSWD).expect("written");
                let path = folder.path().display();
                config += &format!("auth:\n  htpasswd:\n    realm: test\n    path: {path}/htpasswd\n");
            }
            Access::Tls => {
                write_certificates(folder.path());
                let path = folder.path().display();
                config +=
                    &format!("  tls:\n    certificate: {path}/server.pem\n    key: {path}/server.key\n");
            }
        }
        let file = folder.path().join("config.yml");
        std::fs::File::create(&file).and_then(|mut file| file.write_all(config.as_bytes())).expect("written");
        let mut command = Command::new(program);
        command.arg("serve").arg(&file).stdin(Stdio::null()).stdout(Stdio::null());
        let log = std::fs::File::create(folder.path().join("log")).expect("a log");
        let child = command.stderr(log).spawn().expect("the registry starts");
        let server = Self { child, folder, host: format!("127.0.0.1:{port}") };
        server.wait();
        Some(server)
    }

    /// The certificate of the CA.
    pub fn ca(&self) -> PathBuf {
        self.folder.path().join("ca.pem")
    }

    fn wait(&self) {
        let until = Instant::now() + Duration::from_secs(20);
        while std::net::TcpStream::connect(&self.host).is_err() {
            let log = || std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
            assert!(Instant::now() < until, "the registry does not start: {}", log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address").port()
}

fn write_certificates(folder: &Path) {
    use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
    let mut params = CertificateParams::new(Vec::new()).expect("parameters");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key")).expect("a CA");
    let key = KeyPair::generate().expect("a key");
    let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).expect("parameters");
    let certificate = params.signed_by(&key, &issuer).expect("a certificate");
    let write = |name: &str, text: String| std::fs::write(folder.join(name), text).expect("written");
    write("ca.pem", issuer.pem());
    write("server.pem", certificate.pem());
    write("server.key", key.serialize_pem());
}
