//! Access to the database: its address, connections that read, and connections with a single
//! purpose.

use super::error::{PostgresError, PostgresOpenError, failed, no_connection, silent};
use crate::metrics::Metrics;
use deadpool_postgres::{ClientWrapper, Manager, ManagerConfig, Object, Pool, RecyclingMethod, Runtime};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::error::SqlState;
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Config, Connection, Error, Row, Socket};
use tokio_postgres_rustls::MakeRustlsConnect;
use toolyard_task::StoreError;

/// The default schema.
pub const SCHEMA: &str = "toolyard";

/// The settings of every connection, with their reasons.
const OPTIONS: &[(&str, &str)] = &[
    // Acknowledged changes are durable, whatever the server's default is.
    ("synchronous_commit", "on"),
    // Each statement sees everything that was committed before it.
    ("default_transaction_isolation", "read\\ committed"),
    // A host that is stopped in the middle of a transaction does not hold locks for long.
    ("idle_in_transaction_session_timeout", "2000"),
    // Each statement uses one index. On new tables, without statistics, another plan might seem
    // better; these settings rule out plans that scan whole tables.
    ("enable_seqscan", "off"),
    ("enable_bitmapscan", "off"),
    // A plan that seems expensive would be compiled first, which takes longer than running any of
    // these statements.
    ("jit", "off"),
];

/// The time after which a host notices that the server has silently disappeared.
const SILENCE: Duration = Duration::from_secs(10);

/// A database, and the schema in it.
#[derive(Clone)]
pub struct PostgresLocation {
    config: Config,
    schema: String,
    tls: MakeRustlsConnect,
}

impl PostgresLocation {
    /// Reads an address, such as `postgres://user:password@host/database`. The connection to a
    /// server on another machine is encrypted, and its certificate checked, unless the address says
    /// `sslmode=disable`. Here, `require` means what `libpq` calls `verify-full`.
    ///
    /// # Errors
    /// [`PostgresOpenError`].
    pub fn parse(address: &str, schema: &str) -> Result<Self, PostgresOpenError> {
        let checked = address.replace("sslmode=verify-full", "sslmode=require");
        let mut config: Config =
            checked.parse().map_err(|error: Error| PostgresOpenError::Address(error.into()))?;
        if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
            return Err(PostgresOpenError::Address("it names no host".into()));
        }
        let letters = |schema: &str| {
            schema.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
        };
        // A channel is named after it; names are cut after 63 bytes.
        if !schema.starts_with(|first: char| first.is_ascii_lowercase())
            || !letters(schema)
            || schema.len() > 48
            || schema.starts_with("pg_")
        {
            return Err(PostgresOpenError::Name(schema.to_owned()));
        }
        if !address.contains("sslmode") {
            config.ssl_mode(if is_local(&config) { SslMode::Disable } else { SslMode::Require });
        }
        let mut options = config.get_options().map(|given| format!("{given} ")).unwrap_or_default();
        // The system's names come first, and temporary ones last.
        options.push_str(&format!("-c search_path=pg_catalog,{schema},pg_temp"));
        for (name, value) in OPTIONS {
            options.push_str(&format!(" -c {name}={value}"));
        }
        config
            .options(options)
            .connect_timeout(SILENCE)
            .tcp_user_timeout(SILENCE)
            .keepalives_idle(SILENCE)
            .keepalives_interval(Duration::from_secs(2))
            .keepalives_retries(3);
        if config.get_application_name().is_none() {
            config.application_name("toolyard");
        }
        let tls = if config.get_ssl_mode() == SslMode::Disable { nobody() } else { roots()? };
        Ok(Self { config, schema: schema.to_owned(), tls: MakeRustlsConnect::new(tls) })
    }

    pub(super) fn schema(&self) -> &str {
        &self.schema
    }

    /// Opens a separate connection; returns it with its driver.
    pub(super) async fn connect(&self) -> Result<(Client, Driver), Error> {
        self.config.connect(self.tls.clone()).await
    }

    /// The same, with a name by which an administrator can distinguish it from the server's other
    /// connections: it is idle most of the time, and must not be terminated because of that.
    pub(super) async fn connect_to_listen(&self) -> Result<(Client, Driver), Error> {
        let mut config = self.config.clone();
        let name = config.get_application_name().unwrap_or_default();
        config.application_name(format!("{name} listens"));
        config.connect(self.tls.clone()).await
    }

    /// Opens a separate connection with a statement cache. It closes when it is dropped.
    pub(super) async fn client(&self) -> Result<ClientWrapper, Error> {
        let (client, driver) = self.connect().await?;
        Ok(ClientWrapper::new(
            client,
            tokio::spawn(async move {
                if let Err(error) = driver.await {
                    tracing::debug!(
                        error = &error as &dyn std::error::Error,
                        "a connection to the database ended"
                    );
                }
            }),
        ))
    }
}

/// The future that drives a connection.
pub(super) type Driver = Connection<Socket, <MakeRustlsConnect as MakeTlsConnect<Socket>>::Stream>;

/// Without the user and the password.
impl fmt::Display for PostgresLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hosts = self.config.get_hosts().iter().map(|host| match host {
            Host::Tcp(name) => name.clone(),
            Host::Unix(path) => path.display().to_string(),
        });
        let hosts: Vec<String> = hosts.collect();
        let database = self.config.get_dbname().or(self.config.get_user()).unwrap_or_default();
        write!(f, "the schema {} of the database {database} at {}", self.schema, hosts.join(", "))
    }
}

