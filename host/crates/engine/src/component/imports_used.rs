//! The imports that let a component do more than compute, found by the functions that it imports.
//! Standard libraries import whole interfaces that most programs never call, and toolchains omit
//! the functions that are never called.

use wasmtime::component::Component;
use wasmtime::component::types::ComponentItem;

/// An import beyond pure computation, and the manifest section that grants it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ImportUse {
    /// The component opens files and folders.
    Files,
    /// The component sends HTTP requests.
    Http,
    /// The component opens TCP connections.
    Tcp,
    /// The component sends UDP datagrams.
    Udp,
    /// The component reads environment variables. Every standard library does so.
    Environment,
}

impl ImportUse {
    /// All variants.
    pub const ALL: [Self; 5] = [Self::Files, Self::Http, Self::Tcp, Self::Udp, Self::Environment];

    /// The manifest key that grants it.
    #[must_use]
    pub const fn section(self) -> &'static str {
        match self {
            Self::Files => "fs",
            Self::Http => "http",
            Self::Tcp => "sockets.tcp",
            Self::Udp => "sockets.udp",
            Self::Environment => "env",
        }
    }

    /// A phrase for this use, in the third person.
    #[must_use]
    pub const fn does(self) -> &'static str {
        match self {
            Self::Files => "opens files and folders",
            Self::Http => "sends HTTP requests",
            Self::Tcp => "opens TCP connections",
            Self::Udp => "sends UDP datagrams",
            Self::Environment => "reads environment variables",
        }
    }

    /// An example value for the manifest.
    #[must_use]
    pub const fn example(self) -> &'static str {
        match self {
            Self::Files => "\"/data\" = { path = \"./data\", mode = \"read\" }",
            Self::Http => "allow = [\"api.example.com\"]",
            Self::Tcp => "tcp = [\"db.example.com:5432\"]",
            Self::Udp => "udp = [\"192.0.2.1:53\"]",
            Self::Environment => "LANG = \"C\"",
        }
    }

    /// The WASI interface that it uses.
    #[must_use]
    pub const fn interface(self) -> &'static str {
        match self {
            Self::Files => "wasi:filesystem/types",
            Self::Http => "wasi:http/outgoing-handler",
            Self::Tcp => "wasi:sockets/tcp-create-socket",
            Self::Udp => "wasi:sockets/udp-create-socket",
            Self::Environment => "wasi:cli/environment",
        }
    }

    fn is_by(self, function: &str) -> bool {
        match self {
            Self::Files => function.ends_with("-at") || function.ends_with(".read-directory"),
            Self::Http => function == "handle",
            Self::Tcp => function == "create-tcp-socket",
            Self::Udp => function == "create-udp-socket",
            Self::Environment => function == "get-environment",
        }
    }
}

/// The imports that a component uses.
pub(crate) fn of(component: &Component) -> Vec<ImportUse> {
    let engine = component.engine();
    let mut found = Vec::new();
    for (name, import) in component.component_type().imports(engine) {
        let ComponentItem::ComponentInstance(instance) = import.ty else { continue };
        let interface = name.split('@').next().unwrap_or_default();
        for (function, _) in instance.exports(engine) {
            found.extend(
                ImportUse::ALL.iter().filter(|used| used.interface() == interface && used.is_by(function)),
            );
        }
    }
    found.sort_unstable();
    found.dedup();
    found
}
