//! Opens a connection to the first address that answers, with TLS and a certificate for the
//! requested name if necessary.

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::OnceCell;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use toolyard_manifest::{Host, Scheme, Target};
use wasmtime_wasi_http::Error;

/// The maximum number of addresses of a name that are tried.
const MAX_ADDRESSES: usize = 8;

/// A connection, with or without TLS.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// The trusted certificates: those of this machine, read when the first connection needs them.
#[derive(Default)]
pub(crate) struct Roots(OnceCell<Arc<ClientConfig>>);

impl Roots {
    async fn config(&self) -> Result<Arc<ClientConfig>, String> {
        let read = async || {
            let read = tokio::task::spawn_blocking(native).await;
            read.unwrap_or_else(|error| Err(error.to_string())).map(Arc::new)
        };
        self.0.get_or_try_init(read).await.cloned()
    }

    /// Trusts only these certificates.
    #[cfg(test)]
    pub fn of(certificates: RootCertStore) -> Self {
        let config = config(certificates).expect("the defaults are fine");
        Self(OnceCell::new_with(Some(Arc::new(config))))
    }
}

fn native() -> Result<ClientConfig, String> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        // The error for the guest does not show where the certificates were searched for; only the
        // operator may see that.
        let errors: Vec<String> = found.errors.iter().map(ToString::to_string).collect();
        tracing::warn!(event = "network.certificates_missing", ?errors, "no trusted certificates found");
        return Err("there are no trusted certificates on this machine".to_owned());
    }
    config(roots)
}

fn config(roots: RootCertStore) -> Result<ClientConfig, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| error.to_string())?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

/// Connects to the first address that answers. `time` is shared among the addresses; the caller
/// must enforce it for the last one.
pub(super) async fn tcp(addresses: &[IpAddr], port: u16, time: Duration) -> Result<TcpStream, Error> {
    let addresses = &addresses[..addresses.len().min(MAX_ADDRESSES)];
    let Some((last, others)) = addresses.split_last() else { return Err(Error::DestinationNotFound) };
    // An address that does not answer must not use up the time of all.
    let share = time / u32::try_from(addresses.len()).unwrap_or(u32::MAX);
    for address in others {
        if let Ok(Ok(stream)) = timeout(share, TcpStream::connect(SocketAddr::new(*address, port))).await {
            return Ok(quick(stream));
        }
    }
    let stream = TcpStream::connect(SocketAddr::new(*last, port)).await;
    stream.map(quick).map_err(|error| unreached(&error))
}

fn quick(stream: TcpStream) -> TcpStream {
    // This is only an optimisation.
    drop(stream.set_nodelay(true));
    stream
}

fn unreached(error: &io::Error) -> Error {
    match error.kind() {
        ErrorKind::ConnectionRefused => Error::ConnectionRefused,
        ErrorKind::TimedOut => Error::ConnectionTimeout,
        ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable => Error::DestinationIpUnroutable,
        _ => Error::DestinationUnavailable,
    }
}

/// Why TLS failed: an error for the guest and a message for the operator.
pub(super) struct Insecure {
    pub error: Error,
    pub why: String,
}

/// Adds TLS to a connection if the scheme requires it.
pub(super) async fn secure(
    stream: TcpStream,
    target: &Target,
    roots: &Roots,
) -> Result<Box<dyn Stream>, Insecure> {
    if target.scheme == Scheme::Http {
        return Ok(Box::new(stream));
    }
    let config = roots.config().await.map_err(|why| Insecure { error: Error::ConfigurationError, why })?;
    let name = match &target.host {
        Host::Address(address) => ServerName::from(*address),
        Host::Name(name) => ServerName::try_from(name.clone())
            .map_err(|error| Insecure { error: Error::HttpRequestUriInvalid, why: error.to_string() })?,
    };
    match TlsConnector::from(config).connect(name, stream).await {
        Ok(stream) => Ok(Box::new(stream)),
        Err(error) => Err(insecure(&error)),
    }
}

fn insecure(error: &io::Error) -> Insecure {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    let code = match inner {
        Some(rustls::Error::InvalidCertificate(_) | rustls::Error::NoCertificatesPresented) => {
            Error::TlsCertificateError
        }
        Some(rustls::Error::AlertReceived(alert)) => Error::TlsAlertReceived {
            alert_id: Some(u8::from(*alert)),
            alert_message: Some(format!("{alert:?}")),
        },
        _ => Error::TlsProtocolError,
    };
    Insecure { error: code, why: error.to_string() }
}

#[cfg(test)]
mod tests;