impl fmt::Debug for PostgresLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl PostgresOpenError {
    /// Converts `source` to an error at the start.
    pub(super) fn of(place: &PostgresLocation, source: Error) -> Self {
        let place = place.to_string();
        let advice = match source.code() {
            Some(code) if *code == SqlState::INSUFFICIENT_PRIVILEGE => {
                return Self::Forbidden { place, source };
            }
            Some(code)
                if [SqlState::INVALID_PASSWORD, SqlState::INVALID_AUTHORIZATION_SPECIFICATION]
                    .contains(code) =>
            {
                "check the user and the password"
            }
            Some(code) if *code == SqlState::INVALID_CATALOG_NAME => {
                "there is no database of this name: make it with createdb"
            }
            Some(_) => return Self::Unavailable { place, source: source.into() },
            None => {
                "check the address, whether the server runs, and whether its certificate is known here \
                 (sslmode=disable for a server that has none)"
            }
        };
        Self::Unreachable { place, advice, source: source.into() }
    }
}

/// Whether all its hosts are this machine.
fn is_local(config: &Config) -> bool {
    let names = config.get_hosts().iter().all(|host| match host {
        Host::Tcp(name) => {
            name == "localhost" || name.parse().is_ok_and(|ip: std::net::IpAddr| ip.is_loopback())
        }
        Host::Unix(_) => true,
    });
    names && config.get_hostaddrs().iter().all(std::net::IpAddr::is_loopback)
}

/// For connections that are not encrypted: no certificate is accepted.
fn nobody() -> rustls::ClientConfig {
    client(rustls::RootCertStore::empty())
}

/// The certificates that this machine trusts.
fn roots() -> Result<rustls::ClientConfig, PostgresOpenError> {
    let found = rustls_native_certs::load_native_certs();
    let mut store = rustls::RootCertStore::empty();
    let (taken, _) = store.add_parsable_certificates(found.certs);
    if taken == 0 {
        let why =
            found.errors.first().map_or_else(|| "this machine has none".to_owned(), ToString::to_string);
        return Err(PostgresOpenError::Roots(why));
    }
    Ok(client(store))
}

fn client(roots: rustls::RootCertStore) -> rustls::ClientConfig {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("the provider has the usual versions")
        .with_root_certificates(roots)
        .with_no_client_auth()
}

/// The connections that read, each used by one caller at a time.
pub(super) struct Readers {
    pool: Pool,
    patience: Duration,
    metrics: Arc<Metrics>,
}

impl Readers {
    pub(super) fn new(
        place: &PostgresLocation,
        most: usize,
        patience: Duration,
        metrics: Arc<Metrics>,
    ) -> Self {
        let manager = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let manager = Manager::from_config(place.config.clone(), place.tls.clone(), manager);
        let pool = Pool::builder(manager)
            .max_size(most.max(1))
            .runtime(Runtime::Tokio1)
            .wait_timeout(Some(patience))
            .create_timeout(Some(patience))
            .build()
            .expect("the runtime is named, so times are kept");
        Self { pool, patience, metrics }
    }

    /// The rows of one statement. If the connection had ended before the statement was sent, for
    /// example because the server restarted, it is replaced once.
    pub(super) async fn rows(
        &self,
        sql: &str,
        given: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, StoreError> {
        let began = Instant::now();
        let mut rows = self.ask(sql, given).await;
        if matches!(rows, Err(PostgresError::Database(_))) {
            self.pool.retain(|idle, _| !idle.is_closed());
            rows = self.ask(sql, given).await;
        }
        self.metrics.read.ended(began, rows.is_ok());
        rows.map_err(StoreError::from)
    }

    /// How long to wait for an answer.
    pub(super) const fn patience(&self) -> Duration {
        self.patience
    }

    /// Fails with [`PostgresError::Database`] only if the connection has ended.
    async fn ask(&self, sql: &str, given: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>, PostgresError> {
        let on = self.connection().await?;
        let asking = async {
            let statement = on.prepare_cached(sql).await?;
            on.query(&statement, given).await
        };
        match tokio::time::timeout(self.patience, asking).await {
            Ok(Ok(rows)) => Ok(rows),
            Ok(Err(error)) if error.is_closed() || on.is_closed() => Err(error.into()),
            Ok(Err(error)) => Err(failed(error).into()),
            Err(_) => {
                // The server may still send an answer, which the next user would get.
                drop(Object::take(on));
                Err(silent(self.patience).into())
            }
        }
    }

    /// A connection for several statements.
    pub(super) async fn connection(&self) -> Result<Object, StoreError> {
        self.pool.get().await.map_err(no_connection)
    }

    pub(super) fn close(&self) {
        self.pool.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The setting overrides a search path in the address, which could put any other schema first.
    #[test]
    fn the_systems_own_names_come_first_on_every_connection() {
        for options in ["", "?options=-c%20search_path%3Dpublic,pg_catalog"] {
            let address = format!("postgres://toolyard@localhost/toolyard{options}");
            let place = PostgresLocation::parse(&address, "tasks").expect("an address");
            let given = place.config.get_options().expect("options");
            let last = given.rfind("search_path=").map(|at| &given[at..]).expect("a path");
            assert!(last.starts_with("search_path=pg_catalog,tasks,pg_temp "), "{given}");
        }
    }
}
