//! Why a client's file is not changed.

/// The reason why there is no plan. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// A value of the command line does not fit.
    #[error("{0}")]
    Usage(String),
    /// The client cannot use such a server.
    #[error("{client}: {reason}")]
    Unsupported {
        /// The name of the client.
        client: &'static str,
        /// The reason, and a way out.
        reason: &'static str,
    },
    /// The client has no file for a project.
    #[error("{client} has no configuration file for a project; leave --project out")]
    NoProjectFile {
        /// The name of the client.
        client: &'static str,
    },
    /// Claude Desktop is installed more than once.
    #[error(
        "Claude Desktop has several folders, and only one is in use: {folders}; remove the others, or edit the file yourself"
    )]
    SeveralPackages {
        /// The folders.
        folders: String,
    },
    /// The file cannot be edited.
    #[error("cannot edit {file}: {reason}; correct the file, or add the entry yourself")]
    Content {
        /// The file.
        file: String,
        /// The reason.
        reason: String,
    },
    /// The name belongs to another server.
    #[error(
        "{file} has another server with the name `{name}`; choose a name by --name, or remove that entry yourself"
    )]
    Foreign {
        /// The file.
        file: String,
        /// The name of the entry.
        name: String,
    },
}

impl Refusal {
    /// Whether the command line is wrong, rather than a file.
    pub const fn is_usage(&self) -> bool {
        matches!(self, Self::Usage(_) | Self::Unsupported { .. } | Self::NoProjectFile { .. })
    }
}
