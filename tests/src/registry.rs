//! A registry of OCI images for tests: Debian's docker-registry, with its own folder and port. It ends with the value.

use crate::{guests, schema};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// It answers within this time, even on a slow machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running registry.
#[derive(Debug)]
pub struct RegistryServer {
    child: Child,
    port: u16,
    _folder: TempDir,
}

impl RegistryServer {
    /// Starts a registry without authentication; `None` if it is not installed, which is printed.
    ///
    /// # Panics
    /// In CI, if it is not installed; anywhere, if it does not start.
    pub fn start() -> Option<Self> {
        let program = guests::root().join("target/registry/bin/docker-registry");
        if !program.exists() {
            schema::skipped("docker-registry is not there: run tests/registry/install.sh");
            return None;
        }
        let folder = tempfile::tempdir().expect("a folder");
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .and_then(|free| free.local_addr())
            .expect("a port")
            .port();
        let config = format!(
            "version: 0.1\nlog: {{level: error}}\nstorage: {{filesystem: {{rootdirectory: {}}}}}\nhttp: {{addr: 127.0.0.1:{port}}}\n",
            folder.path().join("images").display()
        );
        let file = folder.path().join("config.yml");
        std::fs::write(&file, config).expect("writes");
        let child =
            Command::new(program).arg("serve").arg(file).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let registry = Self { child: child.expect("starts"), port, _folder: folder };
        let begun = Instant::now();
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            assert!(begun.elapsed() < PATIENCE, "the registry does not answer");
            std::thread::sleep(Duration::from_millis(20));
        }
        Some(registry)
    }

    /// The address of a repository with its tag in it.
    pub fn address(&self, repository: &str) -> String {
        format!("oci://127.0.0.1:{}/{repository}", self.port)
    }
}

impl Drop for RegistryServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
