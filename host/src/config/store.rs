//! The key `store`: where tasks are kept.

use anyhow::bail;

/// The kind of store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreChoice {
    /// In a file of the data folder.
    Sqlite,
    /// In memory.
    Memory,
    /// In the PostgreSQL database at this address, which several hosts share.
    Postgres(Address),
}

/// Each question is answered for every kind of store, so that a new one cannot be forgotten.
impl StoreChoice {
    /// The store of the key `store`.
    ///
    /// # Errors
    /// If it names none.
    pub fn parse(store: Option<&str>) -> anyhow::Result<Self> {
        match store {
            None | Some("sqlite") => Ok(Self::Sqlite),
            Some("memory") => Ok(Self::Memory),
            Some(url) if url.starts_with("postgres://") || url.starts_with("postgresql://") => {
                Ok(Self::Postgres(Address(url.to_owned())))
            }
            // The value may still contain a password.
            Some(other) if other.contains(':') => bail!("`store`: expected sqlite, memory or postgres://…"),
            Some(other) => bail!("`store`: expected sqlite, memory or postgres://…, not `{other}`"),
        }
    }

    /// Whether another process on this machine, such as a command, can open the store.
    pub const fn is_seen_by_other_processes(&self) -> bool {
        match self {
            Self::Sqlite | Self::Postgres(_) => true,
            Self::Memory => false,
        }
    }

    /// Whether hosts on several machines can share the store.
    pub const fn is_shared_by_hosts(&self) -> bool {
        match self {
            Self::Postgres(_) => true,
            Self::Sqlite | Self::Memory => false,
        }
    }

    /// The names of its files in the data folder, which only the host's user may change.
    pub const fn files(&self) -> &'static [&'static str] {
        match self {
            // SQLite keeps the others beside the first.
            Self::Sqlite => {
                &["toolyard.sqlite", "toolyard.sqlite-wal", "toolyard.sqlite-shm", "toolyard.sqlite-journal"]
            }
            Self::Memory | Self::Postgres(_) => &[],
        }
    }
}

/// The address of a database. It may contain a password.
#[derive(Clone, PartialEq, Eq)]
pub struct Address(String);

impl Address {
    /// The whole address, with a password if it has one.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("postgres://…")
    }
}
